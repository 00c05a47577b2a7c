package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/offload/node"
	"liqo.io/liqo/internal/offload/provider"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/remote"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
	"liqo.io/liqo/internal/volumes"
)

// virtualKubelet holds the components of a virtual kubelet. They call each other, so each reads the others from here when it runs.
type virtualKubelet struct {
	opts *virtualKubeletOptions
	log  *slog.Logger

	// local and far are clients for this cluster and for the provider. identity is the kubeconfig with which credentials start.
	local, far   client.WithWatch
	identity     []byte
	credentials  *remote.Identity
	remoteConfig *rest.Config
	health       *remote.Health

	there    *provider.State
	recorder *reflection.Recorder
	virtual  *node.Node
	origin   *reflection.OriginServer
	stored   *volumes.Volumes
	engine   *reflection.Engine
}

// newVirtualKubelet returns all components, which do not run yet. Warnings are written until ctx ends.
func newVirtualKubelet(
	ctx context.Context, opts *virtualKubeletOptions, localConfig *rest.Config, registry prometheus.Registerer, log *slog.Logger,
) (*virtualKubelet, error) {
	v := &virtualKubelet{opts: opts, log: log}
	if err := v.connect(localConfig, registry); err != nil {
		return nil, err
	}
	v.there = provider.New(opts.provider(), func() { v.engine.Resync(reflection.Kinds()...) })
	v.recorder = reflection.NewRecorder(v.local, log, opts.nodeName, opts.foreignClusterID)
	var err error
	if v.virtual, err = node.New(v.nodeOptions()); err != nil {
		return nil, err
	}
	v.origin = reflection.NewOriginServer(opts.originServer(v.there.Translated, func() { v.engine.Resync(reflection.PodKind) }))
	v.stored = v.newVolumes()
	measured := reflection.NewMetrics(registry, opts.foreignClusterID, opts.nodeName, func(report func(string, string, int)) { v.engine.Reflected(report) })
	v.engine = reflection.New(reflection.Options{
		Local: v.local, Remote: v.far, Health: v.health, Log: log,
		Namespace: opts.tenantNamespace, Map: opts.foreignClusterID,
		Kinds: v.kinds(),
		Warn: func(obj client.Object, message string) {
			if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
				v.stored.Refuse(claim, message)
				return
			}
			v.recorder.Warn(ctx, obj, message)
		},
		Announce:  v.recorder.Announce,
		Reflected: measured.Did,
		Failed:    measured.Fail,
		Took:      measured.Took,
		Stale:     v.virtual.Lost,

		AccessChanged: v.virtual.Check,
	})
	return v, nil
}

// connect creates the clients for both clusters.
func (v *virtualKubelet) connect(localConfig *rest.Config, registry prometheus.Registerer) error {
	var err error
	if v.local, err = newClient(localConfig); err != nil {
		return fmt.Errorf("creating a client for this cluster: %w", err)
	}
	if v.identity, err = os.ReadFile(v.opts.remoteKubeconfig); err != nil {
		return fmt.Errorf("reading the identity: %w", err)
	}
	if v.credentials, err = remote.NewIdentity(v.identity); err != nil {
		return fmt.Errorf("reading the identity in %s: %w", v.opts.remoteKubeconfig, err)
	}
	if v.remoteConfig, err = v.credentials.Config(); err != nil {
		return err
	}
	remote.Observe(v.remoteConfig, remote.RequestMetrics(registry, v.opts.foreignClusterID))
	if v.far, err = newClient(v.remoteConfig); err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", v.opts.foreignClusterID, err)
	}
	v.health, err = remote.NewHealth(v.remoteConfig, v.opts.peerCheck)
	return err
}

