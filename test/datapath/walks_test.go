package datapath

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
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
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is a set of clusters that are peered.
type world struct {
	rome, milan, turin *cluster
	internet           *internet
}

func (w *world) all() []*cluster {
	return slices.DeleteFunc([]*cluster{w.rome, w.milan, w.turin}, func(c *cluster) bool { return c == nil })
}

// ready carries out the plans of all hosts and waits for the tunnels.
func (w *world) ready(t *testing.T) *world {
	t.Helper()
	for _, c := range w.all() {
		c.apply(t)
	}
	for _, c := range w.all() {
		for _, p := range c.Facts.Peers {
			if p.Role == network.Client {
				if err := c.gateways[p.ClusterID].ping(network.ServerAddress().Addr(), 1); err != nil {
					t.Fatalf("the tunnel from %s to %s: %v", c.ID, p.ClusterID, err)
				}
			}
		}
	}
	return w
}

// apart are two clusters with ranges of their own.
func apart(t *testing.T) *world {
	w := &world{rome: newCluster(t, "rome", "10.10.0.0/16", "10.70.0.0/16"), milan: newCluster(t, "milan", "10.20.0.0/16", "10.71.0.0/16")}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "", "", "", "")
	return w
}

// together are two clusters with the same ranges, nodes and services.
func together(t *testing.T) *world {
	w := &world{rome: newCluster(t, "rome", "10.200.0.0/16", "10.70.0.0/16"), milan: newCluster(t, "milan", "10.200.0.0/16", "10.70.0.0/16")}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	return w
}

// hub are three clusters with the same ranges: rome is peered with the other two.
func hub(t *testing.T) *world {
	w := &world{}
	for at, id := range map[**cluster]string{&w.rome: "rome", &w.milan: "milan", &w.turin: "turin"} {
		*at = newCluster(t, id, "10.200.0.0/16", "10.70.0.0/16")
	}
	w.internet = newInternet(t)
	w.internet.peer(t, w.milan, w.rome, "10.71.0.0/16", "10.73.0.0/16", "10.72.0.0/16", "10.74.0.0/16")
	w.internet.peer(t, w.turin, w.rome, "10.75.0.0/16", "10.76.0.0/16", "10.71.0.0/16", "10.72.0.0/16")
	return w
}

func (c *cluster) podEnd(t *testing.T, i int) network.End {
	return network.End{Cluster: c.ID, Name: c.pods[i].name, Address: c.pods[i].podIP(t), Node: c.nodes[i].name}
}

func (c *cluster) nodeEnd(i int) network.End {
	return network.End{Cluster: c.ID, Name: c.nodes[i].name, Address: c.Facts.Nodes[i].IP, Node: c.nodes[i].name}
}

func (c *cluster) end(name, address string) network.End {
	return network.End{Cluster: c.ID, Name: name, Address: addr(address)}
}

// explain is what network.Explain says, which must be a whole way.
func (w *world) explain(t *testing.T, from, to network.End) network.Explanation {
	t.Helper()
	var all []network.Cluster
	for _, c := range w.all() {
		all = append(all, c.Cluster)
	}
	e := network.Explain(all, from, to)
	if e.Fault != nil {
		t.Fatalf("%s", e)
	}
	return e
}

// said are the packets that leave hosts by the overlay or the tunnel, as an explanation has them: the last host of a way hands over.
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

// did are the same packets, as they were captured.
func did(trace []sighting) (all []string) {
	for _, s := range trace {
		if s.outgoing && (s.link == dataplane.OverlayLink || s.link == dataplane.TunnelLink) {
			all = append(all, fmt.Sprintf("%s: %s > %s", s.host, s.packet.source, s.packet.destination))
		}
	}
	return all
}

// exchange captures one exchange and holds it against the golden trace and the explanation.
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

// walk sends everything from one host to an end in another cluster that serves, and wants it to see the caller as explained.
func (w *world) walk(t *testing.T, name string, from *host, e network.Explanation) {
	t.Helper()
	w.exchange(t, name+" ping", e, icmp(77), func() error { return from.ping(e.Address, 77) })
	to := netip.AddrPortFrom(e.Address, 8080)
	w.exchange(t, name+" udp", e, udp(8080), func() error { return sees(from, to, e.Seen, 100) })
	// A port where nobody listens, told by an ICMP error that has to be translated too, to be understood.
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
		sees(from, to, e.Seen, 4000), // more than one packet
		from.in(func() error { return withoutChecksum(to) }),
	} {
		if check != nil {
			t.Errorf("%s: %v", name, check)
		}
	}
}

// withoutChecksum sends a datagram that has none, which must not get half of one on the way.
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

// sees calls by UDP and wants the server to see the caller as that address.
func sees(from *host, to netip.AddrPort, want netip.Addr, size int) error {
	seen, got, err := from.udp(to, size, patience)
	if err == nil && (seen != want || got != size) {
		err = fmt.Errorf("%s saw %d bytes from %s, want %d from %s", to, got, seen, size, want)
	}
	return err
}

