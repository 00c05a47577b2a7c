package gateway

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// batch puts all threads of this process, and those that they start, under SCHED_BATCH (sched(7)): who is woken waits for its turn instead of
// interrupting who wakes it. A packet passes from thread to thread in WireGuard in user space, and being interrupted at each step costs a sixth of the
// throughput. It takes no privilege, and no share of the processor from anybody.
func batch() error {
	for {
		changed, err := batchThreads()
		if err != nil {
			return fmt.Errorf("setting scheduling policy SCHED_BATCH: %w", err)
		}
		if !changed {
			return nil
		}
		// A thread that started meanwhile has the policy of the one that started it.
	}
}

// batchThreads tells whether there was one to change.
func batchThreads() (changed bool, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return false, err
		}
		attributes, err := unix.SchedGetAttr(id, 0)
		if errors.Is(err, unix.ESRCH) { // it ended
			continue
		}
		if err != nil {
			return false, err
		}
		if attributes.Policy != unix.SCHED_NORMAL { // somebody chose another one, or it is done
			continue
		}
		attributes.Policy = unix.SCHED_BATCH
		if err := unix.SchedSetAttr(id, attributes, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return false, err
		}
		changed = true
	}
	return changed, nil
}
