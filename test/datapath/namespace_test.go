package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "the tests of level 3 make network namespaces: run them as root")
		os.Exit(1)
	}
	// The kernel records timestamps of packets only while a socket requests them, and starts with a delay. Keep such a socket open, so that captures have
	// timestamps from their first packet on.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "asking for the times of packets:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// host is a network namespace.
type host struct {
	name   string
	ns     netns.NsHandle
	kernel *netlink.Handle
}

func newHost(t *testing.T, name string) *host {
	t.Helper()
	h := &host{name: name}
	err := inThread(func() (err error) {
		if h.ns, err = netns.New(); err != nil {
			return fmt.Errorf("creating a network namespace: %w", err)
		}
		return nil
	})
	if err == nil {
		h.kernel, err = netlink.NewHandleAt(h.ns)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.kernel.Close()
		_ = h.ns.Close()
	})
	h.up(t, "lo")
	return h
}

// inThread runs f on a thread of its own, which ends afterwards. So changes of the thread's namespace by f have no other effect.
func inThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		done <- f()
	}()
	return <-done
}

// in runs f in the namespace.
func (h *host) in(f func() error) error {
	return inThread(func() error {
		if err := netns.Set(h.ns); err != nil {
			return fmt.Errorf("entering the namespace of %s: %w", h.name, err)
		}
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		return nil
	})
}

// must runs f in the namespace and ends the test if it fails. It is for the setup.
func (h *host) must(t *testing.T, f func() error) {
	t.Helper()
	if err := h.in(f); err != nil {
		t.Fatal(err)
	}
}

func (h *host) sysctl(t *testing.T, value string, keys ...string) {
	t.Helper()
	h.must(t, func() error {
		for _, key := range keys {
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", strings.ReplaceAll(key, ".", "/")), []byte(value), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *host) link(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := h.kernel.LinkByName(name)
	if err != nil {
		t.Fatalf("%s: looking for link %s: %v", h.name, name, err)
	}
	return link
}

func (h *host) up(t *testing.T, name string) {
	t.Helper()
	if err := h.kernel.LinkSetUp(h.link(t, name)); err != nil {
		t.Fatalf("%s: setting up link %s: %v", h.name, name, err)
	}
}

func (h *host) address(t *testing.T, link, prefix string) {
	t.Helper()
	ip, network, err := net.ParseCIDR(prefix)
	if err == nil {
		network.IP = ip
		err = h.kernel.AddrAdd(h.link(t, link), &netlink.Addr{IPNet: network})
	}
	if err != nil {
		t.Fatalf("%s: giving %s to link %s: %v", h.name, prefix, link, err)
	}
}

// route adds a route to a prefix through a link, via a neighbour if one is given.
func (h *host) route(t *testing.T, prefix, link, via string) {
	t.Helper()
	_, network, err := net.ParseCIDR(prefix)
	if err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{LinkIndex: h.link(t, link).Attrs().Index, Dst: network, Scope: netlink.SCOPE_LINK}
	if via != "" {
		route.Gw, route.Scope = net.ParseIP(via), netlink.SCOPE_UNIVERSE
	}
	if err := h.kernel.RouteReplace(route); err != nil {
		t.Fatalf("%s: routing %s by %s: %v", h.name, prefix, link, err)
	}
}

// wire connects two hosts by a veth pair.
func wire(t *testing.T, a *host, aLink string, b *host, bLink string) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.Namespace = aLink, netlink.NsFd(int(a.ns))
	veth := &netlink.Veth{LinkAttrs: attributes, PeerName: bLink, PeerNamespace: netlink.NsFd(int(b.ns))}
	if err := a.kernel.LinkAdd(veth); err != nil {
		t.Fatalf("wiring %s to %s: %v", a.name, b.name, err)
	}
	a.up(t, aLink)
	b.up(t, bLink)
	a.sum(t, aLink)
	b.sum(t, bLink)
}

// sum makes a link compute the checksums of sent packets in software. Otherwise the ends of a veth pair do not verify checksums, and a translation that
// corrupts a checksum would remain unnoticed.
func (h *host) sum(t *testing.T, link string) {
	t.Helper()
	h.must(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		value := struct{ command, data uint32 }{unix.ETHTOOL_STXCSUM, 0}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:], link)
		if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); code != 0 {
			return fmt.Errorf("having link %s make checksums: %w", link, code)
		}
		return nil
	})
}

// lan is a network switch.
type lan struct {
	*host
	ports int
}

func newLAN(t *testing.T, name string) *lan {
	t.Helper()
	l := &lan{host: newHost(t, name)}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "br0"
	if err := l.kernel.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		t.Fatal(err)
	}
	l.up(t, "br0")
	return l
}

// plug connects a host to the switch, by a link with an address.
func (l *lan) plug(t *testing.T, h *host, link string, prefix netip.Prefix) {
	t.Helper()
	l.ports++
	port := fmt.Sprint("port", l.ports)
	wire(t, h, link, l.host, port)
	if err := l.kernel.LinkSetMaster(l.link(t, port), l.link(t, "br0")); err != nil {
		t.Fatal(err)
	}
	h.address(t, link, prefix.String())
}
