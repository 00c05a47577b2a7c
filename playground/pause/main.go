// Command pause holds the namespaces of a pod: it is PID 1 of a pod's sandbox, does nothing, buries orphans and ends at
// SIGTERM or SIGINT.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	debug.SetGCPercent(-1) // nothing is allocated after this point, so the collector would only cost memory
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every ended child. One SIGCHLD may stand for many of them.
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
