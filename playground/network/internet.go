// Package network makes the "internet" that joins all nodes: a network namespace with one bridge, the cables that lead
// into it, and what cuts them. Nothing of it is visible in the machine's own network namespace.
package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/playground/component"
)

const bridge = "br0"

// Internet is the namespace, held by a mount on a file.
type Internet struct {
	// Path of the file.
	Path string
}

// Ensure makes the namespace and its bridge unless they are there.
func (i Internet) Ensure() error {
	if !i.exists() {
		if err := i.create(); err != nil {
			return fmt.Errorf("making network namespace %s: %w", i.Path, err)
		}
	}
	err := i.Do(func() error {
		if err := equip(); err != nil {
			return err
		}
		return run(table, "nft", "-f", "-")
	})
	if err != nil {
		return fmt.Errorf("making the bridge: %w", err)
	}
	return nil
}

// exists reports whether the file is a mounted namespace, not just a file.
func (i Internet) exists() bool {
	var fs unix.Statfs_t
	return unix.Statfs(i.Path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

func (i Internet) create() error {
	if err := os.MkdirAll(filepath.Dir(i.Path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(i.Path, nil, 0o444); err != nil {
		return err
	}
	result := make(chan error)
	go func() {
		// The thread is never unlocked, so that it ends with the goroutine and takes the foreign namespace with it.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- err
			return
		}
		result <- unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), i.Path, "", unix.MS_BIND, "")
	}()
	return <-result
}

// equip runs inside the namespace.
func equip() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	br, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{
		IP:   component.Router().AsSlice(),
		Mask: net.CIDRMask(component.Internet().Bits(), 32),
	}}
	if err := netlink.AddrReplace(br, address); err != nil {
		return err
	}
	return netlink.LinkSetUp(br)
}

// Remove lets the namespace go. It is gone once its last cable is.
func (i Internet) Remove() error {
	for i.exists() {
		if err := unix.Unmount(i.Path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", i.Path, err)
		}
	}
	if err := os.Remove(i.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", i.Path, err)
	}
	return nil
}

// Do runs f on a thread that is inside the namespace. What f starts is inside too; goroutines it starts are not.
func (i Internet) Do(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := i.enter(); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

// enter moves the calling thread, which must be locked, into the namespace.
func (i Internet) enter() error {
	handle, err := netns.GetFromPath(i.Path)
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", i.Path, err)
	}
	defer func() { _ = handle.Close() }()
	if err := netns.Set(handle); err != nil {
		return fmt.Errorf("entering network namespace %s: %w", i.Path, err)
	}
	return nil
}

// Plug makes a cable from the bridge to the namespace of a process, where its end is called eth0 and has the MAC address.
func (i Internet) Plug(cable, mac string, pid int) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return fmt.Errorf("plugging in cable %s: %w", cable, err)
	}
	err = i.Do(func() error {
		br, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		err = netlink.LinkAdd(&netlink.Veth{
			LinkAttrs:        netlink.LinkAttrs{Name: cable, MTU: 1500, MasterIndex: br.Attrs().Index, Flags: net.FlagUp},
			PeerName:         "eth0",
			PeerHardwareAddr: hardware,
			PeerNamespace:    netlink.NsPid(pid),
		})
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(cable)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
	if err != nil {
		return fmt.Errorf("plugging in cable %s: %w", cable, err)
	}
	return nil
}

// Unplug removes a cable, if it is there. The kernel does it by itself, but later, when a node's namespace goes.
func (i Internet) Unplug(cable string) error {
	if !i.exists() {
		return nil
	}
	err := i.Do(func() error {
		link, err := netlink.LinkByName(cable)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("unplugging cable %s: %w", cable, err)
	}
	return nil
}

// run starts a program with text as its input; the error holds what it said.
func run(input, name string, args ...string) error {
	_, err := output(input, name, args...)
	return err
}

func output(input, name string, args ...string) ([]byte, error) {
	return runOutput(exec.Command(name, args...), input)
}
