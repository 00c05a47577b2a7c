// Package agent decides for one pod of a gateway: whether it is the one at work, what WireGuard and the pod's network are to be, and what the API
// server is told. What it decides is gateway.Session, which is pure; this feeds it with what is seen and has it applied.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"liqo.io/liqo/internal/dataplane"
	applier "liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/facts"
)

// Kernel is the network of the pod.
type Kernel interface {
	dataplane.Kernel
	// Watch tells of changes that others make, until ctx ends.
	Watch(ctx context.Context, own dataplane.Ownership, changed func()) error
}

// Options of an Agent. All of them are needed, but for Heard.
type Options struct {
	// ClusterID is this cluster's, Peer the other one's, Role what this gateway is in the tunnel between them.
	ClusterID, Peer string
	Role            network.Role
	// Pod and IP are this pod's, Node is where it runs.
	Pod, Node string
	IP        netip.Addr
	Timing    network.Timing
	// PingInterval is the time between two pings, StatusInterval that between two updates of the latency in the Connection.
	PingInterval, StatusInterval time.Duration
	// Far answers pings, from Local on; both ends are within the tunnel. Link is the one to ask through.
	Far   netip.AddrPort
	Local uint16
	Link  string
	// Directory is where this pod's containers tell each other things, AskPort where replicas ask each other.
	Directory string
	AskPort   uint16

	Kernel Kernel
	// Facts returns what the API server told; applier.ErrUnknown before it told everything.
	Facts func(context.Context) (network.Facts, []network.Problem, error)
	// PrivateKey is the gateway's own.
	PrivateKey func(context.Context) (dataplane.PrivateKey, error)
	// Device is what WireGuard says, Underlay the MTU of what the tunnel runs on.
	Device   func() gateway.Device
	Underlay func() (mtu int, err error)
	Reporter Reporter
	// Heard is told how long each answer through the tunnel took.
	Heard func(rtt time.Duration)
	Log   *slog.Logger
}

// Reporter tells the API server of the tunnel. Nothing waits for it.
type Reporter interface {
	// Report is called again and again, by who speaks for the gateway; active says that it is at work.
	Report(ctx context.Context, seen gateway.Seen, active bool, peer *network.Peer)
}

// Agent is everything that runs in the container that decides.
type Agent struct {
	opts     Options
	choice   *facts.Choice // of the other peers' gateways
	siblings *gateway.Prober
	applier  *applier.Agent
	pinger   *gateway.Pinger
	resolver *gateway.Resolver
	began    time.Time
	problems facts.ProblemLog // of the facts
	settled  atomic.Bool
	heard    chan struct{} // an answer came through the tunnel
	left     chan struct{} // the far replica said that it is about to end

	mu      sync.Mutex
	session *gateway.Session
	// known are the last facts, mtu that of the tunnel and compiled the number of the session in what was wanted last.
	known    *network.Facts
	mtu      int
	compiled int
	// keys are the problems with the own ones.
	keys facts.ProblemLog
	// said is what WireGuard said when it was asked last.
	said  gateway.Device
	asked time.Time
	// leaving is when this replica began to end; zero while it does not.
	leaving time.Time
}

// New returns an Agent that does nothing before Run.
func New(opts Options) *Agent {
	a := &Agent{
		opts: opts, began: time.Now(), problems: facts.ProblemLog{Log: opts.Log}, keys: facts.ProblemLog{Log: opts.Log},
		heard: make(chan struct{}, 1), left: make(chan struct{}, 1),
	}
	a.session = gateway.NewSession(opts.Timing, func() uint16 { return uint16(20000 + rand.IntN(40000)) })
	a.applier = applier.New(applier.Options{Kernel: opts.Kernel, Own: dataplane.Ours(), Want: a.want, Log: opts.Log, Settled: a.made})
	a.pinger = gateway.NewPinger(gateway.PingerOptions{
		ClusterID: opts.ClusterID, Far: opts.Far, Local: opts.Local, Link: opts.Link, Interval: opts.PingInterval,
		Heard: func(rtt time.Duration) {
			if opts.Heard != nil {
				opts.Heard(rtt)
			}
			signal(a.heard)
		},
		// It needs a moment to become deaf; a session with the same replica again would not last.
		Left: func() { time.AfterFunc(byePause, func() { signal(a.left) }) },
	})
	a.siblings = gateway.NewProber(gateway.ProberOptions{Port: opts.AskPort, Interval: opts.Timing.Ask})
	a.choice = facts.NewChoice(opts.Timing, a.applier.Facts)
	a.resolver = gateway.NewResolver(a.applier.Facts)
	return a
}

