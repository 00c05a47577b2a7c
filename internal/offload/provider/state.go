// Package provider holds what a virtual kubelet knows about its provider: the translation of its addresses, its virtual nodes and the leader among
// their virtual kubelets. From these follow the options of all reflected kinds.
package provider

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/offload/reflection"
)

// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// Options are the inputs of a State.
type Options struct {
	// ClusterID is the ID of this cluster, ForeignClusterID the ID of the provider, and TenantNamespace the provider's tenant namespace in this cluster.
	ClusterID, ForeignClusterID, TenantNamespace string
	// VirtualNode is the name of the VirtualNode, NodeName the name of its Node.
	VirtualNode, NodeName string
	// ReflectIPs copies the addresses of pods into this cluster. TranslateIPs translates them, if a Configuration belongs to the provider.
	ReflectIPs, TranslateIPs bool
	// Translation returns the translation between this cluster and the cluster with an ID, according to its Configurations; false if it is unknown.
	Translation func(configurations []networkingv1beta1.Configuration, clusterID string) (Translation, bool)
	// Types are the reflection types, by the name of the kind in lower case. ServicesReflected is false if no Services are reflected.
	Types             map[string]offloadingv1beta1.ReflectionType
	ServicesReflected bool
	// The keys of labels and annotations that are not copied, or copied in addition; see kinds.CopyOptions.
	LabelsNotReflected, AnnotationsNotReflected []string
	LabelsReflected, AnnotationsReflected       []string
}

// Translation is the translation of addresses between this cluster and a provider.
type Translation struct {
	// Pods and External map the prefixes of the provider to this cluster's views of them.
	Pods, External []ipam.Remap
	// ToView returns the view of an address that the provider reports, or an error if the provider must not report it.
	ToView func(reported netip.Addr) (netip.Addr, error)
}

// State is the state that a virtual kubelet has about its provider in addition to its own VirtualNode: the address translation, the virtual
// nodes of the provider, and the leader among their virtual kubelets. If several virtual nodes have the same provider, the leader reflects the
// objects that are reflected per namespace and not per pod.
type State struct {
	opts                     Options
	configurations, virtuals *reflection.View
	// networks and hosts are all Networks and Nodes of this cluster.
	networks, hosts *reflection.View
	state           atomic.Pointer[snapshot]
	// changed is called when the state has changed.
	changed func()
	// loaded is closed when the state is complete for the first time.
	loaded chan struct{}
	once   sync.Once
	mu     sync.Mutex
	// later calls read at the time when the leader may change without any event.
	later *time.Timer
}

// snapshot is an immutable snapshot of the state.
type snapshot struct {
	// ready is true once all objects have been read.
	ready bool
	// configured is true if addresses have to be translated, translated if the translation is known.
	configured, translated bool
	translation            Translation
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

// New returns a State without content. changed is called when the state has changed.
func New(opts Options, changed func()) *State {
	p := &State{opts: opts, changed: changed, loaded: make(chan struct{})}
	p.state.Store(&snapshot{})
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

// Run keeps the state up to date until ctx ends.
func (p *State) Run(ctx context.Context, local client.WithWatch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.configurations.Run(ctx, local, p.opts.TenantNamespace) })
	group.Go(func() error { return p.virtuals.Run(ctx, local, p.opts.TenantNamespace) })
	group.Go(func() error { return p.networks.Run(ctx, local, "") })
	group.Go(func() error { return p.hosts.Run(ctx, local, "") })
	return group.Wait()
}

// read computes a new state from the cached objects.
func (p *State) read() {
	p.mu.Lock() // several views call read, and the later state must win
	defer p.mu.Unlock()
	if !p.configurations.Synced() || !p.virtuals.Synced() || !p.networks.Synced() || !p.hosts.Synced() {
		return
	}
	now := &snapshot{ready: true}
	if p.later != nil {
		p.later.Stop()
	}
	if again := p.readNodes(now, time.Now()); again > 0 {
		p.later = time.AfterFunc(again, p.read)
	}
	if p.opts.TranslateIPs {
		p.readTranslation(now)
	}
	now.taken = p.readTaken()
	before := p.state.Swap(now)
	p.once.Do(func() { close(p.loaded) })
	if !before.equal(now) {
		p.changed()
	}
}

