package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	applier "liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/dataplane/kernel"
	"liqo.io/liqo/internal/gateway"
	"liqo.io/liqo/internal/gateway/agent"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/facts"
)

// agentGC is the percentage by which the heap of an agent may grow between two garbage collections.
const agentGC = 50

// Gateway runs the subcommand in the first argument until ctx ends. "tunnel" runs in the container that owns the link of the
// tunnel. "prepare" runs in the container that prepares the network namespace of the pod. "agent" runs in the container that
// takes the decisions.
func Gateway(ctx context.Context, args []string) error {
	log := NewLog(slog.LevelInfo)
	if len(args) == 0 {
		return errors.New("no command is given: want tunnel, prepare or agent")
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
		// There is an agent for each replica of each gateway, with little to do: memory matters more than CPU time.
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

func newGatewayAgent(cfg *rest.Config, opts *gatewayOptions, log *slog.Logger) (*gatewayAgent, error) {
	k, err := kernel.New()
	if err != nil {
		return nil, fmt.Errorf("opening the kernel's network: %w", err)
	}
	g := &gatewayAgent{opts: opts, registry: newRegistry(metrics.Gateway)}
	if g.watcher, err = facts.NewWatcher(cfg, opts.liqoNamespace, opts.options(), "", facts.Watching{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			opts.namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", opts.secretName)},
		}},
	}, func() { g.agent.News() }); err != nil {
		return nil, err
	}
	writer, err := client.New(cfg, client.Options{Scheme: facts.Scheme(), Mapper: facts.Mapper()})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	far := network.ServerAddress()
	if opts.role == network.Server {
		far = network.ClientAddress()
	}
	device := func() gateway.Device {
		said, err := gateway.ReadDevice()
		if err != nil {
			return gateway.Device{} // while WireGuard cannot be read
		}
		return said
	}
	measured := agent.NewMetrics(g.registry, opts.remoteClusterID, func() agent.Tunnel { return g.agent.Tunnel() })
	g.agent = agent.New(agent.Options{
		ClusterID: opts.clusterID, Peer: opts.remoteClusterID, Role: opts.role, Pod: opts.podName, Node: opts.nodeName, IP: opts.podIP,
		Timing: network.DefaultTiming(opts.pingInterval, opts.pingLossThreshold), PingInterval: opts.pingInterval, StatusInterval: opts.updateStatusInterval,
		Far: netip.AddrPortFrom(far.Addr(), network.PingPort), Local: network.PongPort, Link: dataplane.TunnelLink,
		Directory: gateway.Directory, ProbePort: network.ProbePort,
		Kernel: k, Facts: g.watcher.Read, PrivateKey: g.privateKey, Device: device, OnPong: measured.ObserveRTT, Log: log,
		Applier: applier.NewMetrics(g.registry),
		Underlay: func() (int, error) {
			mtu, _, err := applier.Underlay(opts.podIP, dataplane.OverlayLink, dataplane.TunnelLink)
			return mtu, err
		},
		Reporter: &agent.Connections{
			Client: writer, Cache: g.watcher.Reader(), Namespace: opts.namespace, Name: opts.name, Pod: opts.podName, Log: log,
		},
	})
	return g, nil
}

// gatewayAgent holds all components of the container that takes the decisions.
type gatewayAgent struct {
	opts     *gatewayOptions
	registry *prometheus.Registry
	watcher  *facts.Watcher
	agent    *agent.Agent
}

func (g *gatewayAgent) run(ctx context.Context) error {
	served := endpoints{health: g.opts.healthAddress, metrics: g.opts.metricsAddress, ready: g.agent.Ready, gatherer: g.registry}
	return g.agent.Run(ctx,
		func(ctx context.Context) error { return g.watcher.Run(ctx, &corev1.Secret{}) },
		served.serve,
	)
}

// privateKey reads the private key of this gateway from its Secret.
func (g *gatewayAgent) privateKey(ctx context.Context) (dataplane.PrivateKey, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: g.opts.namespace, Name: g.opts.secretName}
	if err := g.watcher.Reader().Get(ctx, key, &secret); err != nil {
		return dataplane.PrivateKey{}, fmt.Errorf("waiting for Secret %s: %w", key, err)
	}
	if err := network.CheckKeys(secret.Data); err != nil {
		return dataplane.PrivateKey{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return dataplane.PrivateKey(secret.Data[networkingv1beta1.SecretPrivateKey]), nil
}
