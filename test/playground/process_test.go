package playground

import (
	"os"
	"testing"
)

// TestMemoryOfProcesses: shared pages of mapped files count once, and private pages for each process.
func TestMemoryOfProcesses(t *testing.T) {
	pid := os.Getpid()
	one, err := MeasureProcesses(pid)
	if err != nil {
		t.Fatal(err)
	}
	two, err := MeasureProcesses(pid, pid)
	if err != nil {
		t.Fatal(err)
	}
	if one.Resident < 1<<20 || two.Resident <= one.Resident || two.Resident >= 2*one.Resident {
		t.Errorf("one process holds %d bytes, twice the same %d", one.Resident, two.Resident)
	}
	if _, err := MeasureProcesses(1 << 30); err == nil {
		t.Error("that is no process")
	}
}
