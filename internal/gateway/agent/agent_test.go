package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
	applier "liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/dataplane/fake"
)

// pod is a gateway pod on a kernel in memory, a client of milan. The test supplies the agent's input and records its output.
type pod struct {
	*fake.Kernel
	*Agent
	t   *testing.T
	far netip.AddrPort // milan, at the other end of the tunnel

	mu      sync.Mutex
	facts   *network.Facts
	key     *dataplane.PrivateKey
	reports []gateway.Observation
	last    gateway.Observation // the last report, also of a replica that is not active
}

var (
	milanKey, newKey = dataplane.PublicKey{1}, dataplane.PublicKey{2}
	endpoint         = netip.MustParseAddrPort("192.0.2.1:51840")
)

func told(key dataplane.PublicKey) *network.Facts {
	prefix := netip.MustParsePrefix
	return &network.Facts{
		Pods: []netip.Prefix{prefix("10.244.0.0/16")}, External: prefix("10.70.0.0/16"),
		Nodes: []network.Node{{Name: "node", IP: netip.MustParseAddr("172.16.0.1"), Pods: []netip.Prefix{prefix("10.244.0.0/24")}}},
		Peers: []network.Peer{{
			ClusterID: "milan", Role: network.Client, Endpoints: []string{endpoint.Addr().String()}, Port: endpoint.Port(), PublicKey: key[:],
			Pods:       []ipam.Remap{{Real: prefix("10.244.0.0/16"), View: prefix("10.71.0.0/16")}},
			Candidates: []network.Candidate{{Pod: "gw-a", IP: netip.MustParseAddr("10.244.0.9"), Node: "node", Created: 1}},
		}},
	}
}

func start(t *testing.T) *pod {
	t.Helper()
	p := &pod{Kernel: fake.New(netip.MustParseAddr("10.244.0.9")), t: t}
	p.AddTunnel(dataplane.TunnelLink, 1340)
	p.far = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), freePort(t))
	interval := 10 * time.Millisecond
	p.Agent = New(Options{
		ClusterID: "rome", Peer: "milan", Role: network.Client, Pod: "gw-a", Node: "node", IP: netip.MustParseAddr("10.244.0.9"),
		Timing: network.DefaultTiming(interval, 5), PingInterval: interval, StatusInterval: time.Second, Far: p.far,
		Directory: t.TempDir(), ProbePort: freePort(t),
		Kernel: p.Kernel, Facts: p.known, PrivateKey: p.privateKey, Device: p.device, Underlay: func() (int, error) { return 1500, nil },
		Reporter: p, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		p.set(func() { p.facts = &network.Facts{} }) // there is no tunnel to leave to anybody
		p.News()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return socket.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

func (p *pod) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *pod) known(context.Context) (network.Facts, []network.Problem, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.facts == nil {
		return network.Facts{}, nil, applier.ErrUnknown
	}
	return *p.facts, nil, nil
}

func (p *pod) privateKey(context.Context) (dataplane.PrivateKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key == nil {
		return dataplane.PrivateKey{}, errors.New("there is no Secret")
	}
	return *p.key, nil
}

// Report records the report that a real Reporter would send to the API server.
func (p *pod) Report(_ context.Context, seen gateway.Observation, active bool, _ *network.Peer) {
	p.set(func() {
		p.last = seen
		if active {
			p.reports = append(p.reports, seen)
		}
	})
}

func (p *pod) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reports) > 0 && p.reports[len(p.reports)-1].Works
}

// tunnel returns the WireGuard configuration.
func (p *pod) tunnel() dataplane.WireGuard {
	p.t.Helper()
	state, err := p.Read(context.Background(), dataplane.Ours())
	if err != nil || len(state.WireGuard) != 1 {
		p.t.Fatalf("reading WireGuard: %+v, %v", state.WireGuard, err)
	}
	return state.WireGuard[0]
}

func (p *pod) device() gateway.Device {
	var d gateway.Device
	state, err := p.Read(context.Background(), dataplane.Ours())
	if err != nil || len(state.WireGuard) != 1 {
		return d
	}
	d.Port = state.WireGuard[0].ListenPort
	for _, peer := range state.WireGuard[0].Peers {
		d.Peers = append(d.Peers, gateway.DevicePeer{Key: peer.PublicKey, Endpoint: peer.Endpoint, Carries: len(peer.AllowedIPs) > 0, Handshake: peer.Handshake})
	}
	return d
}

// keys are the public keys of milan in WireGuard. The first carries traffic.
func (p *pod) keys() string {
	var carries, others []string
	for _, peer := range p.tunnel().Peers {
		if name := fmt.Sprint(peer.PublicKey[0]); len(peer.AllowedIPs) > 0 {
			carries = append(carries, name)
		} else {
			others = append(others, name)
		}
	}
	return fmt.Sprint(append(carries, others...))
}

// answer answers pings as milan does, until the function returned is called.
func (p *pod) answer() (stop func()) {
	p.t.Helper()
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(p.far))
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return // it was closed
			}
			_, _ = socket.WriteToUDPAddrPort(bytes.ReplaceAll(buffer[:n], []byte("PING"), []byte("PONG")), from)
		}
	}()
	return func() { _ = socket.Close() }
}

