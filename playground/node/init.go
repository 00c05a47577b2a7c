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

// secondStage is the environment variable that marks the second stage of Init, which runs in the node's cgroup namespace.
const secondStage = "PLAYGROUND_NODE_STAGE=2"

const path = "/opt/playground/bin:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Init runs as PID 1 of a node. It returns nil after SIGTERM or SIGINT, or an error if the node cannot start.
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

// firstStage waits until the node's control group and cable are ready. Then it creates a cgroup namespace and executes this program again.
// The root of a cgroup namespace is the control group of the process that creates it. Only one thread calls unshare, so the exec is
// needed to move the whole process into the namespace.
func firstStage() error {
	if word, err := io.ReadAll(os.Stdin); err != nil || string(word) != "go" {
		return errors.New("waiting for the start: whoever starts this node has gone")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("creating a cgroup namespace: %w", err)
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
		// Remove the old file first, so that WriteFile does not follow a symbolic link. /etc/resolv.conf is often one.
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(f.Path, []byte(f.Content), 0o644); err != nil {
			return err
		}
	}
	return unix.Sethostname([]byte(spec.Node.Name))
}

// load applies an nftables ruleset with nft.
func load(ruleset string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(ruleset)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("loading firewall rules: %w: %s", err, out)
	}
	return nil
}
