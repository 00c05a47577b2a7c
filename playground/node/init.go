package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// secondStage marks the run of Init that has its cgroup namespace.
const secondStage = "PLAYGROUND_NODE_STAGE=2"

const path = "/opt/playground/bin:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Init is PID 1 of a node. It returns only when the node is to end.
func Init(specPath string) error {
	dir := filepath.Dir(specPath)
	if os.Getenv("PLAYGROUND_NODE_STAGE") != "2" {
		return firstStage()
	}
	spec, err := Load(dir)
	if err != nil {
		return err
	}
	if err := mountAll(spec); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	if err := writeFiles(spec); err != nil {
		return fmt.Errorf("writing files: %w", err)
	}
	if err := wire(spec); err != nil {
		return fmt.Errorf("wiring: %w", err)
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	s := newSupervisor(spec.Services)
	if err := s.listen(controlSocket); err != nil {
		return err
	}
	s.start()
	slog.Info("node runs", "node", spec.Node.Name)
	<-stop
	slog.Info("node ends", "node", spec.Node.Name)
	s.shutdown()
	return nil
}

// firstStage waits until the control group and the cable are in place and starts the program anew in a cgroup namespace:
// a namespace takes as its root the groups its maker is in, and only a new program is wholly inside it.
func firstStage() error {
	if word, err := io.ReadAll(os.Stdin); err != nil || string(word) != "go" {
		return errors.New("waiting for the start: whoever starts this node has gone")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making a cgroup namespace: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return fmt.Errorf("starting anew: %w", unix.Exec(self, os.Args, append(os.Environ(), secondStage)))
}

func writeFiles(spec Spec) error {
	for _, f := range spec.Files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		// A link, as /etc/resolv.conf often is, must not be followed.
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(f.Path, []byte(f.Content), 0o644); err != nil {
			return err
		}
	}
	return unix.Sethostname([]byte(spec.Node.Name))
}

// load gives a ruleset to nft.
func load(ruleset string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(ruleset)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("loading firewall rules: %w: %s", err, out)
	}
	return nil
}
