// Package kernel reads and changes a network namespace of Linux through netlink: links, addresses, neighbours, routes, rules, nftables
// tables and WireGuard devices. WireGuard devices are those of the kernel, or those of wireguard-go through its socket. The package runs no
// other program.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"liqo.io/liqo/internal/dataplane"
)

// Kernel is a network namespace. The process needs CAP_NET_ADMIN in it. Several goroutines may call its methods at once.
type Kernel struct {
	mu        sync.Mutex
	handle    *netlink.Handle
	namespace int // file descriptor; -1: the namespace of the process
	devices   Devices
}

var _ dataplane.Kernel = (*Kernel)(nil)

// Devices gives access to WireGuard devices by name, as wgctrl.Client does. For a missing device, the methods return os.ErrNotExist.
type Devices interface {
	Device(name string) (*wgtypes.Device, error)
	ConfigureDevice(name string, config wgtypes.Config) error
}

// New opens the network namespace that the process was started in. It returns an error if it cannot open a netlink socket.
func New() (*Kernel, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a socket to the kernel: %w", err)
	}
	return &Kernel{handle: handle, namespace: -1, devices: &controlled{namespace: -1}}, nil
}

// At opens another network namespace. Its handle must stay open as long as the Kernel is used. If devices is nil, At finds WireGuard
// devices of the kernel in that namespace. The sockets of wireguard-go lie in the file system, outside any network namespace, so pass
// devices if several wireguard-go devices have the same name.
func At(namespace netns.NsHandle, devices Devices) (*Kernel, error) {
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a socket to the kernel in %s: %w", namespace, err)
	}
	if devices == nil {
		devices = &controlled{namespace: int(namespace)}
	}
	return &Kernel{handle: handle, namespace: int(namespace), devices: devices}, nil
}

// Close closes the netlink socket.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handle.Close()
}

// Read returns the objects that own lists, in canonical form.
func (k *Kernel) Read(ctx context.Context, own dataplane.Ownership) (dataplane.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var s dataplane.State
	for _, part := range []struct {
		what string
		read func(*dataplane.State, dataplane.Ownership) error
	}{
		{"links", k.readLinks},
		{"routes", k.readRoutes},
		{"rules", k.readRules},
		{"filters", func(s *dataplane.State, own dataplane.Ownership) (err error) {
			s.Table, err = k.readTable(own.Table)
			return err
		}},
		{"WireGuard", k.readDevice},
	} {
		if err := ctx.Err(); err != nil {
			return dataplane.State{}, err
		}
		if err := part.read(&s, own); err != nil {
			return dataplane.State{}, fmt.Errorf("reading %s of the network namespace: %w", part.what, err)
		}
	}
	return dataplane.Canonical(s), nil
}

// Apply makes the changes in order and stops at the first failure.
func (k *Kernel) Apply(ctx context.Context, changes []dataplane.Change) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	verbs := k.verbs()
	for _, c := range changes {
		err := ctx.Err()
		if err == nil {
			err = verbs.Do(c)
		}
		if err != nil {
			return fmt.Errorf("applying %q: %w", c, err)
		}
	}
	return nil
}

func (k *Kernel) verbs() *dataplane.Verbs {
	return &dataplane.Verbs{
		SetLink: k.setLink, DeleteLink: k.deleteLink, SetAddress: k.setAddress, DeleteAddress: k.deleteAddress,
		SetNeighbour: k.setNeighbour, DeleteNeighbour: k.deleteNeighbour, SetTable: k.setTable, DeleteTable: k.deleteTable, ChangeElements: k.changeElements,
		SetDevice: k.setDevice, SetPeer: k.setPeer, DeletePeer: k.deletePeer,
		SetRoute: k.setRoute, DeleteRoute: k.deleteRoute, SetRule: k.setRule, DeleteRule: k.deleteRule,
	}
}

// gone returns nil if the error says that the object does not exist; otherwise it returns the error.
func gone(err error) error {
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || slices.ContainsFunc([]error{unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.EADDRNOTAVAIL}, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// retryDump repeats a dump that a concurrent change interrupted, at most readTries times in total.
func retryDump[T any](dump func() ([]T, error)) ([]T, error) {
	var out []T
	var err error
	for range readTries {
		if out, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}
