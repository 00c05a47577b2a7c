package app

import (
	"os"
	"runtime/debug"
)

// collectOften makes the garbage collector run when the heap has grown by half, not only when it has doubled. It suits programs
// with long-lived objects: most of their extra memory is garbage of the last burst, and a collection needs little CPU time. The
// environment variable GOGC overrides it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