func (p *pod) eventually(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	p.t.Fatalf("waited 20 s for %s: WireGuard has %+v", what, p.tunnel())
}

func (p *pod) says(want network.State) bool {
	told, _, err := gateway.PublishedStatus(p.opts.Directory)
	return err == nil && told.State == want
}

// TestLifeOfATunnel: no tunnel before all facts are known, then a tunnel as the facts require, its reported status, a key rotation of the peer
// without interruption, and another attempt when the peer stops answering. The metrics follow.
func TestLifeOfATunnel(t *testing.T) {
	p := start(t)
	p.set(func() { p.key = &dataplane.PrivateKey{9} })
	time.Sleep(50 * time.Millisecond)
	if p.Ready() == nil || len(p.tunnel().Peers) != 0 {
		t.Fatalf("before anything is known: ready %v, WireGuard %+v", p.Ready(), p.tunnel())
	}
	p.set(func() { p.facts = told(milanKey) })
	p.News()
	p.eventually("the tunnel", func() bool {
		peers := p.tunnel().Peers
		return len(peers) == 1 && peers[0].Endpoint == endpoint && p.Ready() == nil && !p.says(network.Active)
	})
	deaf := p.answer()
	p.eventually("the tunnel to work, and to be told of", func() bool { return p.Works() && p.says(network.Active) && p.works() })
	p.eventually("metrics of a working tunnel", func() bool {
		seen := p.Tunnel()
		return seen.Connected && seen.Active && seen.Takeovers > 0 && seen.PingStats.Pongs > 0 && seen.Handshake.IsZero()
	})
	takeovers := p.Tunnel().Takeovers

	p.set(func() { p.facts = told(newKey) })
	p.News()
	p.eventually("the new key beside the one that carries traffic", func() bool { return p.keys() == "[1 2]" })
	if err := p.Handshake(dataplane.TunnelLink, newKey, endpoint, time.Now()); err != nil {
		t.Fatal(err)
	}
	p.eventually("the new key alone", func() bool { return p.keys() == "[2]" && !p.Tunnel().Handshake.IsZero() })

	dialed := []uint16{p.tunnel().ListenPort}
	deaf()
	p.eventually("two more attempts, each from a port of its own", func() bool {
		if port := p.tunnel().ListenPort; !slices.Contains(dialed, port) {
			dialed = append(dialed, port)
		}
		return len(dialed) > 2 && !p.says(network.Active)
	})
	p.answer()
	p.eventually("the tunnel to work again", func() bool { return p.Works() && p.says(network.Active) && p.works() })
	if again := p.Tunnel().Takeovers; again <= takeovers {
		t.Errorf("this replica became active again, and %d takeovers are counted, before that %d", again, takeovers)
	}
}

// TestARefusedAddressIsReported: the agent dials the addresses of the peer except a refused one, and reports that one as long as the peer has it.
func TestARefusedAddressIsReported(t *testing.T) {
	p := start(t)
	with := told(milanKey)
	with.Peers[0].Endpoints = append([]string{"127.0.0.1"}, with.Peers[0].Endpoints...)
	p.set(func() { p.facts, p.key = with, &dataplane.PrivateKey{9} })
	p.News()
	refused := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.last.Refused
	}
	p.eventually("the tunnel, and the refused address in a report", func() bool {
		peers := p.tunnel().Peers
		return len(peers) == 1 && peers[0].Endpoint == endpoint && strings.Contains(refused(), "127.0.0.1")
	})
	p.set(func() { p.facts = told(milanKey) })
	p.News()
	p.eventually("a report without a refused address", func() bool { return refused() == "" })
}

// TestNoTunnelWithoutKeys: the agent waits for missing keys, and the pod is not ready meanwhile.
func TestNoTunnelWithoutKeys(t *testing.T) {
	p := start(t)
	p.set(func() { p.facts = told(milanKey) })
	p.News()
	time.Sleep(100 * time.Millisecond)
	if p.Ready() == nil || len(p.tunnel().Peers) != 0 {
		t.Errorf("without a key of its own: ready %v, WireGuard %+v", p.Ready(), p.tunnel())
	}
	p.set(func() { p.key = &dataplane.PrivateKey{9} })
	p.News()
	p.eventually("the tunnel", func() bool { return len(p.tunnel().Peers) == 1 && p.Ready() == nil })
}

// TestTunnelIsOpenedAfterAFault: the tunnel is opened whichever call to the kernel fails first.
func TestTunnelIsOpenedAfterAFault(t *testing.T) {
	for call := 1; call <= 12; call++ {
		t.Run(fmt.Sprint(call), func(t *testing.T) {
			t.Parallel()
			p := start(t)
			failing := call
			p.Fault(func(_ int, what string) error {
				if what == "read" {
					return nil
				}
				if failing--; failing == 0 {
					return errors.New("this once")
				}
				return nil
			})
			p.set(func() { p.facts, p.key = told(milanKey), &dataplane.PrivateKey{9} })
			p.News()
			p.eventually("the tunnel", func() bool { return len(p.tunnel().Peers) == 1 && p.Ready() == nil })
		})
	}
}
