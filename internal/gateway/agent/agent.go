// Package agent takes the decisions for one pod of a gateway: whether this replica is active, the configuration of WireGuard and of the
// pod's network, and the status for the API server. The logic is in gateway.Session, which has no side effects. This package supplies
// its observations and applies its results.
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
	"liqo.io/liqo/internal/trigger"
)

// Kernel gives access to the network configuration of the pod.
type Kernel interface {
	dataplane.Kernel
	// Watch calls changed after changes that other programs make to the network of the pod. It returns when ctx ends.
	Watch(ctx context.Context, own dataplane.Ownership, changed func()) error
}

// Options are the options of an Agent. Only OnPong and Applier are optional.
type Options struct {
	// ClusterID is the ID of this cluster, and Peer that of the other cluster. Role is the role of this gateway in the tunnel
	// between them.
	ClusterID, Peer string
	Role            network.Role
	// Pod and IP are the name and the address of this pod. Node is the name of its node.
	Pod, Node string
	IP        netip.Addr
	Timing    network.Timing
	// PingInterval is the time between two pings. StatusInterval is the minimum time between two updates of the latency in the
	// Connection.
	PingInterval, StatusInterval time.Duration
	// Far is the address and port of the peer's ping responder. Local is the local port from which pings are sent. Both ends are
	// inside the tunnel. Link is the link to send pings through.
	Far   netip.AddrPort
	Local uint16
	Link  string
	// Directory is shared by the containers of this pod. ProbePort is the UDP port on which replicas answer probes.
	Directory string
	ProbePort uint16

	Kernel Kernel
	// Facts returns the network facts computed from the objects of the API server, and the problems found in them. It returns
	// applier.ErrUnknown until the caches are complete.
	Facts func(context.Context) (network.Facts, []network.Problem, error)
	// PrivateKey returns the private key of this gateway.
	PrivateKey func(context.Context) (dataplane.PrivateKey, error)
	// Device returns the state of WireGuard. Underlay returns the MTU of the network below the tunnel.
	Device   func() gateway.Device
	Underlay func() (mtu int, err error)
	Reporter Reporter
	// OnPong is called with the round-trip time of each answer through the tunnel.
	OnPong func(rtt time.Duration)
	// Applier records the changes to the network of the pod; nil records nothing.
	Applier *applier.Metrics
	Log     *slog.Logger
}

// Reporter reports the state of the tunnel to the API server. The agent does not wait for the reports.
type Reporter interface {
	// Report is called repeatedly by the replica that writes the gateway's Connection. active means that this replica is the active one.
	Report(ctx context.Context, seen gateway.Observation, active bool, peer *network.Peer)
}

// Agent runs everything in the container that takes the decisions.
type Agent struct {
	opts     Options
	choice   *gateway.Choice // which pods of other gateways are active
	siblings *gateway.Prober
	applier  *applier.Agent
	pinger   *gateway.Pinger
	resolver *gateway.Resolver
	began    time.Time
	problems facts.ProblemLog // problems of the facts
	settled  atomic.Bool
	observed trigger.Trigger // signals an answer through the tunnel
	left     trigger.Trigger // signals that the peer's active replica is about to end

	mu      sync.Mutex
	session *gateway.Session
	// known holds the last facts. mtu and compiled describe the last wanted configuration: the MTU of its tunnel, and the number of its session.
	known    *network.Facts
	mtu      int
	compiled int
	// keys holds the problems with the keys of this gateway.
	keys facts.ProblemLog
	// refused says which address of the peer must not be dialed, and why. It is empty if there is none.
	refused string
	// device is the last state that was read from WireGuard. deviceRead is the time of that read.
	device     gateway.Device
	deviceRead time.Time
	// meter adds up the traffic. takeovers counts how often this replica became the active one.
	meter     gateway.Meter
	takeovers int
	// leaving is when this replica started to hand over the tunnel; zero if it has not.
	leaving time.Time
}

