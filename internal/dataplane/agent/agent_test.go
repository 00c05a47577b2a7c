package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/dataplane/fake"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// facts of a cluster with n peers.
func facts(n int) *network.Facts {
	f := &network.Facts{
		Pods: []netip.Prefix{prefix("10.244.0.0/16")}, External: prefix("10.70.0.0/16"),
		Nodes: []network.Node{
			{Name: "one", IP: addr("172.16.0.1"), Addresses: []netip.Addr{addr("172.16.0.1")}, Pods: []netip.Prefix{prefix("10.244.0.0/24")}},
			{Name: "two", IP: addr("172.16.0.2"), Addresses: []netip.Addr{addr("172.16.0.2")}, Pods: []netip.Prefix{prefix("10.244.1.0/24")}},
		},
	}
	for i := range n {
		f.Peers = append(f.Peers, network.Peer{
			ClusterID: fmt.Sprintf("peer-%d", i), Gateway: "g", Role: network.Server, Port: 51840,
			Pods:       []ipam.Remap{{Real: prefix("10.244.0.0/16"), View: prefix(fmt.Sprintf("10.%d.0.0/16", 80+i))}},
			External:   []ipam.Remap{{Real: prefix("10.70.0.0/16"), View: prefix(fmt.Sprintf("10.%d.0.0/16", 100+i))}},
			Candidates: []network.Candidate{{Pod: "p", IP: addr(fmt.Sprintf("10.244.1.%d", 10+i)), Node: "two"}},
		})
	}
	return f
}

func node(n int) dataplane.State {
	f := facts(n)
	return network.CompileNode(f, network.Host{Name: "one", MTU: 1500}, network.FirstChoice(f))
}

func gatewayState(peers ...network.TunnelPeer) dataplane.State {
	f := facts(2)
	self := network.Self{ClusterID: "peer-0", IP: addr("10.244.1.10"), Node: "two", MTU: 1500}
	return network.CompileGateway(f, self, network.Tunnel{PrivateKey: dataplane.PrivateKey{1}, ListenPort: 51840, Peers: peers}, network.FirstChoice(f))
}

// host is a kernel and an agent that applies the states of the test.
type host struct {
	*Agent
	kernel *fake.Kernel
	own    dataplane.Ownership

	mu   sync.Mutex
	want []dataplane.State
	err  error
	log  bytes.Buffer
}

func newHost(k *fake.Kernel, own dataplane.Ownership) *host {
	h := &host{kernel: k, own: own}
	h.Agent = New(Options{
		Kernel: k, Own: own, Log: slog.New(slog.NewTextHandler(&locked{h: h}, nil)),
		Want: func(context.Context) ([]dataplane.State, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.want, h.err
		},
	})
	return h
}

// locked writes to the log of a host while it holds the lock of the host.
type locked struct{ h *host }

func (l *locked) Write(p []byte) (int, error) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.h.log.Write(p)
}

func (h *host) wants(err error, states ...dataplane.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.want, h.err = states, err
}

func (h *host) lines() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.log.String(), "\n")
}

func onNode() *host {
	own := dataplane.Ours()
	own.Tunnel = ""
	return newHost(fake.New(addr("172.16.0.1")), own)
}

// has fails the test unless the kernel is as wanted.
func (h *host) has(t *testing.T, want dataplane.State) {
	t.Helper()
	have, err := h.kernel.Read(t.Context(), h.own)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dataplane.Text(want), dataplane.Text(have)); diff != "" {
		t.Fatalf("the kernel is not as wanted (-want +have):\n%s", diff)
	}
}

