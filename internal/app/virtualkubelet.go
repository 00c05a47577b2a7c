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
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
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
			return whenElected(ctx, localConfig, o.tenantNamespace, o.nodeName, identity, state.standBy, work)
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
	local, err := newClient(localConfig)
	if err != nil {
		return fmt.Errorf("creating a client for this cluster: %w", err)
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
		return fmt.Errorf("creating a client for cluster %s: %w", opts.foreignClusterID, err)
	}
	health, err := remote.NewHealth(remoteConfig, remote.HealthOptions{})
	if err != nil {
		return err
	}

	var engine *reflection.Engine
	there := newProvider(opts, func() { engine.Resync(reflection.Kinds()...) })
	recorder := reflection.NewRecorder(local, log, opts.nodeName, opts.foreignClusterID)
	virtual, err := node.New(node.Options{
		Local: local, Health: health, Log: log, Create: opts.createNode,
		Name: opts.nodeName, Virtual: opts.virtualNode, Namespace: opts.tenantNamespace, ForeignCluster: opts.foreignClusterID,
		IP: opts.nodeIP, Listen: opts.listen, SkipNetworkCheck: opts.disableNetworkCheck,
		ExtraLabels: opts.nodeExtraLabels, ExtraAnnotations: opts.nodeExtraAnnotations,
		RefusedSince:        func() time.Time { return engine.RefusedSince() },
		AvailabilityChanged: func() { engine.Resync(reflection.PodKind) },
		Event: func(ctx context.Context, node *corev1.Node, kind, reason, message string) {
			recorder.Record(ctx, node, kind, reason, message)
		},
		LeaseRegained: func() { engine.Resync(reflection.Kinds()...) },
		Version:       func(ctx context.Context) (string, error) { return remote.Version(ctx, remoteConfig) },
	})
	if err != nil {
		return err
	}
	origin := reflection.NewOriginServer(opts.originServer(func() bool { return there.state.Load().configured }, func() { engine.Resync(reflection.PodKind) }))
	measured := newReflectionMetrics(registry, opts.foreignClusterID, opts.nodeName, func(report func(string, string, int)) { engine.Reflected(report) })
	stored := newVolumes(opts, there, func() []authv1beta1.StorageType {
		if v := virtual.VirtualNode(); v != nil {
			return v.Spec.StorageClasses
		}
		return nil
	}, func(key types.NamespacedName) { engine.Enqueue(reflection.PersistentVolumeClaimKind, key) }, func() { engine.Resync(reflection.PersistentVolumeClaimKind) },
		storagecontrollers.RefusalOptions{
			Client: local, Log: log, Warn: recorder.Warn,
			Claim: func(key types.NamespacedName) *corev1.PersistentVolumeClaim {
				claim, _ := engine.LocalOf(reflection.PersistentVolumeClaimKind, key.Namespace, key.Name).(*corev1.PersistentVolumeClaim)
				return claim
			},
		})
	pods := reflection.Pods(opts.workers("pod"), func() kinds.PodOptions {
		o := opts.pods(virtual, there, origin)
		o.Secret = func(namespace, name string) *corev1.Secret {
			secret, _ := engine.LocalOf(reflection.SecretKind, namespace, name).(*corev1.Secret)
			return secret
		}
		o.ConfigMap = func(namespace, name string) *corev1.ConfigMap {
			configMap, _ := engine.LocalOf(reflection.ConfigMapKind, namespace, name).(*corev1.ConfigMap)
			return configMap
		}
		o.RemoteNamespace = func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) }
		return o
	})
	decide := pods.Next
	pods.Next = func(f reflection.Facts) offload.Step {
		stored.observe(f.Key, f.Local)
		return decide(f)
	}
	events := reflection.Events(opts.workers("event"), func() kinds.CopyOptions {
		o := there.copies("event")()
		o.Now = time.Now()
		return o
	})
	stored.watchDrivers(&events, func(namespace, name string) *corev1.Pod {
		pod, _ := engine.LocalOf(reflection.PodKind, namespace, name).(*corev1.Pod)
		return pod
	})
	engine = reflection.New(reflection.Options{
		Local: local, Remote: far, Health: health, Log: log,
		Namespace: opts.tenantNamespace, Map: opts.foreignClusterID,
		Kinds: []reflection.Kind{
			pods,
			reflection.Services(opts.workers("service"), func() kinds.ServiceOptions {
				o := there.services()
				o.RemoteNamespace = func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) }
				return o
			}),
			reflection.EndpointSlices(opts.workers("endpointslice"), there.endpointSlices),
			reflection.Ingresses(opts.workers("ingress"), there.ingresses),
			reflection.ConfigMaps(opts.workers("configmap"), there.copies("configmap")),
			reflection.Secrets(opts.workers("secret"), there.copies("secret")),
			events,
			reflection.NetworkPolicies(opts.workers("networkpolicy"), func() kinds.NetworkPolicyOptions {
				return there.policies(func(namespace string) (string, bool) { return engine.RemoteNamespace(namespace) })
			}),
			reflection.PodDisruptionBudgets(opts.workers("poddisruptionbudget"), there.budgets),
			stored.kind(),
		},
		Warn: func(obj client.Object, message string) {
			if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
				stored.refusals.Refuse(claim, message)
				return
			}
			recorder.Warn(ctx, obj, message)
		},
		Announce:  recorder.Announce,
		Reflected: measured.did,
		Failed:    measured.fail,
		Took:      measured.took,
		Stale:     virtual.Lost,

		AccessChanged: virtual.Check,
	})

	measuredNode := nodeMetrics{
		cluster: opts.foreignClusterID, name: opts.nodeName, now: time.Now,
		state: health.State, pods: func() []client.Object { return engine.Local(reflection.PodKind) },
	}

	checks := []func() error{virtual.Ready, engine.Ready}
	// Run all components.
	group, ctx := errgroup.WithContext(ctx)
	run := func(f func(context.Context) error) { group.Go(func() error { return f(ctx) }) }
	run(health.Run)
	run(recorder.Run)
	run(virtual.Run)
	run(func(ctx context.Context) error { return there.run(ctx, local) })
	run(func(ctx context.Context) error { return origin.Run(ctx, local) })
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
		server, err := node.NewServer(credentials, engine, opts.nodeName, reflection.PodKind, opts.usageAge, log)
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

