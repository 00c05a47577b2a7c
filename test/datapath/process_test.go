package datapath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

// gatewayProgram builds the program of gateway pods.
func gatewayProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "gateway")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "liqo.io/liqo/cmd/gateway").CombinedOutput()
	if err != nil {
		t.Fatalf("building the gateway: %v\n%s", err, out)
	}
	return program
}

// run starts a program in the namespace. The program sees directory as the folder that the containers of a gateway pod share.
func (h *host) run(t *testing.T, directory string, program ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err := inThread(func() error {
		return errors.Join(
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			os.MkdirAll(gateway.Directory, 0o755),
			unix.Mount(directory, gateway.Directory, "", unix.MS_BIND, ""),
			netns.Set(h.ns),
			cmd.Start())
	})
	if err != nil {
		t.Fatalf("starting %s: %v", strings.Join(program, " "), err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited 20 s for %s: %v", what, err)
		}
	}
}

// TestTunnelOutlivesItsProcess: a user-space tunnel keeps link, addresses and routes when its process is killed or stopped. The next process uses the
// link as the agent configured it.
func TestTunnelOutlivesItsProcess(t *testing.T) {
	h, directory, program := newHost(t, "gateway"), t.TempDir(), gatewayProgram(t)
	if err := h.run(t, directory, program, "prepare").Wait(); err != nil {
		t.Fatalf("preparing the namespace: %v", err)
	}
	h.must(t, func() error {
		for key, want := range map[string]string{"ip_forward": "1", "conf/all/rp_filter": "0", "conf/default/rp_filter": "0", "conf/lo/rp_filter": "0"} {
			if got, err := os.ReadFile(filepath.Join(gateway.Sysctls, key)); err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s is %q, %v, want %s", key, got, err, want)
			}
		}
		return nil
	})

	process := h.run(t, directory, program, "tunnel", "--implementation=userspace", "--mtu=1400")
	state := func(want netlink.LinkOperState) func() error {
		return func() error {
			link, err := h.kernel.LinkByName(dataplane.TunnelLink)
			if err != nil {
				return err
			}
			if got := link.Attrs().OperState; got != want && got != netlink.OperUnknown {
				return fmt.Errorf("the link is %s, want %s", got, want)
			}
			return nil
		}
	}
	// It answers only once the whole state is restored.
	answers := func() error {
		conn, err := net.Dial("unix", filepath.Join(directory, dataplane.TunnelLink+".sock"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("get=1\n\n")); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	eventually(t, "the tunnel", answers)
	link := h.link(t, dataplane.TunnelLink)
	if err := h.kernel.LinkSetMTU(link, 1300); err != nil {
		t.Fatal(err)
	}
	h.address(t, dataplane.TunnelLink, network.ServerAddress().String())
	h.up(t, dataplane.TunnelLink)
	h.route(t, "10.244.0.0/16", dataplane.TunnelLink, network.ClientAddress().Addr().String())
	kept := func(when string) {
		t.Helper()
		now := h.link(t, dataplane.TunnelLink)
		routes, err := h.kernel.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: now.Attrs().Index, Dst: &net.IPNet{
			IP: net.IPv4(10, 244, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST)
		addresses, failed := h.kernel.AddrList(now, netlink.FAMILY_V4)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if now.Attrs().Index != link.Attrs().Index || now.Attrs().MTU != 1300 || len(routes) != 1 || len(addresses) != 1 {
			t.Errorf("%s: link %d of MTU %d, routes %v, addresses %v; it was link %d of MTU 1300, with one of each", when,
				now.Attrs().Index, now.Attrs().MTU, routes, addresses, link.Attrs().Index)
		}
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	kept("after the process was killed")

	process = h.run(t, directory, program, "tunnel", "--implementation=kernel", "--mtu=1400")
	eventually(t, "the link to be up again", state(netlink.OperUp))
	eventually(t, "the tunnel to answer again", answers)
	kept("with the next process")

	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("told to end, it ended with %v", err)
	}
	kept("after the process was told to end")
}
