package provider

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/reflection"
)

// copyOptions returns the options for a kind whose objects are reflected per namespace.
func (p *State) copyOptions(s *snapshot, kind string) kinds.CopyOptions {
	o := kinds.CopyOptions{
		Origin: p.opts.ClusterID, Destination: p.opts.ForeignClusterID, Type: p.opts.Types[kind],
		LabelsNotReflected: p.opts.LabelsNotReflected, AnnotationsNotReflected: p.opts.AnnotationsNotReflected,
		LabelsReflected: p.opts.LabelsReflected, AnnotationsReflected: p.opts.AnnotationsReflected,
	}
	switch {
	case !s.ready:
		o.Waiting = "waiting for the VirtualNodes and Configurations to be read"
	case s.leader != p.opts.VirtualNode:
		o.Waiting = "the virtual kubelet of VirtualNode " + s.leader + " reflects it"
	}
	return o
}

// Copies returns the options for a kind that needs no other options.
func (p *State) Copies(kind string) func() kinds.CopyOptions {
	return func() kinds.CopyOptions { return p.copyOptions(p.state.Load(), kind) }
}

// Services returns the options for Services, without RemoteNamespace.
func (p *State) Services() kinds.ServiceOptions {
	s := p.state.Load()
	return kinds.ServiceOptions{CopyOptions: p.copyOptions(s, "service"), LoadBalancerClass: s.balancers}
}

// Ingresses returns the options for Ingresses.
func (p *State) Ingresses() kinds.IngressOptions {
	s := p.state.Load()
	return kinds.IngressOptions{CopyOptions: p.copyOptions(s, "ingress"), Class: s.ingresses}
}

// Policies returns the options for NetworkPolicies. remoteNamespace returns the remote namespace of a namespace.
func (p *State) Policies(remoteNamespace func(namespace string) (string, bool)) kinds.NetworkPolicyOptions {
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

// Budgets returns the options for PodDisruptionBudgets.
func (p *State) Budgets() reflection.PodDisruptionBudgetOptions {
	s := p.state.Load()
	return reflection.PodDisruptionBudgetOptions{
		CopyOptions: p.copyOptions(s, "poddisruptionbudget"), Node: p.opts.NodeName, AtTarget: func(node string) bool { return node == p.opts.NodeName || slices.Contains(s.nodes, node) },
	}
}

// EndpointSlices returns the options for EndpointSlices.
func (p *State) EndpointSlices() reflection.EndpointSliceOptions {
	s := p.state.Load()
	o := reflection.EndpointSliceOptions{Translate: s.configured}
	o.CopyOptions = p.copyOptions(s, "endpointslice")
	o.ServiceType = p.opts.Types["service"]
	switch {
	case o.Waiting != "":
	case !p.opts.ServicesReflected:
		o.Waiting = "Services are not reflected"
	case s.configured && (!s.translated || len(s.ours) == 0):
		o.Waiting = "the Configuration for cluster " + p.opts.ForeignClusterID + " does not have the ranges yet under which the clusters see each other"
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

// Loaded is closed when the state is complete for the first time.
func (p *State) Loaded() <-chan struct{} { return p.loaded }

// Ready reports whether all objects have been read.
func (p *State) Ready() bool { return p.state.Load().ready }

// Translated reports whether addresses of the provider have to be translated.
func (p *State) Translated() bool { return p.state.Load().configured }

// HasNode reports whether a node is a virtual node of the provider.
func (p *State) HasNode(name string) bool {
	return name == p.opts.NodeName || slices.Contains(p.state.Load().nodes, name)
}