func (h *host) pass(t *testing.T) {
	t.Helper()
	if err := h.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNoChangeBeforeAllFactsAreKnown(t *testing.T) {
	h := onNode()
	for _, err := range []error{ErrUnknown, errors.New("the link is gone")} {
		h.wants(err)
		if got := h.Pass(t.Context()); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	if calls := h.kernel.Calls(); calls != 0 {
		t.Errorf("the kernel was called %d times", calls)
	}
}

func TestSecondPassDoesNothing(t *testing.T) {
	h := onNode()
	h.wants(nil, node(2))
	h.pass(t)
	h.has(t, node(2))
	calls, lines := h.kernel.Calls(), h.lines()
	if lines != 1 {
		t.Errorf("one pass that changed something wrote %d lines:\n%s", lines, h.log.String())
	}
	h.pass(t)
	if h.kernel.Calls() != calls || h.lines() != lines {
		t.Errorf("a pass without news made %d calls and wrote %d lines", h.kernel.Calls()-calls, h.lines()-lines)
	}
	h.settled = nil // forces a read, as the periodic refresh does
	h.pass(t)
	if h.kernel.Calls() != calls+1 || h.lines() != lines {
		t.Errorf("a full pass that finds nothing made %d calls and wrote %d lines, want one reading", h.kernel.Calls()-calls, h.lines()-lines)
	}
}

// TestKnownStateIsNotReadAgain: with thousands of routes, reading them takes much longer than changing one.
func TestKnownStateIsNotReadAgain(t *testing.T) {
	h := onNode()
	h.wants(nil, node(2))
	h.pass(t)
	var calls []string
	h.kernel.Fault(func(_ int, what string) error {
		calls = append(calls, what)
		return nil
	})
	h.wants(nil, node(3))
	h.pass(t)
	if len(calls) == 0 || slices.Contains(calls, "read") {
		t.Errorf("another peer took the calls %q, want changes without a reading", calls)
	}
	h.kernel.RemoveLink(dataplane.OverlayLink) // this also deletes routes, without a notification
	h.wants(nil, node(1))
	_ = h.Pass(t.Context()) // this pass may fail
	h.settled = nil         // forces a read, as a notification of the kernel does
	h.pass(t)
	h.has(t, node(1))
}

// TestReadsAreDelayed: a state that takes long to read is not read continuously, however often a read is requested. Changed facts do not wait for
// that.
func TestReadsAreDelayed(t *testing.T) {
	const long, window = 20 * time.Millisecond, time.Second
	h := onNode()
	h.wants(nil, node(2))
	var reads atomic.Int32
	h.kernel.Fault(func(_ int, what string) error {
		if what == "read" {
			reads.Add(1)
			time.Sleep(long)
		}
		return nil
	})
	settled := make(chan struct{}, 100)
	h.opts.Settled = func() { settled <- struct{}{} }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	<-settled
	began, passes := time.Now(), 0
	// On a busy machine a read takes longer, and the next one is delayed accordingly.
	for time.Since(began) < window || reads.Load() < 2 && time.Since(began) < time.Minute {
		h.Resync()
		h.Facts()
		<-settled
		passes++
	}
	elapsed := time.Since(began)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if most := int32(elapsed/(readBackoffFactor*long)) + 2; reads.Load() < 2 || reads.Load() > most {
		t.Errorf("within %s it looked %d times, want 2 to %d", elapsed, reads.Load(), most)
	}
	if looked := int(reads.Load()); passes < 2*looked {
		t.Errorf("within %s there were %d passes and %d looks: news wait for looks", elapsed, passes, looked)
	}
}

func TestRestartedAgentChangesNothing(t *testing.T) {
	h := onNode()
	h.wants(nil, node(3))
	h.pass(t)
	calls := h.kernel.Calls()
	next := newHost(h.kernel, h.own)
	next.wants(nil, node(3))
	next.pass(t)
	if made := h.kernel.Calls() - calls; made != 1 || next.lines() != 0 {
		t.Errorf("the next agent made %d calls and wrote %d lines, want one reading", made, next.lines())
	}
}

// TestFaultAtEveryCall: whichever call fails, and however often, the next successful pass reaches the wanted state.
func TestFaultAtEveryCall(t *testing.T) {
	worlds := []dataplane.State{{}, node(1), node(3), node(2), {}, node(2)}
	for from, first := range worlds {
		for to, second := range worlds {
			if from == to {
				continue
			}
			calls := 1
			for at := 1; at <= calls; at++ {
				h := onNode()
				h.wants(nil, first)
				h.pass(t)
				before := h.kernel.Calls()
				h.wants(nil, second)
				h.kernel.Fault(func(call int, what string) error {
					if call == before+at {
						return fmt.Errorf("%s: no buffer space available", what)
					}
					return nil
				})
				err := h.Pass(t.Context())
				if err == nil && h.kernel.Calls() >= before+at {
					t.Fatalf("from %d to %d: a call failed and the pass did not", from, to)
				}
				if err == nil {
					break // there are no more calls
				}
				calls = at + 1
				h.kernel.Fault(nil)
				h.pass(t)
				h.has(t, second)
				if text := h.log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "Recovered") {
					t.Fatalf("from %d to %d: the fault and its end are to be told of once:\n%s", from, to, text)
				}
			}
		}
	}
}

func TestRepeatedFailureIsLoggedOnce(t *testing.T) {
	h := onNode()
	h.wants(nil, node(1))
	h.kernel.Fault(func(int, string) error { return errors.New("operation not permitted") })
	for range 5 {
		if err := h.Pass(t.Context()); err == nil {
			t.Fatal("nothing failed")
		}
	}
	if h.lines() != 1 {
		t.Errorf("the log is\n%s", h.log.String())
	}
}

// TestOnlyTheTunnelWaitsForItsLink: the process that creates the tunnel link may start later.
func TestOnlyTheTunnelWaitsForItsLink(t *testing.T) {
	h := newHost(fake.New(addr("10.244.1.10")), dataplane.Ours())
	want := gatewayState(network.TunnelPeer{Key: dataplane.PublicKey{7}, Carries: true})
	h.wants(nil, want)
	if err := h.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), dataplane.TunnelLink) {
		t.Fatalf("got %v, want it to say what it waits for", err)
	}
	have, err := h.kernel.Read(t.Context(), h.own)
	if err != nil || len(have.Links) != 1 || have.Table == nil || len(have.Neighbours) != len(want.Neighbours) {
		t.Fatalf("have %s, %v", dataplane.Text(have), err)
	}
	h.kernel.AddTunnel(dataplane.TunnelLink, 1420)
	h.pass(t)
	h.has(t, want)
}

