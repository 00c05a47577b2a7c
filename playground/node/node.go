// Package node runs one machine of a cluster, made of Linux namespaces, a control group and a folder. It also contains PID 1 of that
// machine: it sets up mounts and network, and supervises the programs of the plan.
package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/playground/cgroup"
	"liqo.io/playground/component"
	"liqo.io/playground/network"
	"liqo.io/playground/process"
)

// Spec describes a node and the places on this machine that it uses.
type Spec struct {
	component.Plan
	// Dir is the node's folder, which holds its disk, logs and credentials.
	Dir string `json:"dir"`
	// Set is the folder of programs and images that package build produced.
	Set string `json:"set"`
	// Volumes is the folder of the cluster's persistent volumes.
	Volumes string `json:"volumes"`
	// Group is the name of the node's control group.
	Group string `json:"group"`
	// Hierarchies are the cgroup hierarchies of this machine.
	Hierarchies []cgroup.Hierarchy `json:"hierarchies"`
}

// The folders and files inside Dir.
const (
	logs        = "log"
	credentials = "kubernetes"
	disk        = "var"
	optional    = "opt"
	temporary   = "tmp"
	etc         = "etc"
	etcWork     = "etc-work"
	values      = "sysctl"
	pidFile     = "init.pid"
	specFile    = "node.json"
)

// Start starts a node and returns once its control socket responds. It copies the credentials from the folder pki. It does nothing if
// the node is already running.
func Start(spec Spec, pki string, internet network.Internet) error {
	id, err := process.Load(filepath.Join(spec.Dir, pidFile))
	if err != nil {
		return err
	}
	if id.Alive() {
		if started(id.PID) {
			return nil
		}
		// The command that created the process was killed before it could start the node. The process waits for that command, and ends soon.
		if err := id.End(endTimeout); err != nil {
			return fmt.Errorf("starting node %s again: %w", spec.Node.Name, err)
		}
	}
	if err := prepare(spec, pki); err != nil {
		return fmt.Errorf("preparing node %s: %w", spec.Node.Name, err)
	}
	if err := start(spec, internet); err != nil {
		return fmt.Errorf("starting node %s: %w", spec.Node.Name, err)
	}
	return nil
}

// endTimeout is how long the killed first process of a node may take to end, with all others in its namespaces.
const endTimeout = 10 * time.Second

// started reports whether the first process of a node has completed its first stage. A process that has ended counts as not started.
func started(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environment, []byte(secondStage))
}

func prepare(spec Spec, pki string) error {
	for _, dir := range []string{logs, credentials, disk, optional, temporary, etc, etcWork, values} {
		if err := os.MkdirAll(filepath.Join(spec.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(spec.Dir, temporary), 0o777|fs.ModeSticky); err != nil {
		return err
	}
	if err := os.MkdirAll(spec.Volumes, 0o777); err != nil {
		return err
	}
	for _, name := range spec.Credentials {
		data, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(spec.Dir, credentials, name), data, 0o600); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	// Write the file atomically: Stop cannot stop a node without it.
	file := filepath.Join(spec.Dir, specFile)
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// start starts PID 1 of the node. PID 1 waits on its standard input until its control group and its cable are ready.
func start(spec Spec, internet network.Internet) (err error) {
	group := cgroup.Group{Hierarchies: spec.Hierarchies, Name: spec.Group}
	if err := group.Make(); err != nil {
		return err
	}
	if err := internet.Unplug(spec.Node.Cable); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(spec.Dir, logs, "init.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self, "node-init", filepath.Join(spec.Dir, specFile))
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET,
	}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill()
		}
	}()
	id, err := process.Of(cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := id.Save(filepath.Join(spec.Dir, pidFile)); err != nil {
		return err
	}
	if err := group.Add(id.PID); err != nil {
		return err
	}
	if err := internet.Plug(spec.Node.Cable, spec.Node.MAC, id.PID); err != nil {
		return err
	}
	if _, err := gate.Write([]byte("go")); err != nil {
		return err
	}
	if err := gate.Close(); err != nil {
		return err
	}
	return await(spec.Dir, ended)
}

// await returns once the node responds on its control socket. It fails if PID 1 ends, or after one minute.
func await(dir string, ended <-chan error) error {
	const limit = time.Minute
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		_, err := Control(dir, StatusOf, "")
		if err == nil {
			return nil
		}
		select {
		case err := <-ended:
			words, _ := os.ReadFile(filepath.Join(dir, logs, "init.log"))
			return fmt.Errorf("its first process has ended: %w: %s", err, words[max(0, len(words)-500):])
		case <-deadline:
			return fmt.Errorf("it does not answer after %v: %w", limit, err)
		case <-tick.C:
		}
	}
}

// Process returns the identity of PID 1 of the node whose folder is dir. The process may have ended.
func Process(dir string) (process.ID, error) { return process.Load(filepath.Join(dir, pidFile)) }

// Load returns the Spec that the node was last started with.
func Load(dir string) (Spec, error) {
	var spec Spec
	data, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return spec, fmt.Errorf("reading node: %w", err)
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return spec, fmt.Errorf("reading node %s: %w", dir, err)
	}
	return spec, nil
}

// Stop stops the node whose folder is dir and keeps its disk. With grace, the node's programs get SIGTERM and time to end first.
// Without grace, it is like a power failure. Stopping a node that is not running is not an error.
func Stop(dir string, grace bool, internet network.Internet) error {
	spec, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the node was never started
	}
	if err != nil {
		return err
	}
	id, err := Process(dir)
	if err != nil {
		return err
	}
	if grace {
		if err := id.Signal(unix.SIGTERM); err != nil {
			return err
		}
		_ = id.Wait(shutdown + 2*time.Second) // End kills the rest
	}
	if err := id.End(20 * time.Second); err != nil {
		return fmt.Errorf("stopping node %s: %w", spec.Node.Name, err)
	}
	if err := os.Remove(filepath.Join(dir, pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := internet.Unplug(spec.Node.Cable); err != nil {
		return err
	}
	return cgroup.Group{Hierarchies: spec.Hierarchies, Name: spec.Group}.Remove()
}
