// Package process identifies running processes by process ID, start time and boot. This makes sure that a signal never reaches another
// process that has reused the process ID.
package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ID identifies one process uniquely, also after its process ID has been reused.
type ID struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot.
	Start uint64 `json:"start"`
	// Boot is the ID of the boot, from /proc/sys/kernel/random/boot_id.
	Boot string `json:"boot"`
}

func boot() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(data)), err
}

// Of returns the identity of a running process.
func Of(pid int) (ID, error) {
	_, start, err := stat(pid)
	if err != nil {
		return ID{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	boot, err := boot()
	if err != nil {
		return ID{}, fmt.Errorf("identifying the boot: %w", err)
	}
	return ID{pid, start, boot}, nil
}

// stat reads the state letter and the start time from /proc/PID/stat.
func stat(pid int) (state byte, start uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// Skip the second field: it is the program's name in parentheses and may contain any character.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, errors.New("/proc stat is too short")
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return fields[0][0], start, err
}

// Alive reports whether the process is running. A zombie is not alive.
func (id ID) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	if boot, err := boot(); err != nil || boot != id.Boot {
		return false
	}
	state, start, err := stat(id.PID)
	return err == nil && start == id.Start && state != 'Z' && state != 'X'
}

// Signal sends a signal to the process. It does nothing if the process has ended.
func (id ID) Signal(signal unix.Signal) error {
	if !id.Alive() {
		return nil
	}
	handle, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return fmt.Errorf("opening process %d: %w", id.PID, err)
	}
	defer func() { _ = unix.Close(handle) }()
	// Check again now that the pidfd is open: from here on it cannot refer to another process.
	if !id.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", id.PID, err)
	}
	return nil
}

// Wait waits until the process has ended. It returns an error after timeout.
func (id ID) Wait(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); id.Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for process %d to end: still there after %v", id.PID, timeout)
		}
	}
	return nil
}

// End kills the process with SIGKILL and waits until it has ended. It returns an error after timeout.
func (id ID) End(timeout time.Duration) error {
	if err := id.Signal(unix.SIGKILL); err != nil {
		return err
	}
	return id.Wait(timeout)
}

// Save writes the identity to a file atomically.
func (id ID) Save(name string) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", data, 0o644); err != nil {
		return fmt.Errorf("saving process %d: %w", id.PID, err)
	}
	return os.Rename(name+".new", name)
}

// Load reads an identity from a file. If the file does not exist, it returns the zero ID, which is not alive.
func Load(name string) (ID, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ID{}, nil
	}
	if err != nil {
		return ID{}, fmt.Errorf("reading process file: %w", err)
	}
	var id ID
	if err := json.Unmarshal(data, &id); err != nil {
		return ID{}, fmt.Errorf("reading process file %s: %w", name, err)
	}
	return id, nil
}