// TestStatesAreAppliedInOrder: a WireGuard peer that has to forget its state is removed before it is added again.
func TestStatesAreAppliedInOrder(t *testing.T) {
	h := newHost(fake.New(addr("10.244.1.10")), dataplane.Ours())
	h.kernel.AddTunnel(dataplane.TunnelLink, 1420)
	key, endpoint := dataplane.PublicKey{7}, netip.MustParseAddrPort("192.0.2.1:4000")
	with, without := gatewayState(network.TunnelPeer{Key: key, Carries: true}), gatewayState()
	h.wants(nil, with)
	h.pass(t)
	if err := h.kernel.Handshake(dataplane.TunnelLink, key, endpoint, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	h.wants(nil, without, with)
	h.pass(t)
	have, err := h.kernel.Read(t.Context(), h.own)
	if err != nil {
		t.Fatal(err)
	}
	if peers := have.WireGuard[0].Peers; len(peers) != 1 || !peers[0].Handshake.IsZero() || peers[0].Endpoint.IsValid() {
		t.Errorf("the session is still there: %+v", peers)
	}
	h.wants(nil, with)
	calls := h.kernel.Calls()
	h.pass(t)
	if h.kernel.Calls() != calls {
		t.Error("what was gone through last is not known to be there")
	}
}

func TestRunReactsToFactsAndDrift(t *testing.T) {
	h := onNode()
	h.wants(ErrUnknown)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	eventually := func(what string, want dataplane.State) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			have, err := h.kernel.Read(ctx, h.own)
			if err == nil && dataplane.Text(have) == dataplane.Text(want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("waited 10 s for %s; the kernel has\n%s", what, dataplane.Text(have))
			}
		}
	}
	h.wants(nil, node(2))
	h.Facts()
	eventually("the first plan", node(2))
	h.wants(nil, node(1))
	h.Facts()
	eventually("another plan", node(1))
	h.kernel.RemoveLink(dataplane.OverlayLink)
	h.Resync()
	eventually("the link that somebody removed", node(1))
	h.kernel.RemoveLink(dataplane.OverlayLink)
	h.wants(nil, node(2))
	h.Facts() // Facts before Resync, so that the pass relies on an outdated state
	h.Resync()
	eventually("another plan and the link, whichever was told first", node(2))
	failures := 3
	h.kernel.Fault(func(_ int, what string) error {
		if failures > 0 && what != "read" {
			failures--
			return errors.New("busy")
		}
		return nil
	})
	h.wants(nil, node(3))
	h.Facts()
	eventually("the plan, after some tries", node(3))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	h.has(t, node(3)) // the agent leaves the namespace unchanged when it ends
}

// TestUnchangedFactsCauseNoRead: facts without a change do not cause a read of the kernel before the next one is due.
func TestUnchangedFactsCauseNoRead(t *testing.T) {
	for _, c := range []struct {
		name    string
		refresh time.Duration
		looks   bool
	}{
		{"before a look is due", time.Hour, false},
		{"news do not put off the look", 4 * pause, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := onNode()
			h.opts.Refresh = c.refresh
			settled := make(chan struct{}, 100)
			h.opts.Settled = func() { settled <- struct{}{} }
			h.wants(nil, node(2))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- h.Run(ctx) }()
			<-settled
			calls := h.kernel.Calls()
			for range 10 {
				h.Facts()
				<-settled // the pass has compared the wanted state and found no difference
			}
			looks := h.kernel.Calls() - calls
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if looks > 0 != c.looks {
				t.Errorf("10 news without a change made the agent look %d times", looks)
			}
		})
	}
}
