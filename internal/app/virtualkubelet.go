package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/reflect"
	"liqo.io/liqo/internal/remote"
)

// identityCheck is the interval at which the identity file is compared with the identity in use. Identities are renewed long
// before they expire.
const identityCheck = time.Second

// errNewIdentity ends a virtual kubelet whose provider has a new address. The restarted one uses that address.
var errNewIdentity = errors.New("the provider has another address")

// VirtualKubelet runs the virtual kubelet of one VirtualNode until ctx ends. It has no state of its own: after a restart at any
// moment it continues where it was, and its Node and pods stay meanwhile.
func VirtualKubelet(ctx context.Context, args []string) error {
	opts, err := parseVirtualKubelet(args)
	if err != nil {
		return err
	}
	log := NewLog(slog.LevelInfo)
	collectOften()

	localConfig, err := ownConfig()
	if err != nil {
		return fmt.Errorf("reaching this cluster: %w", err)
	}
	registry := newRegistry(metrics.VirtualKubelet)
	state := &readiness{}
	run := func(ctx context.Context) error {
		return runVirtualKubelet(ctx, opts, localConfig, registry, state, log)
	}
	if opts.leaderElection {
		identity, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding a name for the election: %w", err)
		}
		work := run
		run = func(ctx context.Context) error {
			return whenElected(ctx, localConfig, opts.tenantNamespace, opts.nodeName, identity, state.standBy, work)
		}
	}
	// A replica on standby serves metrics too, so that monitoring does not take it for broken.
	served := endpoints{health: opts.healthAddress, metrics: opts.metricsAddress, ready: state.ready, gatherer: registry}
	return served.during(ctx, run)
}

// runVirtualKubelet assembles all components, and runs them until ctx ends.
func runVirtualKubelet(
	ctx context.Context, opts *virtualKubeletOptions, localConfig *rest.Config, registry prometheus.Registerer, state *readiness, log *slog.Logger,
) error {
	state.activate()
	local, err := newClient(localConfig)
	if err != nil {
		return fmt.Errorf("making a client for this cluster: %w", err)
	}
	identity, err := os.ReadFile(opts.remoteKubeconfig)
	if err != nil {
		return fmt.Errorf("reading the identity: %w", err)
	}
	credentials, err := remote.NewIdentity(identity)
	if err != nil {
		return fmt.Errorf("reading the identity in %s: %w", opts.remoteKubeconfig, err)
	}
	remoteConfig, err := credentials.Config()
	if err != nil {
		return err
	}
	remote.Observe(remoteConfig, requestObserver(registry, opts.foreignClusterID))
	far, err := newClient(remoteConfig)
	if err != nil {
		return fmt.Errorf("making a client for cluster %s: %w", opts.foreignClusterID, err)
	}
	health, err := remote.NewHealth(remoteConfig, remote.HealthOptions{})
	if err != nil {
		return err
	}

	var engine *reflect.Engine
	there := newProvider(opts, func() { engine.Resync(reflect.Kinds()...) })
	virtual, err := node.New(node.Options{
		Local: local, Health: health, Log: log, Create: opts.createNode,
		Name: opts.nodeName, Virtual: opts.virtualNode, Namespace: opts.tenantNamespace, ForeignCluster: opts.foreignClusterID,
		IP: opts.nodeIP, Listen: opts.listen, SkipNetworkCheck: opts.disableNetworkCheck,
		ExtraLabels: opts.nodeExtraLabels, ExtraAnnotations: opts.nodeExtraAnnotations,
		RefusedSince:        func() time.Time { return engine.RefusedSince() },
		AvailabilityChanged: func() { engine.Resync(reflect.PodKind) },
		LeaseRegained:       func() { engine.Resync(reflect.Kinds()...) },
		Version:             func(ctx context.Context) (string, error) { return remote.Version(ctx, remoteConfig) },
	})
	if err != nil {
		return err
	}
	origin := newOriginServer(opts, func() bool { return there.state.Load().configured }, func() { engine.Resync(reflect.PodKind) })
	measured := newReflectionMetrics(registry, opts.foreignClusterID, opts.nodeName, func(tell func(string, string, int)) { engine.Reflected(tell) })
	told := newEvents(local, log, opts.nodeName, opts.foreignClusterID)
	stored := newVolumes(opts, there, func() []authv1beta1.StorageType {
		if v := virtual.VirtualNode(); v != nil {
			return v.Spec.StorageClasses
		}
		return nil
	}, func(key types.NamespacedName) { engine.Enqueue(reflect.PersistentVolumeClaimKind, key) }, func() { engine.Resync(reflect.PersistentVolumeClaimKind) })
	pods := reflect.Pods(opts.workers("pod"), func() kinds.PodOptions {
		o := opts.pods(virtual, there, origin)
		o.Secret = func(namespace, name string) *corev1.Secret {
			secret, _ := engine.LocalOf(reflect.SecretKind, namespace, name).(*corev1.Secret)
			return secret
		}
		o.ConfigMap = func(namespace, name string) *corev1.ConfigMap {
			configMap, _ := engine.LocalOf(reflect.ConfigMapKind, namespace, name).(*corev1.ConfigMap)
			return configMap
		}
		o.RemoteNamespace = func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) }
		return o
	})
	decide := pods.Next
	pods.Next = func(f reflect.Facts) offload.Step {
		stored.observe(f.Local)
		return decide(f)
	}
	engine = reflect.New(reflect.Options{
		Local: local, Remote: far, Health: health, Log: log,
		Namespace: opts.tenantNamespace, Map: opts.foreignClusterID,
		Kinds: []reflect.Kind{
			pods,
			reflect.Services(opts.workers("service"), func() kinds.ServiceOptions {
				o := there.services()
				o.RemoteNamespace = func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) }
				return o
			}),
			reflect.EndpointSlices(opts.workers("endpointslice"), there.endpointSlices),
			reflect.Ingresses(opts.workers("ingress"), there.ingresses),
			reflect.ConfigMaps(opts.workers("configmap"), there.copies("configmap")),
			reflect.Secrets(opts.workers("secret"), there.copies("secret")),
			reflect.Events(opts.workers("event"), func() kinds.CopyOptions {
				o := there.copies("event")()
				o.Now = time.Now()
				return o
			}),
			reflect.NetworkPolicies(opts.workers("networkpolicy"), func() kinds.NetworkPolicyOptions {
				return there.policies(func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) })
			}),
			reflect.PodDisruptionBudgets(opts.workers("poddisruptionbudget"), there.budgets),
			stored.kind(),
		},
		Warn: func(obj client.Object, message string) {
			told.warn(ctx, obj, message)
			stored.warnPods(ctx, local, told, obj, message)
		},
		Announce:  told.announce,
		Reflected: measured.did,
		Failed:    measured.fail,
		Took:      measured.took,
		Stale:     virtual.Lost,

		AccessChanged: virtual.Check,
	})

	measuredNode := nodeMetrics{
		cluster: opts.foreignClusterID, name: opts.nodeName, now: time.Now,
		state: health.State, pods: func() []client.Object { return engine.Local(reflect.PodKind) },
	}

	checks := []func() error{virtual.Ready, engine.Ready}
	// Run all components.
	group, ctx := errgroup.WithContext(ctx)
	run := func(f func(context.Context) error) { group.Go(func() error { return f(ctx) }) }
	run(health.Run)
	run(told.run)
	run(virtual.Run)
	run(func(ctx context.Context) error { return there.run(ctx, local) })
	run(func(ctx context.Context) error { return origin.run(ctx, local) })
	if opts.workers(claimOption) > 0 {
		run(func(ctx context.Context) error { return stored.run(ctx, local) })
	}
	run(func(ctx context.Context) error {
		// Both the offloading patch and the address translation affect every pod, so wait until both are known.
		for _, loaded := range []<-chan struct{}{virtual.Loaded(), there.loaded} {
			select {
			case <-ctx.Done():
				return nil
			case <-loaded:
			}
		}
		return engine.Run(ctx)
	})
	run(func(ctx context.Context) error {
		return followIdentity(ctx, opts.remoteKubeconfig, identity, credentials, log, identityCheck)
	})
	if opts.createNode {
		certificate, err := node.NewCertificate(virtual)
		if err != nil {
			return err
		}
		server, err := node.NewServer(credentials, engine, opts.nodeName, reflect.PodKind, log)
		if err != nil {
			return err
		}
		measuredNode.certificate = certificate.Leaf
		checks = append(checks, server.Ready)
		authorizer := node.NewAuthorizer(local, opts.nodeName, clock.RealClock{})
		run(virtual.RunLease)
		run(certificate.Run)
		run(func(ctx context.Context) error { return server.Serve(ctx, opts.listen, authorizer, certificate) })
	}
	state.activate(checks...)
	registry.MustRegister(metrics.Computed(measuredNode.measure))
	log.Info("Started the virtual kubelet", "node", opts.nodeName, "clusterID", opts.foreignClusterID, "server", remoteConfig.Host)
	err = group.Wait()
	if errors.Is(err, errNewIdentity) {
		log.Info("The address of the provider changed: restarting the virtual kubelet")
		return nil
	}
	return err
}

