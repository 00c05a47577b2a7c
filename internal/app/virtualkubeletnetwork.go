package app

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/reflection"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// provider holds the state that a virtual kubelet has about its provider in addition to its own VirtualNode: the address translation, the virtual
// nodes of the provider, and the leader among their virtual kubelets. If several virtual nodes have the same provider, the leader reflects the
// objects that are reflected per namespace and not per pod.
type provider struct {
	opts                     *virtualKubeletOptions
	configurations, virtuals *reflection.View
	// networks and hosts are all Networks and Nodes of this cluster.
	networks, hosts *reflection.View
	state           atomic.Pointer[providerState]
	// changed is called when the state has changed.
	changed func()
	// loaded is closed when the state is complete for the first time.
	loaded chan struct{}
	once   sync.Once
	mu     sync.Mutex
	// later calls read at the time when the leader may change without any event.
	later *time.Timer
}

// providerState is an immutable snapshot of the state.
type providerState struct {
	// ready is true once all objects have been read.
	ready bool
	// configured is true if addresses have to be translated, translated if the translation is known.
	configured, translated bool
	translation            network.Translation
	// ours are the pod CIDRs of this cluster.
	ours []netip.Prefix
	// taken are the ranges and addresses in use in this cluster.
	taken []netip.Prefix
	// nodes are the names of the VirtualNodes of the provider. leader is the one whose virtual kubelet reflects the objects that
	// are reflected per namespace.
	nodes  []string
	leader string
	// balancers and ingresses are the default classes that the provider offers, empty if it offers none.
	balancers, ingresses string
}

func newProvider(opts *virtualKubeletOptions, changed func()) *provider {
	p := &provider{opts: opts, changed: changed, loaded: make(chan struct{})}
	p.state.Store(&providerState{})
	p.configurations = reflection.NewView(reflection.Resource{Object: &networkingv1beta1.Configuration{}}, p.read)
	p.virtuals = reflection.NewView(reflection.Resource{Object: &offloadingv1beta1.VirtualNode{}, Strip: stripVirtualNode}, p.read)
	p.networks = reflection.NewView(reflection.Resource{Object: &ipamv1alpha1.Network{}}, p.read)
	p.hosts = reflection.NewView(reflection.Resource{Object: &corev1.Node{}, Strip: stripHost}, p.read)
	return p
}

// stripHost reduces a Node to its addresses.
func stripHost(obj client.Object) {
	if n, ok := obj.(*corev1.Node); ok {
		n.Labels, n.Annotations, n.Spec, n.Status = nil, nil, corev1.NodeSpec{}, corev1.NodeStatus{Addresses: n.Status.Addresses}
	}
}

func stripVirtualNode(obj client.Object) {
	if v, ok := obj.(*offloadingv1beta1.VirtualNode); ok {
		v.Spec = offloadingv1beta1.VirtualNodeSpec{
			ClusterID: v.Spec.ClusterID, LoadBalancerClasses: v.Spec.LoadBalancerClasses, IngressClasses: v.Spec.IngressClasses,
		}
	}
}

// run keeps the state up to date until ctx ends.
func (p *provider) run(ctx context.Context, local client.WithWatch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.configurations.Run(ctx, local, p.opts.tenantNamespace) })
	group.Go(func() error { return p.virtuals.Run(ctx, local, p.opts.tenantNamespace) })
	group.Go(func() error { return p.networks.Run(ctx, local, "") })
	group.Go(func() error { return p.hosts.Run(ctx, local, "") })
	return group.Wait()
}

// read computes a new state from the cached objects.
func (p *provider) read() {
	p.mu.Lock() // several views call read, and the later state must win
	defer p.mu.Unlock()
	if !p.configurations.Synced() || !p.virtuals.Synced() || !p.networks.Synced() || !p.hosts.Synced() {
		return
	}
	now := &providerState{ready: true}
	if p.later != nil {
		p.later.Stop()
	}
	if again := p.readNodes(now, time.Now()); again > 0 {
		p.later = time.AfterFunc(again, p.read)
	}
	if p.opts.translateIPs {
		p.readTranslation(now)
	}
	now.taken = p.readTaken()
	before := p.state.Swap(now)
	p.once.Do(func() { close(p.loaded) })
	if !before.equal(now) {
		p.changed()
	}
}

