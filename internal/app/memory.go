package app

import (
	"os"
	"runtime/debug"
)

// collectOften makes the garbage collector run when the heap has grown by half, not only when it has doubled. This suits programs
// whose memory holds mostly long-lived objects: their garbage comes in bursts, and a collection needs little CPU time. The environment
// variable GOGC overrides it.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
