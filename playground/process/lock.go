package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is how long Lock rests before it tries again: the kernel's own wait could not be ended by a context.
const lockPause = 20 * time.Millisecond

// Lock takes the lock that a file stands for, and waits as long as another process, or another caller in this one, holds it. waiting is
// called once, if there is a wait. The lock ends with unlock, or with the process.
func Lock(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another command that holds %s: %w", name, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}
