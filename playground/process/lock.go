package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is how long Lock rests before it tries again: the kernel's own wait could not be ended by a context.
const lockPause = 20 * time.Millisecond

// Lock takes the lock that a file stands for, and waits as long as another process, or another caller in this one, holds it. waiting is
// called once, if there is a wait, with the process that holds the lock: its ID and command. The lock ends with unlock, or with the process.
func Lock(ctx context.Context, name string, waiting func(holder string)) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			sign(file)
			return func() { _ = file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		if waiting != nil {
			waiting(holder(file))
			waiting = nil
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("waiting for %s, which holds lock %s: %w", holder(file), name, ctx.Err())
			_ = file.Close()
			return nil, err
		case <-time.After(lockPause):
		}
	}
}

// sign writes into a lock who holds it. That is for people: a lock without it is as good.
func sign(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "process %d (%s)", os.Getpid(), strings.Join(os.Args, " ")), 0)
	}
}

// holder is who signed a lock.
func holder(file *os.File) string {
	text := make([]byte, 300) // as much of a command as a line takes
	n, _ := file.ReadAt(text, 0)
	if n == 0 {
		return "another command" // it has taken the lock this very moment
	}
	return string(text[:n])
}
