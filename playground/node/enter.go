package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"liqo.io/playground/cgroup"
)

// Streams are the standard input, output and error of a program.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exec runs a program in all namespaces and in the control group of the node whose folder is dir. The calling process moves into
// that control group permanently. If the program fails, the error is an *exec.ExitError.
func Exec(dir string, args []string, streams Streams) error {
	spec, err := Load(dir)
	if err != nil {
		return err
	}
	id, err := Process(dir)
	if err != nil {
		return err
	}
	if !id.Alive() {
		return fmt.Errorf("entering node %s: it does not run", spec.Node.Name)
	}
	group := cgroup.Group{Hierarchies: spec.Hierarchies, Name: spec.Group}
	if err := group.Add(os.Getpid()); err != nil {
		return err
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the runtime destroys the thread when the goroutine ends
		if err := enter(id.PID); err != nil {
			result <- fmt.Errorf("entering node %s: %w", spec.Node.Name, err)
			return
		}
		_ = os.Setenv("PATH", path) // for finding the program and for the program itself
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = "/"
		cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.In, streams.Out, streams.Err
		cmd.Env = append(os.Environ(), "HOME=/root", "CONTAINERD_NAMESPACE=k8s.io")
		if spec.Node.ControlPlane {
			cmd.Env = append(cmd.Env, "KUBECONFIG=/etc/kubernetes/admin.kubeconfig")
		}
		result <- cmd.Run()
	}()
	return <-result
}

// enter moves the calling thread into the namespaces of a process. Only new child processes enter the PID namespace.
func enter(pid int) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(handle) }()
	// setns(2) rejects a mount namespace for a thread that shares its root and working directory with other threads.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	err = unix.Setns(handle, unix.CLONE_NEWNS|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWCGROUP)
	if errors.Is(err, unix.ESRCH) {
		return errors.New("it has just ended")
	}
	return err
}
