// Package facts provides the agents of the network with the input for the plans of their hosts. It watches objects of the API server,
// and returns no facts until they are complete.
package facts

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// Watcher watches the objects that the plan of a host depends on. It watches as few objects as possible, and caches only the fields that
// the plan needs.
type Watcher struct {
	cache     cache.Cache
	otherPods cache.Cache     // caches the pods that field cache lacks; nil: none
	objects   network.Objects // namespace and options; each read fills in the lists
	changed   func()

	pending atomic.Bool // a call of changed is scheduled after changes of pods
	mu      sync.Mutex
	synced  bool
}

// podPause is the time during which changes of pods are merged into one call.
const podPause = 500 * time.Millisecond

// Watching describes additional objects to watch, by type.
type Watching map[client.Object]cache.ByObject

// NewWatcher returns a Watcher that does not watch before Run. It watches the pods of gateways and of the given node; if node is empty, all running pods of the
// pod network. The argument more has further objects to watch. changed is called after every change.
func NewWatcher(cfg *rest.Config, liqoNamespace string, options network.Options, node string, more Watching, changed func()) (*Watcher, error) {
	pods := cache.ByObject{
		Transform: kube.Reduced(keepPod),
		Label:     labels.SelectorFromSet(labels.Set{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway}),
	}
	const running = "spec.hostNetwork=false,spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
	if node == "" {
		pods.Label, pods.Field = nil, fields.ParseSelectorOrDie(running)
	}
	by := Watching{
		&corev1.Node{}:                     {Label: kube.Selecting(api.LabelType, selection.NotEquals, api.TypeVirtualNode), Transform: kube.Reduced(keepNode)},
		&corev1.Pod{}:                      pods,
		&ipamv1alpha1.Network{}:            {},
		&ipamv1alpha1.IP{}:                 {},
		&networkingv1beta1.Configuration{}: {},
		&networkingv1beta1.GatewayServer{}: {},
		&networkingv1beta1.GatewayClient{}: {},
		&networkingv1beta1.Connection{}:    {},
		&networkingv1beta1.PublicKey{}:     {},
	}
	for object, how := range more {
		by[object] = how
	}
	f := &Watcher{objects: network.Objects{LiqoNamespace: liqoNamespace, Options: options}, changed: changed}
	var err error
	if f.cache, err = factsCache(cfg, by); err != nil || node == "" {
		return f, err
	}
	others := kube.Selecting(networkingv1beta1.LabelComponent, selection.NotEquals, networkingv1beta1.ComponentGateway)
	f.otherPods, err = factsCache(cfg, Watching{&corev1.Pod{}: {Transform: kube.Reduced(keepPod), Label: others,
		Field: fields.AndSelectors(fields.ParseSelectorOrDie(running), fields.OneTermEqualSelector("spec.nodeName", node))}})
	return f, err
}

func factsCache(cfg *rest.Config, by Watching) (cache.Cache, error) {
	c, err := cache.New(cfg, cache.Options{
		Scheme: Scheme(), Mapper: Mapper(), ByObject: by, DefaultTransform: cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: new(true),         // the objects in the cache are never modified
		NewInformer:                  newPromptInformer, // a gateway whose node is lost may be replaced while the API server is away
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache: %w", err)
	}
	return c, nil
}

// Run watches until ctx is done. While the API server is unreachable, the last known objects stay. kinds are further kinds whose changes
// are reported.
func (f *Watcher) Run(ctx context.Context, kinds ...client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.watch(ctx, kinds) })
	caches := []cache.Cache{f.cache}
	if f.otherPods != nil {
		caches = append(caches, f.otherPods)
	}
	for _, c := range caches {
		group.Go(func() error {
			if err := c.Start(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("watching the cluster: %w", err)
			}
			return nil
		})
	}
	return group.Wait()
}

// watch starts the informers, and calls changed when all caches have synced.
func (f *Watcher) watch(ctx context.Context, kinds []client.Object) error {
	for _, kind := range append(kinds,
		&corev1.Node{}, &corev1.Pod{}, &ipamv1alpha1.Network{}, &ipamv1alpha1.IP{}, &networkingv1beta1.Configuration{},
		&networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}, &networkingv1beta1.Connection{}, &networkingv1beta1.PublicKey{}) {
		if err := f.listen(ctx, f.cache, kind); err != nil {
			return err
		}
	}
	if f.otherPods != nil {
		if err := f.listen(ctx, f.otherPods, &corev1.Pod{}); err != nil {
			return err
		}
	}
	if !f.cache.WaitForCacheSync(ctx) || f.otherPods != nil && !f.otherPods.WaitForCacheSync(ctx) {
		return nil // ctx is done
	}
	f.mu.Lock()
	f.synced = true
	f.mu.Unlock()
	f.changed()
	return nil
}

