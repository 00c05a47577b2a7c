package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamcontrollers "liqo.io/liqo/internal/ipam/controllers"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/metrics"
	networkcontrollers "liqo.io/liqo/internal/network/controllers"
	offloadwebhook "liqo.io/liqo/internal/offload/webhook"
	"liqo.io/liqo/internal/peering/accounts"
	peeringcontrollers "liqo.io/liqo/internal/peering/controllers"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
)

const (
	// leaderLease is the name of the Lease for the leader election of the controller manager.
	leaderLease = "66cf253f.ctrlmgr.liqo.io"
	// endTimeout is how long the components of the program may take to shut down.
	endTimeout = 5 * time.Second
	// silentIntervals is the number of update intervals without an update after which the tunnel of a gateway counts as lost.
	// Gateways repeat an unchanged status after six intervals.
	silentIntervals = 9
	// syncTimeout is how long a readiness check waits for the caches to sync.
	syncTimeout = 500 * time.Millisecond
)

// ControllerManager runs the controller manager until ctx ends.
func ControllerManager(ctx context.Context, cfg *rest.Config, opts *ControllerManagerOptions) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	collectOften()
	cfg = rest.CopyConfig(cfg)
	// The API server limits the request rate itself (API Priority and Fairness). A client-side limit would only delay requests that the server
	// would accept.
	cfg.QPS = -1
	remote.RelistAfterOutages(cfg)
	end := endTimeout
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                  kube.NewScheme(),
		Cache:                   controllerManagerCache(),
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // see metricsServer
		HealthProbeBindAddress:  opts.HealthAddress,
		GracefulShutdownTimeout: &end,
		// A single replica must not wait for a lease that its predecessor still holds.
		LeaderElection:                opts.Replicas > 1,
		LeaderElectionID:              leaderLease,
		LeaderElectionNamespace:       opts.LiqoNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	components, registry := *opts, prometheus.NewRegistry()
	components.Metrics = registry
	if err := setupControllerManager(mgr, &components); err != nil {
		return err
	}
	registry.MustRegister(metrics.Build(metrics.ControllerManager))
	served := metricsServer{endpoints{metrics: opts.MetricsAddress, gatherer: prometheus.Gatherers{ctrlmetrics.Registry, registry}}}
	if err := mgr.Add(&served); err != nil {
		return fmt.Errorf("adding the metrics: %w", err)
	}
	if err := mgr.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running the controller manager: %w", err)
	}
	return nil
}

// metricsServer serves the metrics of controller-runtime and those of the components, in every replica.
type metricsServer struct{ endpoints }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*metricsServer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *metricsServer) Start(ctx context.Context) error { return s.serve(ctx) }

// setupControllerManager sets up all enabled components.
func setupControllerManager(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	for _, part := range []struct {
		name    string
		enabled bool
		setup   func(ctrl.Manager, *ControllerManagerOptions) error
	}{
		{"health checks", true, setupHealth},
		{"peering", opts.EnableAuthentication, setupPeering},
		{"authentication service", opts.EnableAuthentication && opts.AuthAddress != "", setupEnrollment},
		{"address management", opts.EnableNetworking, setupIPAM},
		{"network", opts.EnableNetworking, setupNetwork},
		{"offloading", opts.EnableOffloading, setupOffloading},
		{"webhooks", opts.EnableOffloading, setupWebhooks},
		{"storage", opts.EnableStorage, setupStorage},
	} {
		if !part.enabled {
			continue
		}
		if err := part.setup(mgr, opts); err != nil {
			return fmt.Errorf("setting up %s: %w", part.name, err)
		}
	}
	return nil
}

func setupHealth(mgr ctrl.Manager, _ *ControllerManagerOptions) error {
	return errors.Join(
		mgr.AddHealthzCheck("alive", healthz.Ping),
		mgr.AddReadyzCheck("caches", func(req *http.Request) error {
			ctx, cancel := context.WithTimeout(req.Context(), syncTimeout)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the caches are not synced")
			}
			return nil
		}),
	)
}