func (s *snapshot) equal(o *snapshot) bool {
	return s.ready == o.ready && s.configured == o.configured && s.translated == o.translated && s.leader == o.leader &&
		s.balancers == o.balancers && s.ingresses == o.ingresses &&
		slices.Equal(s.nodes, o.nodes) && slices.Equal(s.ours, o.ours) && slices.Equal(s.taken, o.taken) &&
		slices.Equal(s.translation.Pods, o.translation.Pods) && slices.Equal(s.translation.External, o.translation.External)
}

// readNodes reads the virtual nodes of the provider. It returns the time after which it must run again; zero if only events can change its result.
func (p *State) readNodes(s *snapshot, now time.Time) (again time.Duration) {
	var nodes []*offloadingv1beta1.VirtualNode
	for _, obj := range p.virtuals.List() {
		v, ok := obj.(*offloadingv1beta1.VirtualNode)
		if !ok || v.Spec.ClusterID != p.opts.ForeignClusterID {
			continue
		}
		nodes, s.nodes = append(nodes, v), append(s.nodes, v.Name)
		if v.Name == p.opts.VirtualNode {
			s.readClasses(v)
		}
	}
	slices.Sort(s.nodes)
	s.leader, again = kubelet.Leader(nodes, now)
	return again
}

// readClasses reads the default classes of a provider from a VirtualNode.
func (s *snapshot) readClasses(v *offloadingv1beta1.VirtualNode) {
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

func (p *State) readTranslation(s *snapshot) {
	var configurations []networkingv1beta1.Configuration
	for _, obj := range p.configurations.List() {
		c, ok := obj.(*networkingv1beta1.Configuration)
		if !ok || !concerns(c, p.opts.ForeignClusterID) {
			continue
		}
		s.configured = true
		configurations = append(configurations, *c)
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
		s.translation, s.translated = p.opts.Translation(configurations, p.opts.ForeignClusterID)
	}
}

// concerns reports whether a Configuration belongs to a cluster.
func concerns(c *networkingv1beta1.Configuration, clusterID string) bool {
	id := c.Labels[api.LabelRemoteClusterID]
	if id == "" {
		id = c.Name
	}
	return c.DeletionTimestamp == nil && id == clusterID
}

// readTaken returns the ranges of this cluster and of its peers, and the addresses of its nodes.
func (p *State) readTaken() []netip.Prefix {
	var taken []netip.Prefix
	for _, obj := range p.networks.List() {
		if n, ok := obj.(*ipamv1alpha1.Network); ok {
			if prefix, ok := ipam.RangeOf(n); ok {
				taken = append(taken, prefix)
			}
		}
	}
	for _, obj := range p.hosts.List() {
		if n, ok := obj.(*corev1.Node); ok {
			taken = append(taken, ipam.NodeAddresses(n)...)
		}
	}
	slices.SortFunc(taken, netip.Prefix.Compare)
	return slices.Compact(taken)
}

// shown returns an untranslated address of a provider. It returns an error if the address is in use in this cluster, because clients of the
// pod would reach another destination.
func (s *snapshot) shown(address, provider string) (string, error) {
	reported, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("cluster %s reports an invalid address: %w", provider, err)
	}
	if i := slices.IndexFunc(s.taken, func(p netip.Prefix) bool { return p.Contains(reported.Unmap()) }); i >= 0 {
		return "", fmt.Errorf("cluster %s reports address %s, which belongs to %s of this cluster or of another peer: connect the two clusters (liqoctl network connect), which remaps its addresses", provider, reported, s.taken[i])
	}
	return address, nil
}

// PodIP translates the address of a remote Pod; see kinds.PodOptions.
func (p *State) PodIP(address string) (string, error) {
	s := p.state.Load()
	switch {
	case !p.opts.ReflectIPs:
		return "", nil
	case !s.ready, s.configured && !s.translated:
		return "", nil
	case !s.configured:
		return s.shown(address, p.opts.ForeignClusterID)
	}
	reported, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("cluster %s reports an invalid address: %w", p.opts.ForeignClusterID, err)
	}
	view, err := s.translation.ToView(reported)
	if err != nil {
		return "", err
	}
	return view.String(), nil
}