// News tells that the facts may have changed. It never waits.
func (a *Agent) News() { a.applier.Facts() }

// Run does all of it until ctx ends, and then for as long as it takes another replica to take over. With it run the others, which end when it does.
func (a *Agent) Run(ctx context.Context, others ...func(context.Context) error) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := errgroup.WithContext(work)
	for _, part := range append([]func(context.Context) error{
		func(work context.Context) error { return a.opts.Kernel.Watch(work, dataplane.Ours(), a.applier.Look) },
		a.choice.Run,
		a.siblings.Run,
		a.resolver.Run,
		a.pinger.Run,
		a.applier.Run,
		a.decide,
		a.report,
	}, others...) {
		group.Go(func() error { return part(work) })
	}
	group.Go(func() error {
		select {
		case <-work.Done():
		case <-ctx.Done():
			a.leave(work)
			stop()
		}
		return nil
	})
	return group.Wait()
}

// signal never waits: one that is on its way will do.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// want is what this pod needs now, in the order that WireGuard has to see it.
func (a *Agent) want(ctx context.Context) ([]dataplane.State, error) {
	known, problems, err := a.opts.Facts(ctx)
	if err != nil {
		return nil, err
	}
	a.problems.Tell(problems)
	a.mu.Lock()
	a.known = &known
	a.mu.Unlock()
	a.step(ctx, time.Now()) // the facts may be new
	others := make([]network.Peer, 0, len(known.Peers))
	for _, p := range known.Peers {
		if p.ClusterID != a.opts.Peer {
			others = append(others, p)
		}
	}
	active, err := a.choice.Of(others)
	if err != nil {
		return nil, err
	}
	self := network.Self{ClusterID: a.opts.Peer, IP: a.opts.IP, Node: a.opts.Node}
	if self.MTU, err = a.opts.Underlay(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := known.Peer(a.opts.Peer); ok && !a.session.Begun() {
		return nil, applier.ErrUnknown // it waits for its keys, or to take over from the agent before it
	}
	a.compiled = a.session.Replica().Session
	var states []dataplane.State
	for _, tunnel := range a.session.Tunnels() {
		states = append(states, network.CompileGateway(&known, self, tunnel, active))
	}
	a.mtu = tunnelMTU(states[len(states)-1])
	return states, nil
}

// made is told that all that was wanted is there.
func (a *Agent) made() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session.Made(a.compiled) {
		a.pinger.Ask() // the new session may work already
	}
	a.settled.Store(true)
}

// Ready tells what is missing for this pod to carry traffic; nil when it can.
func (a *Agent) Ready() error {
	if !a.settled.Load() {
		return errors.New("the network of this pod is not as it should be yet")
	}
	return nil
}

// Works tells whether the peer answers through the tunnel.
func (a *Agent) Works() bool {
	pulse := a.pinger.Pulse()
	return !pulse.Last.IsZero() && time.Since(pulse.Last) < a.opts.Timing.Lost
}

// RTT is how long the last answer through the tunnel took.
func (a *Agent) RTT() time.Duration { return a.pinger.Pulse().RTT }

// report tells of the tunnel until ctx ends.
func (a *Agent) report(ctx context.Context) error {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		a.mu.Lock()
		in, ok := a.input(ctx, time.Now())
		replica, mtu := a.session.Replica(), a.mtu
		ok = ok && a.session.Begun() && a.leaving.IsZero()
		a.mu.Unlock()
		if !ok || !gateway.Speaks(in.Self, replica.State, in.Siblings, a.opts.Timing, in.Now) {
			continue
		}
		a.opts.Reporter.Report(ctx, gateway.Seen{
			Now: in.Now, Began: a.began, Pulse: in.Pulse, Works: a.Works(), MTU: mtu, Peer: a.opts.Peer, Interval: a.opts.StatusInterval,
		}, replica.State == network.Active, &in.Peer)
	}
}

// tunnelMTU is that of the tunnel in a state; 0 if it has none.
func tunnelMTU(s dataplane.State) int {
	for _, l := range s.Links {
		if l.Name == dataplane.TunnelLink {
			return l.MTU
		}
	}
	return 0
}