// pods returns the properties of the virtual node and the provider that affect pods.
func (o *virtualKubeletOptions) pods(virtual *node.Node, there *provider, origin *originServer) kinds.PodOptions {
	out := kinds.PodOptions{
		Origin: o.clusterID, Destination: o.foreignClusterID, Node: o.nodeName, HostIP: o.nodeIP, RuntimeClass: o.runtimeClass,
		VirtualStorageClass: o.virtualStorageClass,
		LabelsNotReflected:  o.labelsNotReflected, AnnotationsNotReflected: o.annotationsNotReflected, AnnotationsReflected: o.annotationsReflected,
		TranslateIP: there.podIP, Unavailable: virtual.Unavailable(), ConfigMapsReflected: o.workers("configmap") > 0,
		SecretType: o.reflection["secret"].only, ConfigMapType: o.reflection["configmap"].only,
	}
	out.APIServer = origin.apiServer()
	out.APIServer.Domain = o.clusterDomain
	if v := virtual.VirtualNode(); v != nil {
		out.Patch = v.Spec.OffloadingPatch
	}
	return out
}

// followIdentity starts to use renewed credentials as soon as they are in the file. It returns errNewIdentity if the address of
// the provider has changed.
func followIdentity(ctx context.Context, path string, used []byte, credentials *remote.Identity, log *slog.Logger, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// While the file is unreadable or empty, the current credentials stay in use; the next read may succeed.
			now, err := os.ReadFile(path)
			if err != nil || len(now) == 0 || bytes.Equal(now, used) {
				continue
			}
			used = now
			replaced, err := credentials.Replace(now)
			switch {
			case err != nil: // the current credentials stay in use until the file changes again
				log.Error("Failed to read the renewed identity: the previous identity stays in use", "error", err)
			case !replaced:
				return errNewIdentity
			default:
				log.Info("Started to use the renewed identity")
			}
		}
	}
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
