package network

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// exposed reads the addresses that IP objects expose. views are the prefixes under which this cluster sees peers.
func (g *gathering) exposed(views []netip.Prefix) {
	// If two IP objects name the same address, only one can be the source of its answers. An object that a user created takes precedence
	// over a system object, then the older over the newer one.
	order := ipam.Exposing(g.LiqoNamespace)
	ips := slices.SortedFunc(slices.Values(g.IPs), func(a, b ipamv1alpha1.IP) int { return order(&a, &b) })
	reals, externals := map[netip.Addr]string{}, map[netip.Addr]string{}
	for i := range ips {
		ip := &ips[i]
		if ip.DeletionTimestamp != nil {
			continue
		}
		if ip.Labels[networkingv1beta1.LabelHostUnreachable] == "true" {
			if real, err := netip.ParseAddr(ip.Spec.IP); err == nil {
				g.facts.Unexposed = append(g.facts.Unexposed, Exposed{Real: real, Kind: KindHost, Object: ip.Namespace + "/" + ip.Name})
			}
			continue
		}
		e, ok := g.expose(ip, views)
		if !ok {
			continue
		}
		if other, taken := reals[e.Real]; taken {
			if !g.systemNode(ip) {
				g.problem("", named("IP", ip), "spec.ip %s is already exposed by IP %s, so its answers have the status.ip of that object: use that status.ip, or delete one of the two", e.Real, other)
			}
			continue
		}
		if other, taken := externals[e.External]; taken {
			g.problem("", named("IP", ip), "status.ip %s is also the status.ip of IP %s: delete one of the two and create it again", e.External, other)
			continue
		}
		reals[e.Real], externals[e.External] = e.Object, e.Object
		g.facts.Exposed = append(g.facts.Exposed, e)
	}
	slices.SortFunc(g.facts.Exposed, func(a, b Exposed) int { return a.Real.Compare(b.Real) })
}

func (g *gathering) systemNode(ip *ipamv1alpha1.IP) bool {
	return ip.Namespace == g.LiqoNamespace && ip.Labels[ipamv1alpha1.LabelIPType] == ipamv1alpha1.IPTypeNode
}

// ofPod reports whether an IP object was created for a pod that runs at a provider.
func ofPod(ip *ipamv1alpha1.IP) bool {
	owner := metav1.GetControllerOf(ip)
	return owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1"
}

func (g *gathering) expose(ip *ipamv1alpha1.IP, views []netip.Prefix) (Exposed, bool) {
	name := named("IP", ip)
	e := Exposed{Kind: KindHost, Object: ip.Namespace + "/" + ip.Name}
	var err error
	if e.Real, err = netip.ParseAddr(ip.Spec.IP); err != nil || ipam.Special(e.Real) != "" {
		g.problem("", name, "spec.ip %q can't be exposed, it is %s: create an IP object with another address", ip.Spec.IP, cmp.Or(ipam.Special(e.Real), "no address"))
		return e, false
	}
	if contains(g.facts.Pods, e.Real) {
		g.problem("", name, "spec.ip %s is in a pod CIDR of this cluster: peers reach pods by their own addresses; delete the IP object", e.Real)
		return e, false
	}
	if ip.Status.IP == "" || !g.facts.External.IsValid() {
		g.wait("", name, "status.ip is %q: waiting for an address of the external CIDR", ip.Status.IP)
		return e, false
	}
	if e.External, err = netip.ParseAddr(ip.Status.IP); err != nil || !g.facts.External.Contains(e.External) {
		g.problem("", name, "status.ip %s is not in the external CIDR %s, where peers look for it: remove spec.networkRef", ip.Status.IP, g.facts.External)
		return e, false
	}
	if contains(views, e.Real) {
		e.Kind = KindPeer
		return e, true
	}
	if ofPod(ip) {
		// The peer chose this address. It is not exposed, because it may belong to this cluster or to a third party, and the peer could make others
		// call it.
		g.problem("", name, "spec.ip %s, which the provider of the pod reported, is not in a range under which this cluster sees a peer: connect the provider (liqoctl network connect), otherwise only this cluster reaches the pod", e.Real)
		return e, false
	}
	for _, n := range g.facts.Nodes {
		if slices.Contains(n.Addresses, e.Real) {
			e.Node = n.Name
		}
	}
	if g.systemNode(ip) {
		e.Kind = KindNode
		e.Node = cmp.Or(e.Node, strings.TrimPrefix(ip.Name, ipamv1alpha1.IPNodePrefix))
	}
	return e, true
}
