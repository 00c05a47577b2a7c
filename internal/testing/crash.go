package testing

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Crash kills the API server of config, which this test must have started, with SIGKILL. It returns a function that restarts the
// same program with the same arguments, so that all credentials stay valid. The etcd of the server keeps running meanwhile.
func Crash(t testing.TB, config *rest.Config) (restart func()) {
	t.Helper()
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("reading address %s: %v", config.Host, err)
	}
	pid, args := serverAt(t, at.Port())
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("killing process %d: %v", pid, err)
	}
	// The port is free only after the process has ended.
	Eventually(t, time.Minute, "the API server to be gone", func() error {
		if parentOf(pid) != 0 {
			return fmt.Errorf("process %d is there", pid)
		}
		return nil
	})
	return func() {
		t.Helper()
		var said bytes.Buffer
		server := exec.Command(args[0], args[1:]...)
		server.Stderr = &said
		if err := server.Start(); err != nil {
			t.Fatalf("starting %s again: %v", args[0], err)
		}
		t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
			if server.ProcessState.Exited() { // by itself, not by a signal
				t.Errorf("the API server did not stay: %s", said.Bytes())
			}
		})
	}
}

// serverAt returns the PID and the command line of the child of this process that serves at a port.
func serverAt(t testing.TB, port string) (int, []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00--secure-port="+port+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || parentOf(pid) != os.Getpid() {
			continue
		}
		return pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	t.Fatalf("no child of this process serves at port %s", port)
	return 0, nil
}

// parentOf returns the PID of the parent of a process, 0 if there is no such process; see proc(5).
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the program name before it may contain any character
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
