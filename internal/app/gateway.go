package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/dataplane/kernel"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/network"
)

// agentGC is by how many percent the memory of an agent may grow between two collections.
const agentGC = 50

// Gateway runs what the first argument says until ctx ends: "tunnel" is the container that holds the tunnel's link, "prepare" the one that
// prepares the pod's network namespace, "agent" what decides.
func Gateway(ctx context.Context, args []string) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	klog.SetSlogLogger(log)
	if len(args) == 0 {
		return errors.New("tell what to run: tunnel, prepare or agent")
	}
	switch args[0] {
	case "prepare":
		return gateway.Prepare(gateway.Sysctls)
	case "tunnel":
		opts, err := parseTunnel(args[1:])
		if err != nil {
			return err
		}
		opts.Log = log
		return gateway.RunTunnel(ctx, opts)
	case "agent":
		opts, err := parseGateway(args[1:])
		if err != nil {
			return err
		}
		// There is one for each replica of each peer, and little to do: memory counts for more than processor time.
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(agentGC)
		}
		cfg, err := ownConfig()
		if err != nil {
			return fmt.Errorf("reaching this cluster: %w", err)
		}
		g, err := newGatewayAgent(cfg, opts, log)
		if err != nil {
			return err
		}
		return g.run(ctx)
	default:
		return fmt.Errorf("unknown command %q: want tunnel, prepare or agent", args[0])
	}
}

// gatewayAgent is everything that runs in the container that decides.
type gatewayAgent struct {
	opts     *gatewayOptions
	log      *slog.Logger
	facts    *networkFacts
	choice   *gatewayChoice // of the other peers' gateways
	siblings *gateway.Prober
	kernel   *kernel.Kernel
	agent    *agent.Agent
	pinger   *gateway.Pinger
	resolver *gateway.Resolver
	reporter *gatewayReporter
	metrics  *gatewayMetrics
	timing   network.Timing
	began    time.Time
	problems problemLog // of the facts
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
	keys problemLog
	// said is what WireGuard said when it was asked last.
	said  gateway.Device
	asked time.Time
	// leaving is when this replica began to end; zero while it does not.
	leaving time.Time
}

func newGatewayAgent(cfg *rest.Config, opts *gatewayOptions, log *slog.Logger) (*gatewayAgent, error) {
	g := &gatewayAgent{
		opts: opts, log: log, began: time.Now(), problems: problemLog{log: log}, keys: problemLog{log: log},
		timing: network.DefaultTiming(opts.pingInterval, opts.pingLossThreshold), heard: make(chan struct{}, 1), left: make(chan struct{}, 1),
	}
	var err error
	if g.kernel, err = kernel.New(); err != nil {
		return nil, fmt.Errorf("opening the kernel's network: %w", err)
	}
	g.session = gateway.NewSession(g.timing, func() uint16 { return uint16(20000 + rand.IntN(40000)) })
	g.agent = agent.New(agent.Options{Kernel: g.kernel, Own: dataplane.Ours(), Want: g.want, Log: log, Settled: g.made})
	if g.facts, err = newNetworkFacts(cfg, opts.liqoNamespace, opts.options(), "", watching{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			opts.namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", opts.secretName)},
		}},
	}, g.agent.Facts); err != nil {
		return nil, err
	}
	writer, err := client.New(cfg, client.Options{Scheme: networkScheme(), Mapper: networkMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	g.metrics = newGatewayMetrics(opts.remoteClusterID, g.device, func() time.Duration { return g.pinger.Pulse().RTT }, g.works)
	far := network.ServerAddress()
	if opts.role == network.Server {
		far = network.ClientAddress()
	}
	g.pinger = gateway.NewPinger(gateway.PingerOptions{
		ClusterID: opts.clusterID, Far: netip.AddrPortFrom(far.Addr(), network.PingPort), Local: network.PongPort, Link: dataplane.TunnelLink,
		Interval: opts.pingInterval,
		Heard: func(rtt time.Duration) {
			g.metrics.heard(rtt)
			signal(g.heard)
		},
		// It needs a moment to become deaf; a session with the same replica again would not last.
		Left: func() { time.AfterFunc(byePause, func() { signal(g.left) }) },
	})
	g.siblings = gateway.NewProber(gateway.ProberOptions{Port: network.AskPort, Interval: g.timing.Ask})
	g.choice = newGatewayChoice(g.timing, g.agent.Facts)
	g.resolver = gateway.NewResolver(g.agent.Facts)
	g.reporter = &gatewayReporter{client: writer, cache: g.facts.cache, opts: opts, log: log}
	return g, nil
}

// run does all of it until ctx ends, and then for as long as it takes another replica to take over.
func (g *gatewayAgent) run(ctx context.Context) error {
	served := endpoints{health: g.opts.healthAddress, metrics: g.opts.metricsAddress, ready: g.ready, registry: g.metrics.registry}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := errgroup.WithContext(work)
	for _, part := range []func(context.Context) error{
		func(work context.Context) error { return g.facts.run(work, &corev1.Secret{}) },
		func(work context.Context) error { return g.kernel.Watch(work, dataplane.Ours(), g.agent.Look) },
		g.choice.run,
		g.siblings.Run,
		g.resolver.Run,
		g.pinger.Run,
		g.agent.Run,
		g.decide,
		g.report,
		served.serve,
	} {
		group.Go(func() error { return part(work) })
	}
	group.Go(func() error {
		select {
		case <-work.Done():
		case <-ctx.Done():
			g.leave(work)
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
func (g *gatewayAgent) want(ctx context.Context) ([]dataplane.State, error) {
	facts, problems, err := g.facts.read(ctx)
	if err != nil {
		return nil, err
	}
	g.problems.tell(problems)
	g.mu.Lock()
	g.known = &facts
	g.mu.Unlock()
	g.step(time.Now()) // the facts may be new
	others := make([]network.Peer, 0, len(facts.Peers))
	for _, p := range facts.Peers {
		if p.ClusterID != g.opts.remoteClusterID {
			others = append(others, p)
		}
	}
	active, err := g.choice.of(others)
	if err != nil {
		return nil, err
	}
	self := network.Self{ClusterID: g.opts.remoteClusterID, IP: g.opts.podIP, Node: g.opts.nodeName}
	if self.MTU, _, err = agent.Underlay(g.opts.podIP, dataplane.OverlayLink, dataplane.TunnelLink); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := facts.Peer(g.opts.remoteClusterID); ok && !g.session.Begun() {
		return nil, agent.ErrUnknown // it waits for its keys, or to take over from the agent before it
	}
	g.compiled = g.session.Replica().Session
	var states []dataplane.State
	for _, tunnel := range g.session.Tunnels() {
		states = append(states, network.CompileGateway(&facts, self, tunnel, active))
	}
	g.mtu = tunnelMTU(states[len(states)-1])
	return states, nil
}

// made is told that all that was wanted is there.
func (g *gatewayAgent) made() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.session.Made(g.compiled) {
		g.pinger.Ask() // the new session may work already
	}
	g.settled.Store(true)
}

func (g *gatewayAgent) ready() error {
	if !g.settled.Load() {
		return errors.New("the network of this pod is not as it should be yet")
	}
	return nil
}

// device is what WireGuard says; nothing while it can't be asked.
func (g *gatewayAgent) device() gateway.Device {
	device, err := gateway.ReadDevice()
	if err != nil {
		return gateway.Device{}
	}
	return device
}

// works tells whether the peer answers through the tunnel.
func (g *gatewayAgent) works() bool {
	pulse := g.pinger.Pulse()
	return !pulse.Last.IsZero() && time.Since(pulse.Last) < g.timing.Lost
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