// TestWalks are the ways of pods and nodes, in clusters that have nothing in common and in clusters that are the same.
func TestWalks(t *testing.T) {
	for name, build := range map[string]func(*testing.T) *world{"apart": apart, "together": together} {
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
			w.walk(t, name+" from a node", rome.nodes[1], w.explain(t, rome.nodeEnd(1), milan.podEnd(t, 1)))
			w.walk(t, name+" from the node of the gateway", milan.nodes[0], w.explain(t, milan.nodeEnd(0), rome.podEnd(t, 0)))
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
				fragmentation(t, rome.pods[1], w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 1)).Address)
			})
		})
	}
}

// fragmentation sends what does not fit into the tunnel and must not be divided: the node says so, and the pod's kernel believes it.
func fragmentation(t *testing.T, from *host, to netip.Addr) {
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
		return learns(func() (int, error) { return unix.GetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU) }, 1340)
	})
}

// TestRoutersAreHeard: a router on the way to an exposed host has no address for peers, but the pod that called hears that its packet was too big.
func TestRoutersAreHeard(t *testing.T) {
	w := together(t)
	w.rome.expose(network.Exposed{Kind: network.KindHost, Real: addr(printer), Object: "demo/printer"})
	w.ready(t)
	caller, gw := w.milan.pods[1], w.rome.gateways["milan"].podIP(t)
	e := w.explain(t, w.milan.podEnd(t, 1), w.rome.end("printer", printer))
	seen, err := mustTranslation(t, w.rome, "milan").ToView(caller.podIP(t)) // before the node masquerades it
	if err != nil {
		t.Fatal(err)
	}
	// What the router quotes, and its "fragmentation needed" with an MTU of 1000, as the node hands it on.
	quoted := datagram(seen, addr(printer), 8080, nil)
	tooBig := append([]byte{3, 4, 0, 0, 0, 0, 1000 >> 8, 1000 & 255}, quoted...)
	binary.BigEndian.PutUint16(tooBig[2:], checksum(tooBig))
	caller.must(t, func() error {
		c, err := net.DialUDP("udp4", &net.UDPAddr{Port: 40000}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Address, 8080)))
		if err != nil {
			return err
		}
		defer c.Close()
		w.rome.nodes[0].inject(t, dataplane.OverlayLink, gw, icmpPacket(addr("203.0.113.1"), seen, tooBig))
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		return learns(func() (mtu int, err error) {
			_ = raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), unix.SOL_IP, unix.IP_MTU) })
			return mtu, err
		}, 1000)
	})
}

// learns waits for a connection to know the MTU of its path.
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

// TestPodsBigSegments: without clamping, TCP finds the tunnel's MTU by the node's ICMP errors.
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

// TestServices: services with remote pods, ports of nodes, and what IP objects expose: services and hosts.
func TestServices(t *testing.T) {
	w := together(t)
	rome, milan := w.rome, w.milan
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.1"), Object: "liqo/api-server"})
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr("10.96.0.2"), Object: "demo/on-a-node"})
	rome.expose(network.Exposed{Kind: network.KindHost, Real: addr(printer), Object: "demo/printer"})
	w.ready(t)
	for _, h := range []*host{rome.pods[1], rome.outside, rome.nodes[0], milan.pods[0]} {
		h.serve(t, 8080)
	}
	remote := w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 0)).Address
	for i, n := range rome.nodes {
		service(t, n, netip.MustParseAddrPort("10.96.0.1:443"), netip.AddrPortFrom(rome.pods[1].podIP(t), 8080))
		service(t, n, netip.MustParseAddrPort("10.96.0.2:443"), netip.AddrPortFrom(rome.Facts.Nodes[0].IP, 8080))
		service(t, n, netip.MustParseAddrPort("10.96.0.3:80"), netip.AddrPortFrom(remote, 8080))
		service(t, n, netip.AddrPortFrom(rome.Facts.Nodes[i].IP, 30080), netip.AddrPortFrom(remote, 8080))
	}

	t.Run("local service with a remote pod", func(t *testing.T) {
		e := w.explain(t, rome.podEnd(t, 1), milan.podEnd(t, 0))
		w.exchange(t, "service with a remote pod", e, udp(80, 8080), func() error {
			return sees(rome.pods[1], netip.MustParseAddrPort("10.96.0.3:80"), e.Seen, 100)
		})
	})
	t.Run("node port", func(t *testing.T) {
		e := w.explain(t, rome.nodeEnd(1), milan.podEnd(t, 0))
		w.exchange(t, "node port", e, udp(30080, 8080), func() error {
			return sees(rome.outside, netip.AddrPortFrom(rome.Facts.Nodes[1].IP, 30080), e.Seen, 100)
		})
	})
	t.Run("exposed service", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("api-server", "10.96.0.1"))
		w.exchange(t, "exposed service", e, udp(443, 8080), func() error {
			return sees(milan.pods[1], netip.AddrPortFrom(e.Address, 443), e.Seen, 100)
		})
		if _, got, err := milan.pods[1].tcp(netip.AddrPortFrom(e.Address, 443), 1<<20); err != nil || got != 1<<20 {
			t.Errorf("TCP: %d bytes came: %v", got, err)
		}
	})
	t.Run("exposed service of a node's own process", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("on-a-node", "10.96.0.2"))
		view, err := mustTranslation(t, rome, "milan").ToView(milan.pods[1].podIP(t))
		if err != nil {
			t.Fatal(err)
		}
		w.exchange(t, "exposed service on a node", e, udp(443, 8080), func() error {
			return sees(milan.pods[1], netip.AddrPortFrom(e.Address, 443), view, 100)
		})
	})
	t.Run("exposed service that every node has as an address of its own", func(t *testing.T) { // as kube-proxy does with IPVS
		local := netip.AddrPortFrom(addr("10.96.0.4"), 8080)
		rome.nodes[0].address(t, "lo", local.Addr().String()+"/32")
		external := rome.expose(network.Exposed{Kind: network.KindHost, Real: local.Addr(), Object: "demo/ipvs"})
		rome.apply(t)
		view, err := mustTranslation(t, milan, "rome").ToView(external)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := milan.pods[1].tcp(netip.AddrPortFrom(view, 8080), 10); err != nil {
			t.Error(err)
		}
	})
	t.Run("exposed host", func(t *testing.T) {
		e := w.explain(t, milan.podEnd(t, 1), rome.end("printer", printer))
		w.walk(t, "exposed host", milan.pods[1], e)
	})
}

