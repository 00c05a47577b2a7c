package datapath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/dataplane/kernel"
	"liqo.io/liqo/test/dataplane/conformance"
)

// kernelWorlds is the number of random worlds in which the laws are checked on the real kernel. Package fake checks 20,000.
const kernelWorlds = 150

func TestKernelConforms(t *testing.T) { conformance.Suite(t, newKernelHost) }

func TestDiffInRandomWorldsOnTheKernel(t *testing.T) {
	conformance.Laws(t, newKernelHost, kernelWorlds)
}

// kernelHosts are the hosts in use, by the name of their tunnel.
var kernelHosts = map[string]*kernelHost{}

// hosts counts the hosts, so that each tunnel has a unique name: the sockets of wireguard-go are in the file system, which all hosts share.
var hosts atomic.Int32

// kernelHost is a network namespace of the real kernel. Its tunnel is wireguard-go.
type kernelHost struct {
	namespace netns.NsHandle
	handle    *netlink.Handle
	kernel    *kernel.Kernel
	tunnel    string
	closers   []func()
}

func newKernelHost(t testing.TB) conformance.Host {
	t.Helper()
	h := &kernelHost{tunnel: fmt.Sprintf("lq%d-%d", os.Getpid()%100000, hosts.Add(1))}
	h.namespace = elsewhere(t, func() (netns.NsHandle, error) { return netns.New() })
	kernelHosts[h.tunnel] = h
	// A namespace without a name is deleted with its last handle.
	h.closers = append(h.closers, func() { _ = h.namespace.Close() }, func() { delete(kernelHosts, h.tunnel) })
	var err error
	if h.handle, err = netlink.NewHandleAt(h.namespace, unix.NETLINK_ROUTE); err != nil {
		t.Fatal(err)
	}
	if h.kernel, err = kernel.At(h.namespace, nil); err != nil {
		t.Fatal(err)
	}
	h.closers = append(h.closers, h.handle.Close, h.kernel.Close)
	lo, err := h.handle.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: conformance.HostAddress.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := errors.Join(h.handle.AddrAdd(lo, address), h.handle.LinkSetUp(lo)); err != nil {
		t.Fatal(err)
	}
	own := dataplane.Ours()
	own.Tunnel = h.tunnel
	withLink := func(do func(netlink.Link) error) func(string) {
		return func(name string) {
			if link, err := h.handle.LinkByName(name); err == nil {
				_ = do(link)
			}
		}
	}
	return conformance.Host{Kernel: h.kernel, Own: own, AddTunnel: func() { h.addTunnel(t) }, RemoveLink: withLink(h.handle.LinkDel),
		SetDown: withLink(h.handle.LinkSetDown), Close: h.close}
}

func (h *kernelHost) close() {
	for _, c := range slices.Backward(h.closers) {
		c()
	}
}

// elsewhere calls f on a locked thread. f may switch to another network namespace; afterwards elsewhere switches back.
func elsewhere[T any](t testing.TB, f func() (T, error)) T {
	t.Helper()
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	out, failed := f()
	if err := netns.Set(before); err != nil {
		t.Fatal(err) // the thread stays locked, so it ends with the test
	}
	runtime.UnlockOSThread()
	if failed != nil {
		t.Fatalf("working in another network namespace (this needs root): %v", failed)
	}
	return out
}

// addTunnel runs wireguard-go on a TUN link, with its socket in the usual folder. wireguard-go does not open its UDP port, because it receives no event that
// its link is up.
func (h *kernelHost) addTunnel(t testing.TB) {
	t.Helper()
	link := elsewhere(t, func() (tun.Device, error) {
		if err := netns.Set(h.namespace); err != nil {
			return nil, err
		}
		return tun.CreateTUN(h.tunnel, 1420)
	})
	wireguard := device.NewDevice(&deaf{Device: link, events: make(chan tun.Event)}, conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
	h.closers = append(h.closers, wireguard.Close)
	file, err := ipc.UAPIOpen(h.tunnel)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := ipc.UAPIListen(h.tunnel, file)
	if err != nil {
		t.Fatal(err)
	}
	h.closers = append(h.closers, func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go wireguard.IpcHandle(c)
		}
	}()
}

// deaf is a TUN device without events of its link.
type deaf struct {
	tun.Device
	events chan tun.Event
	once   sync.Once
}

func (d *deaf) Events() <-chan tun.Event { return d.events }

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.events) })
	return d.Device.Close()
}
