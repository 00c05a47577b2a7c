package cluster

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"liqo.io/playground/component"
	"liqo.io/playground/process"
)

// ForwardWord is the text that the forwarder must read from its standard input before it starts forwarding.
const ForwardWord = "go"

// forward starts the process that forwards connections from a port of the machine's loopback to the API server. It does nothing
// if that process is already running.
func (m Machine) forward(state State) error {
	file := filepath.Join(m.dir(state.Name), "forward.pid")
	id, err := process.Load(file)
	if err != nil || id.Alive() {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(m.dir(state.Name), "forward.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the forwarder's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self, "forward",
		"--internet="+m.internet().Path,
		fmt.Sprintf("--listen=127.0.0.1:%d", state.ForwardPort),
		"--to="+netip.AddrPortFrom(state.ControlPlane().Address, component.APIPort).String(),
	)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the forwarder: %w", err)
	}
	defer func() { _ = gate.Close() }()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the forwarder: %w", err)
	}
	go func() { _ = cmd.Wait() }() // reaps the forwarder if it ends before this program does
	// The forwarder gets its own control group, so that limiting or killing the caller's group does not affect it.
	group := m.group("forward")
	if err := group.Make(); err != nil {
		return err
	}
	if err := group.Add(cmd.Process.Pid); err != nil {
		return err
	}
	if id, err = process.Of(cmd.Process.Pid); err != nil {
		return err
	}
	if err := id.Save(file); err != nil {
		return err
	}
	// The forwarder may start only now that its PID file exists, because deleting the cluster relies on that file.
	// If this process fails earlier, the forwarder reads no ForwardWord and exits.
	_, err = gate.Write([]byte(ForwardWord))
	return err
}
