package node

import (
	"os"
	"os/exec"
	"testing"
)

// TestStarted: the stage of a node's first process is told by its environment, and a process that has ended is in none.
func TestStarted(t *testing.T) {
	if started(os.Getpid()) {
		t.Error("this process counts as a node")
	}
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), secondStage)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !started(cmd.Process.Pid) {
		t.Error("a process of the second stage is in the first one")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if started(cmd.Process.Pid) {
		t.Error("a process that has ended is started")
	}
}
