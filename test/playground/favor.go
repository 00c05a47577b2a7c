package playground

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The cgroup hierarchy of the CPU controller (cgroup v1, see cgroups(7)), and the maximum number of CPU shares that the kernel accepts.
const (
	processors = "/sys/fs/cgroup/cpu"
	mostShares = 262144
)

// Favor gives processes of containers a higher CPU priority than all others on this machine, until restore is called. It moves them from the control
// group of their container to a new one. So a test on a machine with few processors observes the effect of its own actions, and not the effect of a
// lack of CPU time. It ignores processes that have ended, such as a command that an agent ran. On a machine without cgroup v1, Favor does nothing.
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
		if err := removeGroup(group); failed == nil {
			failed = err
		}
		return failed
	}
	if err := os.WriteFile(filepath.Join(group, "cpu.shares"), []byte(strconv.Itoa(mostShares)), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("favoring processes: %w", err), restore())
	}
	for _, pid := range pids {
		if _, moved := before[pid]; moved {
			continue
		}
		home, err := processorGroup(pid)
		if gone(err) {
			continue
		}
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

// exitTime is how long an ending process may take to leave its control group.
const exitTime = 10 * time.Second

// removeGroup removes a control group without processes. Linux rejects this with EBUSY while a process in it is ending, which can't be moved any more.
func removeGroup(group string) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(group)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EBUSY) || time.Since(began) > exitTime:
			left, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
			return fmt.Errorf("removing a control group, which has the processes %q: %w", strings.Fields(string(left)), err)
		}
	}
}

// move moves a process, with all its threads, to a control group. It ignores a process that has ended.
func move(pid int, group string) error {
	err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil && !gone(err) {
		return fmt.Errorf("moving process %d to control group %s: %w", pid, group, err)
	}
	return nil
}

// processorGroup returns the folder of a process' control group in the hierarchy of the CPU controller.
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
