package datapath

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

var update = flag.Bool("update", false, "write the golden files anew")

// said returns the packets that leave hosts through the overlay or the tunnel, according to an explanation. The last host of a path forwards the packet to its
// destination.
func said(e network.Explanation) (all []string) {
	for _, way := range [][]network.Hop{e.There, e.Back} {
		for _, h := range way[:len(way)-1] {
			if h.Kind == "tunnel" {
				continue
			}
			p := h.Steps[len(h.Steps)-1].After
			all = append(all, fmt.Sprintf("%s: %s > %s", h.Name, p.Source, p.Destination))
		}
	}
	return all
}

// did returns the same packets as captured.
func did(trace []sighting) (all []string) {
	for _, s := range trace {
		if s.outgoing && (s.link == dataplane.OverlayLink || s.link == dataplane.TunnelLink) {
			all = append(all, fmt.Sprintf("%s: %s > %s", s.host, s.packet.source, s.packet.destination))
		}
	}
	return all
}

// exchange captures the packets of do, and compares them with the golden trace and the explanation.
func (w *world) exchange(t *testing.T, name string, e network.Explanation, match func(packet) bool, do func() error) {
	t.Helper()
	c := listen(t, w.all()...)
	if err := do(); err != nil {
		t.Error(err)
	}
	trace := c.stop(t, match)
	golden(t, name, text(trace))
	if diff := cmp.Diff(said(e), did(trace)); diff != "" {
		t.Errorf("the explanation is not what happens (-said +happened):\n%s\n%s\n%s", diff, e, text(trace))
	}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got), written anew with -update:\n%s", file, diff)
	}
}

func icmp(id uint16) func(packet) bool {
	return func(p packet) bool {
		return p.protocol == unix.IPPROTO_ICMP && p.port == id && (p.sourcePort == 0 || p.sourcePort == 8)
	}
}

func udp(ports ...uint16) func(packet) bool {
	return func(p packet) bool {
		return p.protocol == unix.IPPROTO_UDP && (slices.Contains(ports, p.port) || slices.Contains(ports, p.sourcePort))
	}
}

// walk tests TCP, UDP and ICMP from a host to a serving end in another cluster. The end must see the caller under the address in the explanation.
func (w *world) walk(t *testing.T, name string, from *host, e network.Explanation) {
	t.Helper()
	w.exchange(t, name+" ping", e, icmp(77), func() error { return from.ping(e.Address, 77) })
	to := netip.AddrPortFrom(e.Address, 8080)
	w.exchange(t, name+" udp", e, udp(8080), func() error { return sees(from, to, e.Seen, 100) })
	// No program listens on this port. The ICMP error must be translated too, so that the caller recognizes its packet.
	w.exchange(t, name+" refused", e, udp(8081), func() error {
		seen, _, err := from.udp(netip.AddrPortFrom(e.Address, 8081), 100, patience)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err != nil:
			return fmt.Errorf("calling port 8081 of %s, which refuses: %w", e.Address, err)
		}
		return fmt.Errorf("%s sees %s on port 8081, where nobody listens", e.Address, seen)
	})
	if seen, got, err := from.tcp(to, 1<<20); err != nil || seen != e.Seen || got != 1<<20 {
		t.Errorf("%s: TCP: %d bytes came from %s, %v; want %d from %s", name, got, seen, err, 1<<20, e.Seen)
	}
	for _, check := range []error{
		sees(from, to, e.Seen, 4000), // needs more than one packet
		from.in(func() error { return withoutChecksum(to) }),
	} {
		if check != nil {
			t.Errorf("%s: %v", name, check)
		}
	}
}

// withoutChecksum sends a datagram without a checksum. Hosts on the path must not add an incomplete one.
func withoutChecksum(to netip.AddrPort) error {
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 100))
	return err
}

// sees calls a server over UDP, and checks that the server sees the caller under that address.
func sees(from *host, to netip.AddrPort, want netip.Addr, size int) error {
	seen, got, err := from.udp(to, size, patience)
	if err == nil && (seen != want || got != size) {
		err = fmt.Errorf("%s saw %d bytes from %s, want %d from %s", to, got, seen, size, want)
	}
	return err
}

