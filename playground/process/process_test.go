package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEnd(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	if err := id.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil || loaded != id || !loaded.Alive() {
		t.Fatalf("loaded %v, %v; want %v, alive", loaded, err, id)
	}
	// Nobody has collected it yet: it is a zombie, and not alive.
	if err := loaded.End(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if loaded.Alive() {
		t.Error("it is alive")
	}
	cmd.Wait()
	if err := loaded.End(time.Second); err != nil {
		t.Errorf("ending it again: %v", err)
	}
}

func TestSignalSparesAnotherProcessOfTheSameNumber(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	earlier := ID{id.PID, id.Start - 1, id.Boot}
	if err := earlier.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rebooted := ID{id.PID, id.Start, "another"}
	if err := rebooted.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if earlier.Alive() || rebooted.Alive() || !id.Alive() {
		t.Errorf("alive: earlier %t, now %t", earlier.Alive(), id.Alive())
	}
}

func TestLoadOfNothing(t *testing.T) {
	id, err := Load(filepath.Join(t.TempDir(), "missing"))
	if err != nil || id.Alive() {
		t.Errorf("%v, %v", id, err)
	}
	file := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil {
		t.Error("read a broken file")
	}
}
