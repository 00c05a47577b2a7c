package playground

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The hierarchy of the processor in control groups of version 1 (cgroups(7)), and the most shares that the kernel accepts.
const (
	processors = "/sys/fs/cgroup/cpu"
	mostShares = 262144
)

// Favor gives processes of containers the processor before all others of this machine, until restore is called. It moves them from the control group of
// their container to one of their own. So a test sees what is done to them, and not what any work does to a machine that has few processors. A machine
// without control groups of version 1 favors nobody.
func Favor(name string, pids ...int) (restore func() error, err error) {
	if _, err := os.Stat(filepath.Join(processors, "cpu.shares")); err != nil {
		return func() error { return nil }, nil
	}
	group := filepath.Join(processors, name)
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("favoring processes: %w", err)
	}
	before := map[int]string{}
	restore = func() error {
		var failed error
		for pid, home := range before {
			failed = errors.Join(failed, move(pid, home))
		}
		if err := os.Remove(group); err != nil && failed == nil {
			failed = fmt.Errorf("removing a control group that has no process: %w", err)
		}
		return failed
	}
	if err := os.WriteFile(filepath.Join(group, "cpu.shares"), []byte(strconv.Itoa(mostShares)), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("favoring processes: %w", err), restore())
	}
	for _, pid := range pids {
		home, err := processorGroup(pid)
		if err == nil {
			before[pid] = home
			err = move(pid, group)
		}
		if err != nil {
			return nil, errors.Join(err, restore())
		}
	}
	return restore, nil
}

// move moves a process, with all its threads, to a control group. One that has ended needs no move.
func move(pid int, group string) error {
	err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil && !gone(err) {
		return fmt.Errorf("moving process %d to control group %s: %w", pid, group, err)
	}
	return nil
}

// processorGroup returns the folder of a process' control group in the hierarchy of the processor.
func processorGroup(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", fmt.Errorf("finding the control group of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) { // ID:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "cpu" {
				return filepath.Join(processors, parts[2]), nil
			}
		}
	}
	return "", fmt.Errorf("finding the control group of process %d: it has none for the processor", pid)
}
