// Command pause keeps the namespaces of a pod alive. It is PID 1 of the pod's sandbox, reaps orphaned processes, and exits on
// SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	debug.SetGCPercent(-1) // garbage collection would only use memory, because nothing is allocated from here on
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap reaps all child processes that have ended. One SIGCHLD may stand for several of them.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