func (s *providerState) equal(o *providerState) bool {
	return s.ready == o.ready && s.configured == o.configured && s.translated == o.translated && s.leader == o.leader &&
		s.balancers == o.balancers && s.ingresses == o.ingresses &&
		slices.Equal(s.nodes, o.nodes) && slices.Equal(s.ours, o.ours) && slices.Equal(s.taken, o.taken) &&
		slices.Equal(s.translation.Pods, o.translation.Pods) && slices.Equal(s.translation.External, o.translation.External)
}

// readNodes reads the virtual nodes of the provider. It returns the time after which it must run again; zero if only events can change its result.
func (p *provider) readNodes(s *providerState, now time.Time) (again time.Duration) {
	var nodes []*offloadingv1beta1.VirtualNode
	for _, obj := range p.virtuals.List() {
		v, ok := obj.(*offloadingv1beta1.VirtualNode)
		if !ok || v.Spec.ClusterID != p.opts.foreignClusterID {
			continue
		}
		nodes, s.nodes = append(nodes, v), append(s.nodes, v.Name)
		if v.Name == p.opts.virtualNode {
			s.readClasses(v)
		}
	}
	slices.Sort(s.nodes)
	s.leader, again = offload.Leader(nodes, now)
	return again
}

// readClasses reads the default classes of a provider from a VirtualNode.
func (s *providerState) readClasses(v *offloadingv1beta1.VirtualNode) {
	for _, class := range v.Spec.LoadBalancerClasses {
		if class.Default {
			s.balancers = class.LoadBalancerClassName
		}
	}
	for _, class := range v.Spec.IngressClasses {
		if class.Default {
			s.ingresses = class.IngressClassName
		}
	}
}

func (p *provider) readTranslation(s *providerState) {
	var objects network.Objects
	for _, obj := range p.configurations.List() {
		c, ok := obj.(*networkingv1beta1.Configuration)
		if !ok || !concerns(c, p.opts.foreignClusterID) {
			continue
		}
		s.configured = true
		objects.Configurations = append(objects.Configurations, *c)
		if c.Spec.Local == nil {
			continue
		}
		for _, text := range c.Spec.Local.CIDR.Pod {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				s.ours = append(s.ours, prefix)
			}
		}
	}
	if s.configured {
		s.translation, _, s.translated = network.GatherTranslation(&objects, p.opts.foreignClusterID)
	}
}

// readTaken returns the ranges of this cluster and of its peers, and the addresses of its nodes.
func (p *provider) readTaken() []netip.Prefix {
	var taken []netip.Prefix
	for _, obj := range p.networks.List() {
		if n, ok := obj.(*ipamv1alpha1.Network); ok {
			if prefix, ok := rangeOf(n); ok {
				taken = append(taken, prefix)
			}
		}
	}
	for _, obj := range p.hosts.List() {
		if n, ok := obj.(*corev1.Node); ok {
			taken = append(taken, addressesOf(n)...)
		}
	}
	slices.SortFunc(taken, netip.Prefix.Compare)
	return slices.Compact(taken)
}

// shown returns an untranslated address of a provider. It returns an error if the address is in use in this cluster, because clients of the
// pod would reach another destination.
func (s *providerState) shown(address, provider string) (string, error) {
	reported, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("cluster %s reports an invalid address: %w", provider, err)
	}
	if i := slices.IndexFunc(s.taken, func(p netip.Prefix) bool { return p.Contains(reported.Unmap()) }); i >= 0 {
		return "", fmt.Errorf("cluster %s reports address %s, which belongs to %s of this cluster or of another peer: connect the two clusters (liqoctl network connect), which remaps its addresses", provider, reported, s.taken[i])
	}
	return address, nil
}

// podIP translates the address of a remote Pod; see kinds.PodOptions.
func (p *provider) podIP(address string) (string, error) {
	s := p.state.Load()
	switch {
	case !p.opts.reflectIPs:
		return "", nil
	case !s.ready, s.configured && !s.translated:
		return "", nil
	case !s.configured:
		return s.shown(address, p.opts.foreignClusterID)
	}
	reported, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("cluster %s reports an invalid address: %w", p.opts.foreignClusterID, err)
	}
	view, err := s.translation.ToView(reported)
	if err != nil {
		return "", err
	}
	return view.String(), nil
}

