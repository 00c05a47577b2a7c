// Package network creates the "internet" that connects all nodes: a network namespace with one bridge. It also manages the cables
// (veth pairs) between nodes and bridge, and the partitions. None of it is visible in the machine's own network namespace.
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

// Internet is the network namespace, kept alive by a bind mount on a file.
type Internet struct {
	// Path is the path of that file.
	Path string
}

// Ensure creates the namespace and its bridge if they do not exist. It can be called repeatedly.
func (i Internet) Ensure() error {
	if !i.exists() {
		if err := i.create(); err != nil {
			return fmt.Errorf("creating network namespace %s: %w", i.Path, err)
		}
	}
	err := i.Do(func() error {
		if err := equip(); err != nil {
			return err
		}
		return run(table, "nft", "-f", "-")
	})
	if err != nil {
		return fmt.Errorf("creating the bridge: %w", err)
	}
	return nil
}

// exists reports whether a network namespace is mounted on the file.
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
		// The thread is never unlocked, so the runtime destroys it, and its network namespace with it, when the goroutine ends.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- err
			return
		}
		result <- unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), i.Path, "", unix.MS_BIND, "")
	}()
	return <-result
}

// equip sets up the loopback interface and the bridge. It runs inside the namespace.
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

// Remove unmounts the namespace and removes its file. The kernel destroys the namespace once its last user is gone.
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

// Do runs f on a thread inside the namespace. Processes that f starts are inside too; goroutines that f starts are not.
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

// enter moves the calling thread into the namespace. The caller must have locked the thread.
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

// Plug creates a cable (veth pair) from the bridge to the network namespace of process pid. The end in that namespace is called eth0 and has
// the given MAC address.
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

// Unplug removes a cable if it exists. The kernel also removes it with the node's network namespace, but only some time later.
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

// run starts a program with input as its standard input. The error contains what the program wrote to its standard error.
func run(input, name string, args ...string) error {
	_, err := output(input, name, args...)
	return err
}

func output(input, name string, args ...string) ([]byte, error) {
	return runOutput(exec.Command(name, args...), input)
}
