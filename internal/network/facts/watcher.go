// Package facts tells the agents of the network what the plans of their hosts are made from: it watches the API server for objects, and asks the
// replicas of gateways which of them is at work. What it tells is whole, or not told yet.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"liqo.io/liqo/internal/dataplane/agent"
	"liqo.io/liqo/internal/network"
)

// Watcher keeps what the plan of a host is made from: it lists and watches as little as that takes, and of each object what counts.
type Watcher struct {
	cache   cache.Cache
	beside  cache.Cache     // of pods that the first one has not; nil for none
	objects network.Objects // namespace and options; the lists are filled in for each reading
	changed func()

	pending atomic.Bool // pods came or went, and it will be told
	mu      sync.Mutex
	synced  bool
}

// podPause is how long news of pods are gathered.
const podPause = 500 * time.Millisecond

// Watching are additions to what is watched, by object.
type Watching map[client.Object]cache.ByObject

// NewWatcher prepares to watch; of pods those of gateways and of that node, or, without one, of the whole pod network. changed is told of
// all news.
func NewWatcher(cfg *rest.Config, liqoNamespace string, options network.Options, node string, more Watching, changed func()) (*Watcher, error) {
	real, err := labels.NewRequirement(api.LabelType, selection.NotEquals, []string{api.TypeVirtualNode})
	if err != nil {
		return nil, fmt.Errorf("selecting real nodes: %w", err)
	}
	pods := cache.ByObject{
		Transform: keepPod,
		Label:     labels.SelectorFromSet(labels.Set{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway}),
	}
	const running = "spec.hostNetwork=false,spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
	if node == "" {
		pods.Label, pods.Field = nil, fields.ParseSelectorOrDie(running)
	}
	by := Watching{
		&corev1.Node{}:                     {Label: labels.NewSelector().Add(*real), Transform: keepNode},
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
	if f.cache, err = factsCache(cfg, by); err != nil {
		return nil, err
	}
	if node == "" {
		return f, nil
	}
	others, err := labels.NewRequirement(networkingv1beta1.LabelComponent, selection.NotEquals, []string{networkingv1beta1.ComponentGateway})
	if err != nil {
		return nil, fmt.Errorf("selecting the pods of this node: %w", err)
	}
	f.beside, err = factsCache(cfg, Watching{&corev1.Pod{}: {Transform: keepPod, Label: labels.NewSelector().Add(*others),
		Field: fields.AndSelectors(fields.ParseSelectorOrDie(running), fields.OneTermEqualSelector("spec.nodeName", node))}})
	return f, err
}

func factsCache(cfg *rest.Config, by Watching) (cache.Cache, error) {
	c, err := cache.New(cfg, cache.Options{
		Scheme: Scheme(), Mapper: Mapper(), ByObject: by, DefaultTransform: cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: new(true), // what is read here is only read
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	return c, nil
}

// Run watches until ctx ends. While the API server is away, what was heard last stays.
func (f *Watcher) Run(ctx context.Context, kinds ...client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.watch(ctx, kinds) })
	caches := []cache.Cache{f.cache}
	if f.beside != nil {
		caches = append(caches, f.beside)
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

// watch asks for news, and tells when everything was heard once.
func (f *Watcher) watch(ctx context.Context, kinds []client.Object) error {
	for _, kind := range append(kinds,
		&corev1.Node{}, &corev1.Pod{}, &ipamv1alpha1.Network{}, &ipamv1alpha1.IP{}, &networkingv1beta1.Configuration{},
		&networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}, &networkingv1beta1.Connection{}, &networkingv1beta1.PublicKey{}) {
		if err := f.listen(ctx, f.cache, kind); err != nil {
			return err
		}
	}
	if f.beside != nil {
		if err := f.listen(ctx, f.beside, &corev1.Pod{}); err != nil {
			return err
		}
	}
	if !f.cache.WaitForCacheSync(ctx) || f.beside != nil && !f.beside.WaitForCacheSync(ctx) {
		return nil // the end
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

// Reader reads what is watched, what was asked for besides included.
func (f *Watcher) Reader() client.Reader { return f.cache }

// complete tells whether everything was heard at least once.
func (f *Watcher) complete() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced
}

// Read returns the facts as they are known now; agent.ErrUnknown before everything was heard once.
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

// Held are the objects that facts are made from, as they are known now.
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
	if f.beside != nil {
		var more corev1.PodList
		if err := f.beside.List(ctx, &more); err != nil {
			return objects, fmt.Errorf("listing the pods of this node: %w", err)
		}
		pods.Items = append(pods.Items, more.Items...)
	}
	objects.Nodes, objects.Pods, objects.Networks, objects.IPs = nodes.Items, pods.Items, networks.Items, ips.Items
	objects.Configurations, objects.Connections, objects.PublicKeys = configurations.Items, connections.Items, keys.Items
	objects.GatewayServers, objects.GatewayClients = servers.Items, clients.Items
	return objects, nil
}

// news tells of a change: at once, but for pods that are no gateways. These come and go by the hundred, and most lie where their node's
// others do.
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

// differ tells whether an update changed anything that is kept: most of them, of nodes and pods above all, are about something else.
func differ(before, after any) bool {
	a, ok := before.(client.Object)
	b, also := after.(client.Object)
	if !ok || !also || a.GetResourceVersion() == b.GetResourceVersion() {
		return false // looked at again, not changed
	}
	a, ok = a.DeepCopyObject().(client.Object)
	if !ok {
		return true
	}
	a.SetResourceVersion(b.GetResourceVersion())
	if old, ok := a.(*networkingv1beta1.Connection); ok {
		if now, ok := b.(*networkingv1beta1.Connection); ok { // no plan depends on the latency
			return old.Status.Value != now.Status.Value || old.Status.MTU != now.Status.MTU
		}
	}
	return !equality.Semantic.DeepEqual(a, b)
}

// keepNode leaves of a Node what the plan of a host depends on.
func keepNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: keepMeta(&node.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}

// keepPod leaves of a Pod where it is, and of a gateway's also what it is.
func keepPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: keepMeta(&pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs},
	}
	if pod.Labels[networkingv1beta1.LabelComponent] != networkingv1beta1.ComponentGateway {
		kept.Labels = nil
		return kept, nil
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			kept.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return kept, nil
}

func keepMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		Labels: meta.Labels, CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
	}
}
