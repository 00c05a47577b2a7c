package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Sysctls is where the kernel shows the settings of the network namespace that a process runs in.
const Sysctls = "/proc/sys/net/ipv4"

// Prepare lets the network namespace forward packets, also those that come in where answers to their source would not go out (the
// overlay carries packets of pods from their node, whose own address is elsewhere). It needs a writable /proc/sys, which is why a container
// of its own does it, once.
func Prepare(directory string) error {
	problems := []error{set(filepath.Join(directory, "ip_forward"), "1")}
	// The higher of "all" and the link's own counts, and "default" is what links to come begin with.
	filters, err := filepath.Glob(filepath.Join(directory, "conf", "*", "rp_filter"))
	if err != nil || len(filters) == 0 {
		problems = append(problems, fmt.Errorf("looking for rp_filter below %s: found none: %w", directory, errors.Join(err, os.ErrNotExist)))
	}
	for _, filter := range filters {
		problems = append(problems, set(filter, "0"))
	}
	return errors.Join(problems...)
}

// set writes a setting.
func set(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("setting %s to %s (the container must be privileged): %w", path, value, err)
	}
	return nil
}