func (f *Watcher) listen(ctx context.Context, in cache.Cache, kind client.Object) error {
	informer, err := in.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: f.news, DeleteFunc: f.news,
		UpdateFunc: func(before, after any) {
			if differ(before, after) {
				f.news(after)
			}
		},
	}); err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}

// Reader returns a client that reads the watched objects, including those that NewWatcher got in more.
func (f *Watcher) Reader() client.Reader { return f.cache }

// complete reports whether all caches have synced once.
func (f *Watcher) complete() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced
}

// Read returns the facts and problems as currently known. It returns agent.ErrUnknown until all caches have synced.
func (f *Watcher) Read(ctx context.Context) (network.Facts, []network.Problem, error) {
	if !f.complete() {
		return network.Facts{}, nil, agent.ErrUnknown
	}
	objects, err := f.Held(ctx)
	if err != nil {
		return network.Facts{}, nil, err
	}
	facts, problems := network.Gather(&objects)
	return facts, problems, nil
}

// Held returns the watched objects that facts are made from, as currently known.
func (f *Watcher) Held(ctx context.Context) (network.Objects, error) {
	objects := f.objects
	var (
		nodes          corev1.NodeList
		pods           corev1.PodList
		networks       ipamv1alpha1.NetworkList
		ips            ipamv1alpha1.IPList
		configurations networkingv1beta1.ConfigurationList
		servers        networkingv1beta1.GatewayServerList
		clients        networkingv1beta1.GatewayClientList
		connections    networkingv1beta1.ConnectionList
		keys           networkingv1beta1.PublicKeyList
	)
	for _, list := range []client.ObjectList{&nodes, &pods, &networks, &ips, &configurations, &servers, &clients, &connections, &keys} {
		if err := f.cache.List(ctx, list); err != nil {
			return objects, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	if f.otherPods != nil {
		var more corev1.PodList
		if err := f.otherPods.List(ctx, &more); err != nil {
			return objects, fmt.Errorf("listing the pods of this node: %w", err)
		}
		pods.Items = append(pods.Items, more.Items...)
	}
	objects.Nodes, objects.Pods, objects.Networks, objects.IPs = nodes.Items, pods.Items, networks.Items, ips.Items
	objects.Configurations, objects.Connections, objects.PublicKeys = configurations.Items, connections.Items, keys.Items
	objects.GatewayServers, objects.GatewayClients = servers.Items, clients.Items
	return objects, nil
}

// news calls changed: at once, except for pods that do not belong to gateways. These change by the hundred, and most have an address inside
// the pod CIDRs of their node.
func (f *Watcher) news(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Labels[networkingv1beta1.LabelComponent] == networkingv1beta1.ComponentGateway {
		f.changed()
		return
	}
	if f.pending.CompareAndSwap(false, true) {
		time.AfterFunc(podPause, func() {
			f.pending.Store(false)
			f.changed()
		})
	}
}

// differ reports whether an update changed a field that the cache keeps. Most updates change other fields, especially those of nodes and pods.
func differ(before, after any) bool {
	a, ok := before.(client.Object)
	b, also := after.(client.Object)
	if !ok || !also || a.GetResourceVersion() == b.GetResourceVersion() {
		return false // a resync, not a change
	}
	a, ok = a.DeepCopyObject().(client.Object)
	if !ok {
		return true
	}
	a.SetResourceVersion(b.GetResourceVersion())
	if old, ok := a.(*networkingv1beta1.Connection); ok {
		// No plan depends on the latency.
		if now, ok := b.(*networkingv1beta1.Connection); ok {
			return old.Status.Value != now.Status.Value || old.Status.MTU != now.Status.MTU
		}
	}
	return !equality.Semantic.DeepEqual(a, b)
}

// keepNode reduces a Node to the fields that the plan of a host depends on.
func keepNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		ObjectMeta: kube.Identity(&node.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}
	kept.Labels = node.Labels
	return kept
}

// keepPod reduces a Pod to its location and whether it is one of Liqo's own and, for pods of gateways, also its labels and readiness.
func keepPod(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		ObjectMeta: kube.Identity(&pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs},
	}
	if pod.Labels[networkingv1beta1.LabelComponent] != networkingv1beta1.ComponentGateway {
		kube.KeepLabels(&kept.ObjectMeta, pod.Labels, offloadingv1beta1.LabelComponent)
		return kept
	}
	kept.Labels = pod.Labels
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			kept.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return kept
}
