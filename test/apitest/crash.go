package apitest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
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
	pid, args := child(t, "--secure-port="+at.Port())
	kill(t, pid, "the API server")
	return func() {
		t.Helper()
		begin(t, "the API server", args)
	}
}

// kill ends a child of this process with SIGKILL, and waits until it has ended, because only then are its ports free.
func kill(t testing.TB, pid int, name string) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("killing process %d: %v", pid, err)
	}
	Eventually(t, time.Minute, name+" to be gone", func() error {
		if parentOf(pid) != 0 {
			return fmt.Errorf("process %d is there", pid)
		}
		return nil
	})
}

// child returns the PID and the command line of the child of this process that has an argument.
func child(t testing.TB, argument string) (int, []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00"+argument+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || parentOf(pid) != os.Getpid() {
			continue
		}
		return pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	t.Fatalf("no child of this process has the argument %s", argument)
	return 0, nil
}

// parentOf returns the PID of the parent of a process, 0 if there is no such process.
func parentOf(pid int) int {
	fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// stat returns the fields of a stat file of a process or thread that follow the program name: the state first, then the parent; see proc(5). It
// returns none if there is no such file.
func stat(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the program name before it may contain any character
}