// New returns an Agent that does nothing before Run.
func New(opts Options) *Agent {
	a := &Agent{
		opts: opts, began: time.Now(), problems: facts.ProblemLog{Log: opts.Log}, keys: facts.ProblemLog{Log: opts.Log},
		observed: trigger.New(), left: trigger.New(),
	}
	a.session = gateway.NewSession(opts.Timing, func() uint16 { return uint16(20000 + rand.IntN(40000)) })
	a.applier = applier.New(applier.Options{Kernel: opts.Kernel, Own: dataplane.Ours(), Want: a.want, Log: opts.Log, Settled: a.made, Metrics: opts.Applier})
	a.pinger = gateway.NewPinger(gateway.PingerOptions{
		ClusterID: opts.ClusterID, Far: opts.Far, Local: opts.Local, Link: opts.Link, Interval: opts.PingInterval,
		OnPong: func(rtt time.Duration) {
			if opts.OnPong != nil {
				opts.OnPong(rtt)
			}
			a.observed.Fire()
		},
		// The peer's former replica needs a moment to stop listening. A new session that starts earlier could reach that replica again, and would
		// soon break.
		OnShutdownNotice: func() { time.AfterFunc(byePause, func() { a.left.Fire() }) },
	})
	a.siblings = gateway.NewProber(gateway.ProberOptions{Port: opts.ProbePort, Interval: opts.Timing.ProbeInterval})
	a.choice = gateway.NewChoice(opts.Timing, a.applier.Facts)
	a.resolver = gateway.NewResolver(a.applier.Facts)
	return a
}

// News signals that the network facts may have changed. It never blocks.
func (a *Agent) News() { a.applier.Facts() }

// Run runs the agent until ctx ends, and then for as long as another replica needs to take over. It also runs the functions in
// others, and ends them at the same time.
func (a *Agent) Run(ctx context.Context, others ...func(context.Context) error) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := errgroup.WithContext(work)
	for _, part := range append([]func(context.Context) error{
		func(work context.Context) error { return a.opts.Kernel.Watch(work, dataplane.Ours(), a.applier.Resync) },
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

// want returns the configurations that this pod needs now, in the order in which WireGuard must get them.
func (a *Agent) want(ctx context.Context) ([]dataplane.State, error) {
	known, problems, err := a.opts.Facts(ctx)
	if err != nil {
		return nil, err
	}
	a.problems.Report(problems)
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
		return nil, applier.ErrUnknown // waiting for the keys, or for the session of the previous agent
	}
	a.compiled = a.session.Replica().Session
	var states []dataplane.State
	for _, tunnel := range a.session.Tunnels() {
		states = append(states, network.CompileGateway(&known, self, tunnel, active))
	}
	a.mtu = tunnelMTU(states[len(states)-1])
	return states, nil
}

// made is called when the applier has applied the whole wanted configuration.
func (a *Agent) made() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session.Made(a.compiled) {
		a.pinger.PingNow() // the new session may already work
	}
	a.settled.Store(true)
}

// Ready returns nil if this pod can carry traffic, else an error that says what is missing.
func (a *Agent) Ready() error {
	if !a.settled.Load() {
		return errors.New("the agent has not applied the wanted network state in this pod yet")
	}
	return nil
}

// Works reports whether the peer answers through the tunnel.
func (a *Agent) Works() bool {
	stats := a.pinger.PingStats()
	return !stats.Last.IsZero() && time.Since(stats.Last) < a.opts.Timing.Lost
}

// report calls the Reporter at each interval until ctx ends, if this replica is the one that writes the Connection.
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
		replica, mtu, refused := a.session.Replica(), a.mtu, a.refused
		ok = ok && a.session.Begun() && a.leaving.IsZero()
		a.mu.Unlock()
		if !ok || !gateway.WritesConnection(in.Self, replica.State, in.Siblings, a.opts.Timing, in.Now) {
			continue
		}
		a.opts.Reporter.Report(ctx, gateway.Observation{
			Now: in.Now, Began: a.began, PingStats: in.PingStats, Works: a.Works(), MTU: mtu, Peer: a.opts.Peer, Refused: refused, Interval: a.opts.StatusInterval,
		}, replica.State == network.Active, &in.Peer)
	}
}

// tunnelMTU returns the MTU of the tunnel in a state; 0 if the state has no tunnel.
func tunnelMTU(s dataplane.State) int {
	for _, l := range s.Links {
		if l.Name == dataplane.TunnelLink {
			return l.MTU
		}
	}
	return 0
}
