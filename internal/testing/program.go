package testing

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// program is a program that runs until the test ends.
type program struct {
	name string
	cmd  *exec.Cmd
	log  string
	gone chan struct{} // closed when it has ended
}

// begin starts a program, which is killed when the test ends. The test fails if the program ends by itself.
func begin(t testing.TB, name string, args []string) *program {
	t.Helper()
	p := &program{name: name, cmd: exec.Command(args[0], args[1:]...), gone: make(chan struct{})}
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	defer func() { _ = log.Close() }()
	p.log, p.cmd.Stderr = log.Name(), log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if p.cmd.ProcessState.Exited() { // by itself, not by a signal
			t.Errorf("%s ended: %s", name, p.said())
		}
	})
	return p
}

// stop sends a signal to the program, and waits for its end.
func (p *program) stop(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("stopping %s: %v", p.name, err)
	}
	<-p.gone
}

// mustRun ends the test if the program has ended.
func (p *program) mustRun(t testing.TB) {
	t.Helper()
	select {
	case <-p.gone:
		t.FailNow() // what it said is reported at the end of the test
	default:
	}
}

// said returns the last lines that the program has written.
func (p *program) said() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4096):]
}