func mustTranslation(t *testing.T, c *cluster, peer string) network.Translation {
	t.Helper()
	translation, ok := c.Facts.Translation(peer)
	if !ok {
		t.Fatalf("%s has no peer %s", c.ID, peer)
	}
	return translation
}

// TestHub: a pod that rome offloaded to milan talks to one that it offloaded to turin.
func TestHub(t *testing.T) {
	w := hub(t)
	for _, far := range []*cluster{w.milan, w.turin} {
		view, err := mustTranslation(t, w.rome, far.ID).ToView(far.pods[1].podIP(t))
		if err != nil {
			t.Fatal(err)
		}
		w.rome.expose(network.Exposed{Kind: network.KindPeer, Real: view, Object: "demo/in-" + far.ID})
	}
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	w.turin.pods[1].serve(t, 8080)
	w.walk(t, "hub", w.milan.pods[1], w.explain(t, w.milan.podEnd(t, 1), w.turin.podEnd(t, 1)))
	w.walk(t, "hub back", w.turin.pods[1], w.explain(t, w.turin.podEnd(t, 1), w.milan.podEnd(t, 1)))
}

// TestFullMasquerade: the peer sees nodes only.
func TestFullMasquerade(t *testing.T) {
	w := together(t)
	w.rome.Facts.Options.FullMasquerade = true
	w.ready(t)
	w.milan.pods[0].serve(t, 8080)
	w.walk(t, "full masquerade", w.rome.pods[1], w.explain(t, w.rome.podEnd(t, 1), w.milan.podEnd(t, 0)))
}

// TestConnectionsSurviveTheirGateway: gateways remember nothing of connections, so another replica takes over in the middle of one.
func TestConnectionsSurviveTheirGateway(t *testing.T) {
	w := together(t)
	rome := w.rome
	second := rome.pod(t, "rome-gateway-to-milan-1", 1, 110)
	second.must(t, func() error { return gateway.Prepare(gateway.Sysctls) })
	w.internet.plug(t, second, "wan0", netip.PrefixFrom(addr("192.0.2.99"), 24))
	tunnel := newTunnel(t, second)
	tunnel.key = rome.tunnels["milan"].key
	peer := &rome.Facts.Peers[0]
	peer.Candidates = append(peer.Candidates, network.Candidate{Pod: second.name, IP: second.podIP(t), Node: rome.nodes[1].name})
	w.ready(t)
	w.milan.pods[1].serve(t, 8080)
	e := w.explain(t, rome.podEnd(t, 1), w.milan.podEnd(t, 1))
	takeOver := func() {
		if err := rome.gateways["milan"].kernel.LinkDel(rome.gateways["milan"].link(t, "eth0")); err != nil {
			t.Fatal(err)
		}
		self := network.Self{ClusterID: "milan", IP: second.podIP(t), Node: rome.nodes[1].name, MTU: 1500}
		active := map[string]netip.Addr{"milan": self.IP}
		apply(t, second, tunnel, network.CompileGateway(&rome.Facts, self, network.Tunnel{PrivateKey: tunnel.key, Peers: rome.tunnels["milan"].peers}, active))
		for _, n := range rome.nodes {
			apply(t, n, nil, network.CompileNode(&rome.Facts, network.Host{Name: n.name, MTU: 1500}, active))
		}
	}
	const chunks, size = 400, 1000
	rome.pods[1].must(t, func() error {
		c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(e.Address, 8080).String(), patience)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		for i := range chunks {
			if i == chunks/2 {
				takeOver()
			}
			if _, err := c.Write(make([]byte, size)); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			return err
		}
		seen, got, err := answered(answer)
		if err == nil && (seen != e.Seen || got != chunks*size) {
			err = fmt.Errorf("%d bytes came from %s, want %d from %s", got, seen, chunks*size, e.Seen)
		}
		return err
	})
}