// originServer returns, according to the flags, how offloaded pods reach the API server of this cluster.
func (o *virtualKubeletOptions) originServer(network func() bool, changed func()) reflection.OriginServerOptions {
	return reflection.OriginServerOptions{
		On: o.apiServerSupport && o.workers("serviceaccount") > 0, Host: o.homeAPIServerHost, Port: o.homeAPIServerPort, Network: network, Changed: changed,
	}
}

// pods returns the properties of the virtual node and the provider that affect pods.
func (o *virtualKubeletOptions) pods(virtual *node.Node, there *provider, origin *reflection.OriginServer) kinds.PodOptions {
	out := kinds.PodOptions{
		Origin: o.clusterID, Destination: o.foreignClusterID, Node: o.nodeName, HostIP: o.nodeIP, RuntimeClass: o.runtimeClass,
		VirtualStorageClass: o.virtualStorageClass,
		LabelsNotReflected:  o.labelsNotReflected, AnnotationsNotReflected: o.annotationsNotReflected, AnnotationsReflected: o.annotationsReflected,
		TranslateIP: there.podIP, Unavailable: virtual.Unavailable(), ConfigMapsReflected: o.workers("configmap") > 0,
		SecretType: o.reflection["secret"].reflectionType, ConfigMapType: o.reflection["configmap"].reflectionType,
	}
	out.APIServer = origin.APIServer()
	out.APIServer.Domain = o.clusterDomain
	if v := virtual.VirtualNode(); v != nil {
		out.Patch = v.Spec.OffloadingPatch
	}
	return out
}

// followIdentity watches the file with the kubeconfig, and puts renewed credentials into use. It returns errNewIdentity if the address of the
// provider has changed.
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
