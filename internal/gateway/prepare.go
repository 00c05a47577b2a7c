package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Sysctls is the directory of the IPv4 settings of the network namespace of this process.
const Sysctls = "/proc/sys/net/ipv4"

// Prepare enables packet forwarding in the network namespace and turns off the reverse path filter (rp_filter), which drops a
// packet if the route to its source uses another link. Packets of pods arrive through the overlay from the node of the pod, and the
// node's own address is routed through another link. Prepare needs a writable /proc/sys, so a separate container runs it once.
func Prepare(directory string) error {
	problems := []error{set(filepath.Join(directory, "ip_forward"), "1")}
	// The kernel uses the higher of "all" and the value of the link; new links start with the value of "default". So all of them
	// are set.
	filters, err := filepath.Glob(filepath.Join(directory, "conf", "*", "rp_filter"))
	if err != nil || len(filters) == 0 {
		problems = append(problems, fmt.Errorf("looking for rp_filter below %s: found none: %w", directory, errors.Join(err, os.ErrNotExist)))
	}
	for _, filter := range filters {
		problems = append(problems, set(filter, "0"))
	}
	return errors.Join(problems...)
}

func set(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting %s to %s (the container must be privileged): %w", path, value, err)
	}
	return nil
}
