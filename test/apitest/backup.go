package apitest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Backup saves the state of the API server of config, which this test must have started, and lets the server continue. It returns a function that
// restores the state as administrators restore a backup: it kills API server and etcd, copies the saved files to etcd, and starts both again with the
// same arguments. After that, resource versions are lower than before, and later writes get resource versions that other writes had before.
func Backup(t testing.TB, config *rest.Config) (restore func()) {
	t.Helper()
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("reading address %s: %v", config.Host, err)
	}
	_, server := child(t, "--secure-port="+at.Port())
	address := flagOf(t, server, "etcd-servers")
	pid, etcd := child(t, "--listen-client-urls="+address)
	files, saved := flagOf(t, etcd, "data-dir"), filepath.Join(t.TempDir(), "etcd")
	paused(t, pid, func() error { return os.CopyFS(saved, os.DirFS(files)) })
	return func() {
		t.Helper()
		restart := Crash(t, config)
		pid, etcd := child(t, "--listen-client-urls="+address)
		kill(t, pid, "etcd")
		if err := os.RemoveAll(files); err != nil {
			t.Fatalf("removing the state of etcd: %v", err)
		}
		if err := os.CopyFS(files, os.DirFS(saved)); err != nil {
			t.Fatalf("restoring the state of etcd: %v", err)
		}
		begin(t, "etcd", etcd)
		Eventually(t, time.Minute, "etcd to be back", func() error {
			conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				return err
			}
			return conn.Close()
		})
		restart()
	}
}

// flagOf returns the value of a flag in a command line.
func flagOf(t testing.TB, args []string, name string) string {
	t.Helper()
	for _, arg := range args {
		if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return value
		}
	}
	t.Fatalf("%s has no flag --%s", args[0], name)
	return ""
}

// paused calls a function while all threads of a child of this process are stopped. So the files of the child are consistent, as after a power
// failure.
func paused(t testing.TB, pid int, do func() error) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stopping process %d: %v", pid, err)
	}
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Errorf("continuing process %d: %v", pid, err)
		}
	}()
	Eventually(t, 10*time.Second, "all threads to stop", func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		for _, thread := range threads {
			if fields := stat(thread); len(fields) > 0 && fields[0] != "T" {
				return fmt.Errorf("the state of thread %s is %s", thread, fields[0])
			}
		}
		return nil
	})
	if err := do(); err != nil {
		t.Fatalf("saving the state: %v", err)
	}
}