func setupPeering(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	pods, err := virtualKubeletPods(mgr)
	if err != nil {
		return err
	}
	var storageClasses func(context.Context) ([]authv1beta1.StorageType, error)
	if opts.EnableStorage {
		storageClasses = func(ctx context.Context) ([]authv1beta1.StorageType, error) {
			return storagecontrollers.Offered(ctx, mgr.GetClient(), opts.RealStorageClass, opts.AcceptedStorageClasses)
		}
	}
	return peeringcontrollers.Setup(mgr, peeringcontrollers.Options{
		ClusterID: opts.ClusterID,
		Namespace: opts.LiqoNamespace,
		Algorithm: opts.algorithm(),
		APIServer: peeringcontrollers.APIServer{Address: opts.APIServerAddress, CA: opts.APIServerCA, TrustedCA: opts.TrustedCA},
		Tokens:    accounts.Tokens{Enabled: opts.Identity == IdentityToken, Life: opts.TokenLifetime},
		Offer: sharing.Offer{
			Enabled: opts.DefaultClassEnabled, NodeLabels: opts.ClusterLabels,
			IngressClasses: opts.IngressClasses, LoadBalancerClasses: opts.LoadBalancerClasses,
		},
		StorageClasses:     storageClasses,
		Sharing:            opts.Sharing,
		Enforcement:        opts.DefaultLimitsEnforcement,
		Labels:             opts.GlobalLabels,
		Annotations:        opts.GlobalAnnotations,
		VirtualKubeletPods: pods,
		Health:             opts.PeerCheck,
		ConnectionSilence:  silentIntervals * opts.ConnectionUpdateInterval,
		Networking:         opts.EnableNetworking,
		Joins:              opts.joins,
		Metrics:            opts.Metrics,
	})
}

func setupEnrollment(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	return mgr.Add(enrollment.New(enrollment.Options{
		ClusterID: opts.ClusterID, Namespace: opts.LiqoNamespace, Address: opts.AuthAddress, Plain: opts.AuthPlain,
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Log: mgr.GetLogger().WithName("enrollment"),
	}))
}

func setupIPAM(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	return ipamcontrollers.Setup(mgr, ipamcontrollers.Options{
		LiqoNamespace: opts.LiqoNamespace, Pools: opts.IPAMPools, APIServer: opts.APIServerAddress, Labels: opts.GlobalLabels, Annotations: opts.GlobalAnnotations,
	})
}

func setupNetwork(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	return networkcontrollers.Setup(mgr, networkcontrollers.Options{
		ClusterID: opts.ClusterID, LiqoNamespace: opts.LiqoNamespace, WatchTemplates: opts.WatchGatewayTemplates,
		MTU: opts.TunnelMTU, Exposure: opts.Exposure,
		Labels: opts.GlobalLabels, Annotations: opts.GlobalAnnotations, Metrics: opts.Metrics,
	})
}

func setupStorage(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	return storagecontrollers.Setup(mgr, storagecontrollers.Options{
		ClusterID: opts.ClusterID, Namespace: opts.StorageNamespace, RealClass: opts.RealStorageClass,
		GlobalLabels: opts.GlobalLabels, GlobalAnnotations: opts.GlobalAnnotations,
	})
}

func setupWebhooks(mgr ctrl.Manager, opts *ControllerManagerOptions) error {
	return offloadwebhook.Setup(mgr, offloadwebhook.Options{
		Namespace: opts.LiqoNamespace, Service: opts.WebhookService, Port: opts.WebhookPort, EnforceQuotas: opts.EnforceResources,
		RuntimeClass: opts.RuntimeClass, ClaimTotal: opts.NamespaceTotal,
		GlobalLabels: opts.GlobalLabels, GlobalAnnotations: opts.GlobalAnnotations, Metrics: opts.Metrics,
	})
}
