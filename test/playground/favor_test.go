package playground

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestFavoredProcessesReturn(t *testing.T) {
	if _, err := os.Stat(filepath.Join(processors, "cpu.shares")); err != nil {
		if restore, err := Favor("favored-in-a-test"); err != nil || restore() != nil {
			t.Errorf("a machine without control groups of version 1 favors nobody, and that is no error: %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		if _, err := Favor("favored-in-a-test", os.Getpid()); err == nil {
			t.Error("only root may favor processes")
		}
		return
	}
	sleeping := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := sleeping.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeping.Process.Kill(); _ = sleeping.Wait() }()
	before, err := processorGroup(sleeping.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	restore, err := Favor("favored-in-a-test", sleeping.Process.Pid, sleeping.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if group, err := processorGroup(sleeping.Process.Pid); err != nil || filepath.Base(group) != "favored-in-a-test" {
		t.Errorf("it is in %s: %v", group, err)
	}
	if err := restore(); err != nil {
		t.Error(err)
	}
	if after, err := processorGroup(sleeping.Process.Pid); err != nil || after != before {
		t.Errorf("it was in %s, and is in %s: %v", before, after, err)
	}
	if _, err := os.Stat(filepath.Join(processors, "favored-in-a-test")); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}

// TestRestoreWaitsForEndingProcesses: a process that can't be moved any more keeps the group until it has ended.
func TestRestoreWaitsForEndingProcesses(t *testing.T) {
	if _, err := os.Stat(filepath.Join(processors, "cpu.shares")); err != nil || os.Geteuid() != 0 {
		return // TestFavoredProcessesReturn tests what Favor does here
	}
	restore, err := Favor("waits-in-a-test")
	if err != nil {
		t.Fatal(err)
	}
	ending := exec.CommandContext(t.Context(), "sleep", "0.5")
	if err := ending.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := move(ending.Process.Pid, filepath.Join(processors, "waits-in-a-test")); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- ending.Wait() }()
	if err := restore(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
