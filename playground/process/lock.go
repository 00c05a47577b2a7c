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

// lockPause is how long Lock waits between attempts. Lock polls because a context cannot interrupt a blocking flock(2).
const lockPause = 20 * time.Millisecond

// Lock locks the named file with flock(2). It waits while another process, or another caller in this process, holds the lock. If it has to
// wait, it calls waiting once with a description of the holder: its process ID and command line. The lock ends when unlock is called or
// the process ends. The error wraps ctx.Err() if ctx ends first.
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

// sign writes the process ID and command line of the holder into the lock file. They only serve messages to users, so errors are ignored.
func sign(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt(fmt.Appendf(nil, "process %d (%s)", os.Getpid(), strings.Join(os.Args, " ")), 0)
	}
}

// holder returns the description that sign wrote into a lock file.
func holder(file *os.File) string {
	text := make([]byte, 300) // enough of a command line for one line of output
	n, _ := file.ReadAt(text, 0)
	if n == 0 {
		return "another command" // the holder has just taken the lock and not written its description yet
	}
	return string(text[:n])
}