// TestWalks follows packets of pods and nodes, between clusters with different and with identical address ranges.
func TestWalks(t *testing.T) {
	for name, build := range map[string]func(*testing.T) *world{"apart": apart, "together": together, "crossed": crossed} {
		t.Run(name, func(t *testing.T) {
			w := build(t).ready(t)
			for _, c := range w.all() {
				for _, p := range c.pods {
					p.serve(t, 8080)
				}
			}
			rome, milan := w.rome, w.milan
			w.walk(t, name+" beside the gateways", rome.pods[0], w.explain(t, rome.podEnd(t, 0), milan.podEnd(t, 0)))
			w.walk(t, name+" across nodes", rome.pods[1], w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 1)))
			w.walk(t, name+" the other way", milan.pods[1], w.explain(t, milan.podEnd(t, 1), rome.podEnd(t, 1)))
			same, end := milan.podAtPlaceOf(t, rome.gateways["milan"])
			same.serve(t, 8080)
			w.walk(t, name+" to the pod with the address of the gateway", rome.pods[1], w.explain(t, rome.podEnd(t, 1), end))
			same, end = rome.podAtPlaceOf(t, milan.gateways["rome"])
			w.walk(t, name+" from the pod with the address of the gateway", same, w.explain(t, end, milan.podEnd(t, 1)))
			w.walk(t, name+" from a node", rome.nodes[1], w.explain(t, rome.nodeEnd(1), milan.podEnd(t, 1)))
			w.walk(t, name+" from the node of the gateway", milan.nodes[0], w.explain(t, milan.nodeEnd(0), rome.podEnd(t, 0)))
			t.Run("the overlay makes no checksums", func(t *testing.T) { // a checksum would be corrupted by a CNI that translates the packet
				for _, c := range w.all() {
					for _, h := range append(slices.Clone(c.nodes), c.gateways[c.Facts.Peers[0].ClusterID]) {
						if v, ok := h.link(t, dataplane.OverlayLink).(*netlink.Vxlan); !ok || v.UDPCSum {
							t.Errorf("%s: %+v", h.name, v)
						}
					}
				}
			})
			t.Run("gateways remember nothing", func(t *testing.T) {
				for _, c := range w.all() {
					for _, gw := range c.gateways {
						gw.must(t, func() error {
							count, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
							if err == nil && strings.TrimSpace(string(count)) != "0" {
								err = fmt.Errorf("connection tracking has %s connections", strings.TrimSpace(string(count)))
							}
							return err
						})
					}
				}
			})
			t.Run("fragmentation needed", func(t *testing.T) {
				fragmentation(t, rome.pods[1], w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 1)).Address, 1340)
			})
		})
	}
}

// fragmentation sends packets that are too big and must not be fragmented. The caller must receive an ICMP error, and its kernel must accept it.
func fragmentation(t *testing.T, from *host, to netip.Addr, mtu int) {
	t.Helper()
	from.must(t, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO); err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 8080, Addr: to.As4()}); err != nil {
			return err
		}
		if _, err := unix.Write(fd, make([]byte, 1400)); err != nil {
			return fmt.Errorf("the first datagram: %w", err)
		}
		return learns(func() (int, error) { return unix.GetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU) }, mtu)
	})
}

// learns waits until a connection has learned the MTU of its path.
func learns(read func() (int, error), want int) error {
	var mtu int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if mtu, err = read(); err != nil || mtu == want {
			return err
		}
	}
	return fmt.Errorf("the kernel knows an MTU of %d, want %d", mtu, want)
}

// TestSmallerNetworkBehindTheTunnel: when a packet fits into the tunnel and not into the network behind it, the ICMP error of the far gateway passes
// both translations, although the gateway keeps no state.
func TestSmallerNetworkBehindTheTunnel(t *testing.T) {
	w := together(t)
	w.milan.mtu = 1300
	for _, c := range w.all() {
		c.Facts.Options.ClampMSS = false
		c.Facts.Peers[0].MTU, c.Facts.Peers[0].TunnelMTU = 0, c.mtu-network.TunnelOverhead
	}
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	e := w.explain(t, w.rome.podEnd(t, 1), w.milan.podEnd(t, 1))
	fragmentation(t, w.rome.pods[1], e.Address, 1300-network.OverlayOverhead)
	if _, got, err := w.rome.pods[1].tcp(netip.AddrPortFrom(e.Address, 8080), 1<<20); err != nil || got != 1<<20 {
		t.Errorf("%d bytes came: %v", got, err)
	}
}

// TestPodsBigSegments: without clamping of the MSS, TCP learns the tunnel's MTU from the node's ICMP errors.
func TestPodsBigSegments(t *testing.T) {
	w := together(t)
	w.rome.Facts.Options.ClampMSS, w.milan.Facts.Options.ClampMSS = false, false
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	e := w.explain(t, w.rome.podEnd(t, 1), w.milan.podEnd(t, 1))
	if _, got, err := w.rome.pods[1].tcp(netip.AddrPortFrom(e.Address, 8080), 1<<20); err != nil || got != 1<<20 {
		t.Errorf("%d bytes came: %v", got, err)
	}
}
