package app

import (
	"os"
	"runtime/debug"
)

// collectOften has the memory of a program whose objects live long collected when it has grown by half, not when it has doubled: of what it holds
// most is garbage of the last burst, and a collection costs little. GOGC in the environment says otherwise.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