// copyOptions returns the options for a kind whose objects are reflected per namespace.
func (p *provider) copyOptions(s *providerState, kind string) kinds.CopyOptions {
	o := kinds.CopyOptions{
		Origin: p.opts.clusterID, Destination: p.opts.foreignClusterID, Type: p.opts.reflection[kind].reflectionType,
		LabelsNotReflected: p.opts.labelsNotReflected, AnnotationsNotReflected: p.opts.annotationsNotReflected,
		LabelsReflected: p.opts.labelsReflected, AnnotationsReflected: p.opts.annotationsReflected,
	}
	switch {
	case !s.ready:
		o.Waiting = "waiting for the VirtualNodes and Configurations to be read"
	case s.leader != p.opts.virtualNode:
		o.Waiting = "the virtual kubelet of VirtualNode " + s.leader + " reflects it"
	}
	return o
}

// copies returns the options for a kind that needs no other options.
func (p *provider) copies(kind string) func() kinds.CopyOptions {
	return func() kinds.CopyOptions { return p.copyOptions(p.state.Load(), kind) }
}

// services returns the options for Services, without RemoteNamespace.
func (p *provider) services() kinds.ServiceOptions {
	s := p.state.Load()
	return kinds.ServiceOptions{CopyOptions: p.copyOptions(s, "service"), LoadBalancerClass: s.balancers}
}

// ingresses returns the options for Ingresses.
func (p *provider) ingresses() kinds.IngressOptions {
	s := p.state.Load()
	return kinds.IngressOptions{CopyOptions: p.copyOptions(s, "ingress"), Class: s.ingresses}
}

// policies returns the options for NetworkPolicies. remoteNamespace returns the remote namespace of a namespace.
func (p *provider) policies(remoteNamespace func(namespace string) (string, bool)) kinds.NetworkPolicyOptions {
	s := p.state.Load()
	o := kinds.NetworkPolicyOptions{CopyOptions: p.copyOptions(s, "networkpolicy"), RemoteNamespace: remoteNamespace}
	if s.configured {
		o.Ours = func(block netip.Prefix) (netip.Prefix, bool) {
			i := slices.IndexFunc(s.taken, block.Overlaps)
			if i < 0 {
				return netip.Prefix{}, false
			}
			return s.taken[i], true
		}
	}
	return o
}

// budgets returns the options for PodDisruptionBudgets.
func (p *provider) budgets() reflection.PodDisruptionBudgetOptions {
	s := p.state.Load()
	return reflection.PodDisruptionBudgetOptions{
		CopyOptions: p.copyOptions(s, "poddisruptionbudget"), Node: p.opts.nodeName, AtTarget: func(node string) bool { return node == p.opts.nodeName || slices.Contains(s.nodes, node) },
	}
}

// endpointSlices returns the options for EndpointSlices.
func (p *provider) endpointSlices() reflection.EndpointSliceOptions {
	s := p.state.Load()
	o := reflection.EndpointSliceOptions{Translate: s.configured}
	o.CopyOptions = p.copyOptions(s, "endpointslice")
	o.ServiceType = p.opts.reflection["service"].reflectionType
	switch {
	case o.Waiting != "":
	case p.opts.workers("service") == 0:
		o.Waiting = "Services are not reflected"
	case s.configured && (!s.translated || len(s.ours) == 0):
		o.Waiting = "the Configuration for cluster " + p.opts.foreignClusterID + " does not have the ranges yet under which the clusters see each other"
	}
	o.AtTarget = func(node string) bool { return slices.Contains(s.nodes, node) }
	o.OfNode = func(address string) bool {
		a, err := netip.ParseAddr(address)
		return err == nil && slices.ContainsFunc(s.taken, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == a })
	}
	o.Native = func(address string) bool {
		a, err := netip.ParseAddr(address)
		return err == nil && slices.ContainsFunc(s.ours, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return o
}

// hasNode reports whether a node is a virtual node of the provider.
func (p *provider) hasNode(name string) bool {
	return name == p.opts.nodeName || slices.Contains(p.state.Load().nodes, name)
}

// reflectionType returns a parser for the reflection type of a kind.
func reflectionType(into *offloadingv1beta1.ReflectionType) func(string) error {
	return func(value string) error {
		for _, known := range []offloadingv1beta1.ReflectionType{offloadingv1beta1.DenyList, offloadingv1beta1.AllowList} {
			if strings.EqualFold(value, string(known)) {
				*into = known
				return nil
			}
		}
		return fmt.Errorf("%q is neither %s nor %s", value, offloadingv1beta1.DenyList, offloadingv1beta1.AllowList)
	}
}