func (v *virtualKubelet) nodeOptions() node.Options {
	return node.Options{
		Local: v.local, Health: v.health, Log: v.log, Create: v.opts.createNode,
		Name: v.opts.nodeName, Virtual: v.opts.virtualNode, Namespace: v.opts.tenantNamespace, ForeignCluster: v.opts.foreignClusterID,
		IP: v.opts.nodeIP, Listen: v.opts.listen, SkipNetworkCheck: v.opts.disableNetworkCheck,
		ExtraLabels: v.opts.nodeExtraLabels, ExtraAnnotations: v.opts.nodeExtraAnnotations,
		RefusedSince:        func() time.Time { return v.engine.RefusedSince() },
		Drained:             func() bool { return v.engine.Drained() },
		Readable:            func() bool { return v.engine.Readable() },
		AvailabilityChanged: func() { v.engine.Resync(reflection.PodKind) },
		Event: func(ctx context.Context, node *corev1.Node, kind, reason, message string) {
			v.recorder.Record(ctx, node, kind, reason, message)
		},
		LeaseRegained: func() { v.engine.Resync(reflection.Kinds()...) },
		Version:       func(ctx context.Context) (string, error) { return remote.Version(ctx, v.remoteConfig) },
	}
}

func (v *virtualKubelet) newVolumes() *volumes.Volumes {
	offered := func() []authv1beta1.StorageType {
		if virtual := v.virtual.VirtualNode(); virtual != nil {
			return virtual.Spec.StorageClasses
		}
		return nil
	}
	return volumes.New(volumes.Options{
		Origin: v.opts.clusterID, Cluster: v.opts.foreignClusterID, Tenant: v.opts.tenantNamespace, Node: v.opts.nodeName, Workers: v.opts.workers(volumes.ClaimKind),
		There: v.there, Offered: offered,
		Backing: func(namespace string) []client.Object {
			return v.engine.Remote(reflection.PersistentVolumeClaimKind, namespace)
		},
		Mapped: func(namespace string) bool {
			_, mapped := v.engine.RemoteNamespace(namespace)
			return mapped
		},
		Enqueue: func(key types.NamespacedName) { v.engine.Enqueue(reflection.PersistentVolumeClaimKind, key) },
		All:     func() { v.engine.Resync(reflection.PersistentVolumeClaimKind) },
		Refusals: storagecontrollers.RefusalOptions{
			Client: v.local, Log: v.log, Warn: v.recorder.Warn, Record: v.recorder.Record,
			Claim: func(key types.NamespacedName) *corev1.PersistentVolumeClaim {
				claim, _ := v.engine.LocalOf(reflection.PersistentVolumeClaimKind, key.Namespace, key.Name).(*corev1.PersistentVolumeClaim)
				return claim
			},
		},
	})
}

// kinds returns all reflected kinds.
func (v *virtualKubelet) kinds() []reflection.Kind {
	remoteNamespace := func(namespace string) (string, bool) { return v.engine.RemoteNamespace(namespace) }
	pods := reflection.Pods(v.opts.workers("pod"), v.podOptions)
	decide := pods.Next
	pods.Next = func(f reflection.Facts) offload.Step {
		v.stored.Observe(f.Key, f.Local)
		return decide(f)
	}
	events := reflection.Events(v.opts.workers("event"), func() kinds.CopyOptions {
		o := v.there.Copies("event")()
		o.Now = time.Now()
		return o
	})
	v.stored.WatchDrivers(&events, func(namespace, name string) *corev1.Pod {
		pod, _ := v.engine.LocalOf(reflection.PodKind, namespace, name).(*corev1.Pod)
		return pod
	})
	return []reflection.Kind{
		pods,
		reflection.Services(v.opts.workers("service"), func() kinds.ServiceOptions {
			o := v.there.Services()
			o.RemoteNamespace = remoteNamespace
			return o
		}),
		reflection.EndpointSlices(v.opts.workers("endpointslice"), v.there.EndpointSlices),
		reflection.Ingresses(v.opts.workers("ingress"), v.there.Ingresses),
		reflection.ConfigMaps(v.opts.workers("configmap"), v.there.Copies("configmap")),
		reflection.Secrets(v.opts.workers("secret"), v.there.Copies("secret")),
		events,
		reflection.NetworkPolicies(v.opts.workers("networkpolicy"), func() kinds.NetworkPolicyOptions { return v.there.Policies(remoteNamespace) }),
		reflection.PodDisruptionBudgets(v.opts.workers("poddisruptionbudget"), v.there.Budgets),
		v.stored.Kind(),
	}
}

