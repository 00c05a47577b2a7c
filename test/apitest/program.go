package apitest

import (
	"os"
	"os/exec"
	"runtime"
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

// begin starts a program. The program is killed when the test ends, even if the process of the test is killed. The test fails if the program ends by
// itself.
func begin(t testing.TB, name string, args []string) *program {
	t.Helper()
	p := &program{name: name, cmd: exec.Command(args[0], args[1:]...), gone: make(chan struct{})}
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	defer func() { _ = log.Close() }()
	p.log, p.cmd.Stderr = log.Name(), log
	p.cmd.SysProcAttr = endsWithParent()
	started := make(chan error)
	go func() {
		// The kernel kills the program when the thread that started it ends (see endsWithParent), so the thread stays until the program has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if started <- err; err != nil {
			return
		}
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if p.cmd.ProcessState.Exited() { // the program ended by itself, not by a signal
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
		t.FailNow() // the output of the program is reported at the end of the test
	default:
	}
}

// said returns the last lines of the program's output.
func (p *program) said() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4096):]
}
