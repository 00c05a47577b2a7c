// Package host checks this machine for the programs that clusters require, and raises the few kernel limits that clusters need.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// need is a required program and the Debian package that contains it.
type need struct{ program, pkg string }

// Require returns an error if this machine cannot run clusters. The error lists what is missing and how to install it.
func Require() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("clusters need Linux, and this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("clusters need root: namespaces, mounts and control groups are made; run it with sudo")
	}
	return programs([]need{{"runc", "runc"}, {"nft", "nftables"}, {"busybox", "busybox-static"}, {"mount", "mount"}}, exec.LookPath)
}

// RequireBuild returns an error if a program required to build programs and images is missing.
func RequireBuild() error { return programs([]need{{"busybox", "busybox-static"}}, exec.LookPath) }

func programs(needs []need, look func(string) (string, error)) error {
	var missing, pkgs []string
	for _, n := range needs {
		if _, err := look(n.program); err != nil {
			missing, pkgs = append(missing, n.program), append(pkgs, n.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing on this machine: %s; get it with: apt-get install -y --no-install-recommends %s",
		strings.Join(missing, ", "), strings.Join(pkgs, " "))
}

// limits returns the minimum value for each machine-wide limit that many clusters would exceed. One cluster uses 21 inotify instances.
func limits() map[string]int {
	return map[string]int{"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 1 << 20}
}

// Raise raises the limits that are too low. It first saves their original values in the file record.
func Raise(record string) error {
	before := map[string]int{}
	if data, err := os.ReadFile(record); err == nil {
		if err := json.Unmarshal(data, &before); err != nil {
			return fmt.Errorf("reading %s: %w", record, err)
		}
	}
	for name, want := range limits() {
		have, err := read(name)
		if err != nil {
			return err
		}
		if have >= want {
			continue
		}
		if _, noted := before[name]; !noted {
			before[name] = have
		}
		data, err := json.Marshal(before)
		if err != nil {
			return err
		}
		if err := os.WriteFile(record+".new", data, 0o644); err != nil {
			return fmt.Errorf("noting the machine's settings: %w", err)
		}
		if err := os.Rename(record+".new", record); err != nil {
			return fmt.Errorf("noting the machine's settings: %w", err)
		}
		if err := write(name, want); err != nil {
			return err
		}
	}
	return nil
}

// Restore resets the limits to the values in the file record and removes the file. It skips limits whose current value is not the one that
// Raise set. It returns the restored settings as NAME=VALUE, sorted.
func Restore(record string) ([]string, error) {
	data, err := os.ReadFile(record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the machine's settings: %w", err)
	}
	before := map[string]int{}
	if err := json.Unmarshal(data, &before); err != nil {
		return nil, fmt.Errorf("reading %s: %w", record, err)
	}
	var restored []string
	for name, value := range before {
		have, err := read(name)
		if err != nil {
			return nil, err
		}
		if have != limits()[name] {
			continue // another program has changed it since
		}
		if err := write(name, value); err != nil {
			return nil, err
		}
		restored = append(restored, fmt.Sprintf("%s=%d", strings.ReplaceAll(name, "/", "."), value))
	}
	slices.Sort(restored)
	return restored, os.Remove(record)
}

func read(name string) (int, error) {
	data, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, fmt.Errorf("reading setting: %w", err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("reading setting %s: %w", name, err)
	}
	return value, nil
}

func write(name string, value int) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(strconv.Itoa(value)), 0o644); err != nil {
		return fmt.Errorf("changing setting: %w", err)
	}
	return nil
}