func (v *virtualKubelet) podOptions() podrules.Options {
	o := v.opts.pods(v.virtual, v.there, v.origin)
	o.Secret = func(namespace, name string) *corev1.Secret {
		secret, _ := v.engine.LocalOf(reflection.SecretKind, namespace, name).(*corev1.Secret)
		return secret
	}
	o.ConfigMap = func(namespace, name string) *corev1.ConfigMap {
		configMap, _ := v.engine.LocalOf(reflection.ConfigMapKind, namespace, name).(*corev1.ConfigMap)
		return configMap
	}
	o.RemoteNamespace = func(namespace string) (string, bool) { return v.engine.RemoteNamespace(namespace) }
	return o
}

// reflect runs the engine until ctx ends.
func (v *virtualKubelet) reflect(ctx context.Context) error {
	// Both the offloading patch and the address translation affect every pod, so wait until both are known.
	for _, loaded := range []<-chan struct{}{v.virtual.Loaded(), v.there.Loaded()} {
		select {
		case <-ctx.Done():
			return nil
		case <-loaded:
		}
	}
	return v.engine.Run(ctx)
}

func (v *virtualKubelet) nodeMetrics() *node.Metrics {
	return &node.Metrics{
		Cluster: v.opts.foreignClusterID, Name: v.opts.nodeName, Now: time.Now,
		State: v.health.State, Pods: func() []client.Object { return v.engine.Local(reflection.PodKind) },
	}
}

// provider returns the options for the state of the provider.
func (o *virtualKubeletOptions) provider() provider.Options {
	all := map[string]offloadingv1beta1.ReflectionType{}
	for kind, reflected := range o.reflection {
		all[kind] = reflected.reflectionType
	}
	return provider.Options{
		ClusterID: o.clusterID, ForeignClusterID: o.foreignClusterID, TenantNamespace: o.tenantNamespace, VirtualNode: o.virtualNode, NodeName: o.nodeName,
		ReflectIPs: o.reflectIPs, TranslateIPs: o.translateIPs, Types: all, ServicesReflected: o.workers("service") > 0,
		LabelsNotReflected: o.labelsNotReflected, AnnotationsNotReflected: o.annotationsNotReflected,
		LabelsReflected: o.labelsReflected, AnnotationsReflected: o.annotationsReflected,
		Translation: func(configurations []networkingv1beta1.Configuration, clusterID string) (provider.Translation, bool) {
			t, _, known := network.GatherTranslation(&network.Objects{Configurations: configurations}, clusterID)
			return provider.Translation{Pods: t.Pods, External: t.External, ToView: t.ToView}, known
		},
	}
}

// originServer returns, according to the flags, how offloaded pods reach the API server of this cluster.
func (o *virtualKubeletOptions) originServer(network func() bool, changed func()) reflection.OriginServerOptions {
	return reflection.OriginServerOptions{
		On: o.apiServerSupport && o.workers("serviceaccount") > 0, Host: o.homeAPIServerHost, Port: o.homeAPIServerPort, Network: network, Changed: changed,
	}
}

// pods returns the properties of the virtual node and the provider that affect pods.
func (o *virtualKubeletOptions) pods(virtual *node.Node, there *provider.State, origin *reflection.OriginServer) podrules.Options {
	out := podrules.Options{
		Origin: o.clusterID, Destination: o.foreignClusterID, Node: o.nodeName, HostIP: o.nodeIP, RuntimeClass: o.runtimeClass,
		VirtualStorageClass: o.virtualStorageClass,
		LabelsNotReflected:  o.labelsNotReflected, AnnotationsNotReflected: o.annotationsNotReflected, AnnotationsReflected: o.annotationsReflected,
		TranslateIP: there.PodIP, Unavailable: virtual.Unavailable(), ConfigMapsReflected: o.workers("configmap") > 0,
		SecretType: o.reflection["secret"].reflectionType, ConfigMapType: o.reflection["configmap"].reflectionType,
	}
	out.APIServer = origin.APIServer()
	out.APIServer.Domain = o.clusterDomain
	if v := virtual.VirtualNode(); v != nil {
		out.Patch = v.Spec.OffloadingPatch
	}
	return out
}
