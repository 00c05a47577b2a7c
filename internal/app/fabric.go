package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/dataplane/kernel"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/facts"
)

// cleanupTimeout limits the shutdown of the fabric agent: the check whether to clean up the node, and the cleanup itself.
const cleanupTimeout = 15 * time.Second

// Fabric runs the fabric agent until ctx ends. The agent routes traffic between this node and the gateways to peers. The network
// configuration of the node stays when the agent ends, so that traffic does not depend on the agent. If the whole installation is being
// removed, Fabric also removes that configuration. With the argument "cleanup", it only removes the configuration.
func Fabric(ctx context.Context, args []string) error {
	log := NewLog(slog.LevelInfo)
	if len(args) > 0 && args[0] == "cleanup" {
		return cleanUp(ctx, log)
	}
	opts, err := parseFabric(args)
	if err != nil {
		return err
	}
	cfg, err := ownConfig()
	if err != nil {
		return fmt.Errorf("reaching this cluster: %w", err)
	}
	f, err := newFabric(cfg, opts, log)
	if err != nil {
		return err
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	// ctx has ended, but the remaining work needs a valid context.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer stop()
	if !f.uninstalled.check(end, log) {
		return nil
	}
	return cleanUp(end, log)
}

// fabric holds all components of the fabric agent.
type fabric struct {
	opts        *fabricOptions
	facts       *facts.Watcher
	choice      *gateway.Choice
	kernel      *kernel.Kernel
	agent       *agent.Agent
	uninstalled *uninstallation
	registry    *prometheus.Registry
	problems    facts.ProblemLog
	settled     atomic.Bool
}

func newFabric(cfg *rest.Config, opts *fabricOptions, log *slog.Logger) (*fabric, error) {
	f := &fabric{opts: opts, registry: newRegistry(metrics.Fabric), problems: facts.ProblemLog{Log: log}}
	var err error
	if f.kernel, err = kernel.New(); err != nil {
		return nil, fmt.Errorf("opening the kernel's network: %w", err)
	}
	f.agent = agent.New(agent.Options{
		Kernel: f.kernel, Own: fabricOwnership(), Want: f.want, Log: log, Settled: func() { f.settled.Store(true) }, Metrics: agent.NewMetrics(f.registry),
	})
	if f.facts, err = facts.NewWatcher(cfg, opts.liqoNamespace, opts.options(), opts.nodeName, nil, f.agent.Facts); err != nil {
		return nil, err
	}
	f.choice = gateway.NewChoice(network.DefaultTiming(0, 0), f.agent.Facts)
	if f.uninstalled, err = newUninstallation(cfg, opts.liqoNamespace, opts.daemonSet); err != nil {
		return nil, err
	}
	return f, nil
}

// fabricOwnership lists the kernel objects that the fabric agent manages on a node. These are the objects of dataplane.Ours except the tunnel link, which
// exists only in gateways.
func fabricOwnership() dataplane.Ownership {
	own := dataplane.Ours()
	own.Tunnel = ""
	return own
}

func (f *fabric) run(ctx context.Context) error {
	served := endpoints{health: f.opts.healthAddress, metrics: f.opts.metricsAddress, ready: f.ready, gatherer: f.registry}
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return f.facts.Run(ctx) },
		f.choice.Run,
		f.agent.Run,
		func(ctx context.Context) error { return f.kernel.Watch(ctx, fabricOwnership(), f.agent.Resync) },
		f.uninstalled.run,
		served.serve,
	} {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// want returns the network configuration that this node needs now.
func (f *fabric) want(ctx context.Context) ([]dataplane.State, error) {
	known, problems, err := f.facts.Read(ctx)
	if err != nil {
		return nil, err
	}
	host := network.Host{Name: f.opts.nodeName}
	if node, ok := known.Node(f.opts.nodeName); ok {
		if host.MTU, host.Addresses, err = agent.Underlay(node.IP, dataplane.OverlayLink); err != nil {
			return nil, err
		}
		if host.Dependencies, err = dependencies(); err != nil {
			return nil, err
		}
		problems = append(problems, network.Refusals(&known, host)...)
	}
	f.problems.Report(problems)
	active, err := f.choice.Of(known.Peers)
	if err != nil {
		return nil, err
	}
	return []dataplane.State{network.CompileNode(&known, host, active)}, nil
}

// resolvConf lists the DNS resolvers of the node, because the pod uses those (dnsPolicy Default).
const resolvConf = "/etc/resolv.conf"

// dependencies returns the prefixes that the node itself needs: link networks, next hops, destinations of routes and DNS resolvers.
// The order is stable.
func dependencies() ([]network.Dependency, error) {
	text, err := os.ReadFile(resolvConf)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the resolvers of this node: %w", err)
	}
	found, err := agent.Dependencies(string(text), dataplane.OverlayLink)
	if err != nil {
		return nil, err
	}
	var all []network.Dependency
	for _, d := range found {
		all = append(all, network.Dependency(d))
	}
	return all, nil
}

func (f *fabric) ready() error {
	if !f.settled.Load() {
		return errors.New("the agent has not applied the wanted network state on this node yet")
	}
	return nil
}

// cleanUp removes Liqo's network configuration from this node.
func cleanUp(ctx context.Context, log *slog.Logger) error {
	k, err := kernel.New()
	if err != nil {
		return fmt.Errorf("opening the kernel's network: %w", err)
	}
	a := agent.New(agent.Options{Kernel: k, Own: fabricOwnership(), Log: log,
		Want: func(context.Context) ([]dataplane.State, error) { return []dataplane.State{{}}, nil }})
	if err := a.Pass(ctx); err != nil {
		return fmt.Errorf("cleaning up this node: %w", err)
	}
	return nil
}
