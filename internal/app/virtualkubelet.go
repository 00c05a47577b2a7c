package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/volumes"
)

// identityCheck is the interval at which the identity file is compared with the identity in use. Identities are renewed long
// before they expire.
const identityCheck = time.Second

// VirtualKubelet runs the virtual kubelet of one VirtualNode until ctx ends. It has no state of its own: after a restart at any
// moment it continues where it was, and its Node and pods stay meanwhile.
func VirtualKubelet(ctx context.Context, args []string) error {
	opts, err := parseVirtualKubelet(args)
	if err != nil {
		return err
	}
	return opts.run(ctx)
}

// run runs the virtual kubelet until ctx ends.
func (o *virtualKubeletOptions) run(ctx context.Context) error {
	log := NewLog(slog.LevelInfo)
	collectOften()

	localConfig, err := ownConfig()
	if err != nil {
		return fmt.Errorf("reaching this cluster: %w", err)
	}
	registry := newRegistry(metrics.VirtualKubelet)
	state := &readiness{}
	run := func(ctx context.Context) error {
		return runVirtualKubelet(ctx, o, localConfig, registry, state, log)
	}
	if o.leaderElection {
		identity, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding a name for the election: %w", err)
		}
		work := run
		run = func(ctx context.Context) error {
			return node.WhenElected(ctx, localConfig, o.tenantNamespace, o.nodeName, identity, state.standBy, work)
		}
	}
	// A replica on standby serves metrics too, so that monitoring does not take it for broken.
	served := endpoints{health: o.healthAddress, metrics: o.metricsAddress, ready: state.ready, gatherer: registry}
	return served.during(ctx, run)
}

// runVirtualKubelet assembles all components, and runs them until ctx ends.
func runVirtualKubelet(
	ctx context.Context, opts *virtualKubeletOptions, localConfig *rest.Config, registry prometheus.Registerer, state *readiness, log *slog.Logger,
) error {
	state.activate()
	v, err := newVirtualKubelet(ctx, opts, localConfig, registry, log)
	if err != nil {
		return err
	}
	checks := []func() error{v.virtual.Ready, v.engine.Ready}
	// Run all components.
	group, ctx := errgroup.WithContext(ctx)
	run := func(f func(context.Context) error) { group.Go(func() error { return f(ctx) }) }
	run(v.health.Run)
	run(v.recorder.Run)
	run(v.virtual.Run)
	run(func(ctx context.Context) error { return v.there.Run(ctx, v.local) })
	run(func(ctx context.Context) error { return v.origin.Run(ctx, v.local) })
	if opts.workers(volumes.ClaimKind) > 0 {
		run(func(ctx context.Context) error { return v.stored.Run(ctx, v.local) })
	}
	run(v.reflect)
	run(func(ctx context.Context) error {
		return remote.Follow(ctx, opts.remoteKubeconfig, v.identity, v.credentials, log, identityCheck)
	})
	measured := v.nodeMetrics()
	if opts.createNode {
		certificate, err := node.NewCertificate(v.virtual)
		if err != nil {
			return err
		}
		server, err := node.NewServer(v.credentials, v.engine, opts.nodeName, reflection.PodKind, opts.usageAge, log)
		if err != nil {
			return err
		}
		measured.Certificate = certificate.Leaf
		checks = append(checks, server.Ready)
		authorizer := node.NewAuthorizer(v.local, opts.nodeName, clock.RealClock{})
		run(v.virtual.RunLease)
		run(certificate.Run)
		run(func(ctx context.Context) error { return server.Serve(ctx, opts.listen, authorizer, certificate) })
	}
	state.activate(checks...)
	registry.MustRegister(metrics.Computed(measured.Measure))
	log.Info("Started the virtual kubelet", "node", opts.nodeName, "clusterID", opts.foreignClusterID, "server", v.remoteConfig.Host)
	err = group.Wait()
	if errors.Is(err, remote.ErrNewAddress) {
		log.Info("The address of the provider changed: restarting the virtual kubelet")
		return nil
	}
	return err
}

// ownConfig returns a configuration for the cluster of this process, or for the cluster in the file that KUBECONFIG names.
func ownConfig() (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", path)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, err
	}
	remote.Tune(cfg)
	return cfg, nil
}
