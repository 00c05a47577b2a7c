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

// ForwardWord on its input lets the forwarder begin.
const ForwardWord = "go"

// forward starts the process that leads from the machine's loopback to the API server, unless it runs.
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
	go func() { _ = cmd.Wait() }() // collects it if it ends before this program does
	// A group of its own: whoever limits or ends the caller's group must not end the forwarder.
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
	// Only a forwarder that can be found again may begin: without the word it ends.
	_, err = gate.Write([]byte(ForwardWord))
	return err
}
