package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// peers reads the peers. It returns all views, including those of peers that are not complete.
func (g *gathering) peers() []netip.Prefix {
	var views []netip.Prefix
	for _, p := range g.configured() {
		views = append(views, p.Views()...)
		switch {
		case len(g.facts.Pods) == 0:
			g.wait(p.ClusterID, "Network "+g.LiqoNamespace+"/pod-cidr", "waiting for the pod CIDR of this cluster before cluster %q can be connected", p.ClusterID)
		case !g.facts.External.IsValid():
			g.wait(p.ClusterID, "Network "+g.LiqoNamespace+"/external-cidr", "waiting for the external CIDR of this cluster before cluster %q can be connected", p.ClusterID)
		case g.gateway(&p):
			g.facts.Peers = append(g.facts.Peers, p)
		}
	}
	return views
}

// configured reads the peers for which this cluster has ranges.
func (g *gathering) configured() []Peer {
	configurations := slices.SortedFunc(slices.Values(g.Configurations), func(a, b networkingv1beta1.Configuration) int {
		return cmp.Or(cmp.Compare(clusterOf(&a), clusterOf(&b)), api.CompareAge(&a, &b))
	})
	var peers []Peer
	for i := range configurations {
		c := &configurations[i]
		if c.DeletionTimestamp != nil {
			continue
		}
		p := Peer{ClusterID: clusterOf(c), Namespace: c.Namespace, Negotiated: ReportedByPeer(c)}
		if n := len(peers); n > 0 && peers[n-1].ClusterID == p.ClusterID {
			g.problem("", named("Configuration", c), "cluster %q has another, older Configuration in namespace %s: delete one of them", p.ClusterID, peers[n-1].Namespace)
			continue
		}
		if g.remaps(c, &p, peers) {
			peers = append(peers, p)
		}
	}
	return peers
}

// remaps reads the ranges of a peer and their views in this cluster. others are the peers read before. It leaves out a range that cannot be
// used, and reports a problem. It returns false, so that the peer is left out, if no range remains.
func (g *gathering) remaps(c *networkingv1beta1.Configuration, p *Peer, others []Peer) bool {
	name := named("Configuration", c)
	if c.Status.Remote == nil && len(c.Status.Ranges) == 0 {
		g.wait(p.ClusterID, name, "status.remote is empty: waiting for the ranges under which this cluster sees cluster %q", p.ClusterID)
		return false
	}
	pair := func(kind string, reals []string) ([]ipam.Remap, bool) {
		if len(reals) == 0 {
			g.problem(p.ClusterID, name, "spec.remote.cidr.%s is empty: enter the range of cluster %q", kind, p.ClusterID)
			return nil, false
		}
		views, ok := seenAs(c, kind, reals)
		if !ok {
			g.wait(p.ClusterID, name, "status.remote.cidr.%s has more ranges than the %d of spec.remote: waiting for a new status", kind, len(reals))
			return nil, false
		}
		known, missing := len(g.problems), 0
		var pairs []ipam.Remap
		for i, real := range reals {
			if views[i] == "" {
				missing++
				continue
			}
			r, why := remap(real, views[i])
			if why == "" && p.Negotiated && !ipam.Private(r.Real) {
				why = "is not private, and only the peer named it: an administrator of this cluster who wants it creates the Configuration (liqoctl create configuration)"
			}
			if why == "" {
				why = g.collision(r, others, &Peer{ClusterID: p.ClusterID, Pods: slices.Concat(p.Pods, pairs)})
			}
			if why != "" {
				g.problem("", name, "remote.cidr.%s: range %s, seen here as %s, %s", kind, real, views[i], why)
				continue
			}
			pairs = append(pairs, r)
		}
		if missing > 0 {
			g.wait("", name, "status.remote.cidr.%s has %d ranges for the %d of spec.remote: waiting for the others", kind, len(reals)-missing, len(reals))
		}
		if len(pairs) == 0 {
			for i := range g.problems[known:] {
				g.problems[known+i].ClusterID = p.ClusterID
			}
		}
		return pairs, len(pairs) > 0
	}
	var ok bool
	cidrs := c.Spec.Remote.CIDR
	if p.Pods, ok = pair(networkingv1beta1.CIDRTypePod, cidrs.Pod); !ok {
		return false
	}
	p.External, ok = pair(networkingv1beta1.CIDRTypeExternal, cidrs.External[:min(1, len(cidrs.External))])
	return ok
}

// seenAs returns the view of each range of a peer; empty for a range that has none. status.ranges names each range, so the result does not depend on
// the last change of the spec. Other versions of Liqo leave status.ranges empty. Then seenAs uses the order of status.remote, and returns false if
// status.remote has more views than the peer has ranges. Only the first external view counts.
func seenAs(c *networkingv1beta1.Configuration, kind string, reals []string) ([]string, bool) {
	views := make([]string, len(reals))
	if len(c.Status.Ranges) == 0 {
		list := c.Status.Remote.CIDR.Pod
		if kind == networkingv1beta1.CIDRTypeExternal {
			list = c.Status.Remote.CIDR.External[:min(1, len(c.Status.Remote.CIDR.External))]
		}
		if len(list) > len(reals) {
			return nil, false
		}
		copy(views, list)
		return views, true
	}
	for i, real := range reals {
		cidr, err := netip.ParsePrefix(real)
		for _, r := range c.Status.Ranges {
			if err == nil && r.Type == kind && r.CIDR == cidr.Masked().String() {
				views[i] = r.SeenAs
			}
		}
	}
	return views, true
}

// remap parses a range and its view. problem describes an invalid range or view; empty if both are valid.
func remap(real, view string) (r ipam.Remap, problem string) {
	var err error
	if r.Real, err = netip.ParsePrefix(real); err != nil || !r.Real.Addr().Is4() {
		return r, "is no IPv4 range: correct it in spec.remote"
	}
	if r.View, err = netip.ParsePrefix(view); err != nil || !r.View.Addr().Is4() {
		return r, "is not mapped to an IPv4 range: delete the Network of this range, which Liqo then creates again"
	}
	r.Real, r.View = r.Real.Masked(), r.View.Masked()
	if why := ipam.SpecialPrefix(r.Real); why != "" {
		return r, "is " + why + ", which no cluster may have: correct it in spec.remote"
	}
	if why := ipam.SpecialPrefix(r.View); why != "" || !r.Valid() {
		return r, "does not fit the range to which it is mapped here: delete the Network of this range, which Liqo then creates again"
	}
	return r, ""
}

// collision describes the conflict of a range with another one; "" if there is none. The view must not overlap any other range that this cluster
// sees. The real range must not overlap another range of the same peer.
func (g *gathering) collision(r ipam.Remap, others []Peer, same *Peer) string {
	f := &g.facts
	own := slices.Concat(f.Pods, f.Services)
	if f.External.IsValid() {
		own = append(own, f.External)
	}
	if overlaps(own, r.View) {
		return fmt.Sprintf("overlaps here a range of this cluster (%s): delete its Network, which Liqo then creates again", join(own))
	}
	for _, n := range f.Nodes { // otherwise, all nodes would route packets for this node to the peer
		if slices.ContainsFunc(n.Addresses, r.View.Contains) {
			return fmt.Sprintf("covers here an address of Node %s: add the range of the nodes to ipam.reservedSubnets and delete this Network, which Liqo then creates again", n.Name)
		}
	}
	sees := func(s ipam.Remap) bool { return s.View.Overlaps(r.View) }
	seen := func(p *Peer) bool { return slices.ContainsFunc(p.Pods, sees) || slices.ContainsFunc(p.External, sees) }
	for i := range others {
		if seen(&others[i]) {
			return fmt.Sprintf("overlaps here a range of cluster %q: delete its Network, which Liqo then creates again", others[i].ClusterID)
		}
	}
	if seen(same) {
		return fmt.Sprintf("overlaps here a range of cluster %q: delete its Network, which Liqo then creates again", same.ClusterID)
	}
	for _, other := range same.Remaps() {
		if other.Real.Overlaps(r.Real) {
			return fmt.Sprintf("overlaps %s, another range of the same cluster: correct spec.remote", other.Real)
		}
	}
	return ""
}

// gateway reads the gateway of a peer. It returns false if the gateway is missing or invalid.
func (g *gathering) gateway(p *Peer) bool {
	kind := ""
	taken := func(mine string, o metav1.Object) bool {
		if kind != "" {
			g.problem("", named(mine, o), "cluster %q also has %s %s, which takes precedence: delete one of them", p.ClusterID, kind, p.Gateway)
		}
		return kind != ""
	}
	for _, s := range g.servers {
		if s.Namespace != p.Namespace || clusterOf(s) != p.ClusterID || s.DeletionTimestamp != nil || taken("GatewayServer", s) {
			continue
		}
		kind, p.Gateway, p.Role, p.MTU, p.Port = "GatewayServer", s.Name, Server, s.Spec.MTU, TunnelPort
		if s.Status.Endpoint != nil {
			p.Endpoints = s.Status.Endpoint.Addresses
		}
	}
	for _, c := range g.clients {
		if c.Namespace != p.Namespace || clusterOf(c) != p.ClusterID || c.DeletionTimestamp != nil || taken("GatewayClient", c) {
			continue
		}
		port := c.Spec.Endpoint.Port
		if port == 0 && len(c.Spec.Endpoint.Ports) > 0 {
			port = c.Spec.Endpoint.Ports[0]
		}
		if port < 1 || port > 65535 || len(c.Spec.Endpoint.Addresses) == 0 {
			g.problem(p.ClusterID, named("GatewayClient", c), "spec.endpoint has addresses %q and port %d: enter status.endpoint of the other cluster's GatewayServer", c.Spec.Endpoint.Addresses, port)
			return false
		}
		for _, text := range c.Spec.Endpoint.Addresses {
			a, ok := LiteralAddress(text)
			if !ok {
				continue // a host name: the gateway checks the addresses that it resolves to
			}
			if err := p.CheckDialed(a); err != nil {
				g.problem(p.ClusterID, named("GatewayClient", c), "spec.endpoint.addresses: %v", err)
				return false
			}
		}
		kind, p.Gateway, p.Role, p.MTU, p.Port, p.Endpoints = "GatewayClient", c.Name, Client, c.Spec.MTU, uint16(port), c.Spec.Endpoint.Addresses
	}
	if kind == "" {
		g.wait(p.ClusterID, "Configuration "+p.Namespace+"/"+p.ClusterID, "waiting for a GatewayServer or GatewayClient for cluster %q in namespace %s", p.ClusterID, p.Namespace)
		return false
	}
	gateway := kind + " " + p.Namespace + "/" + p.Gateway
	if p.MTU != 0 && (p.MTU < 576 || p.MTU > 65535) {
		g.problem(p.ClusterID, gateway, "spec.mtu %d is not between 576 and 65535: correct it, or remove it to let Liqo compute the MTU", p.MTU)
		return false
	}
	g.candidates(p)
	if len(p.Candidates) == 0 {
		g.wait("", gateway, "waiting for a pod of the gateway to have an address: cluster %q is unreachable until then", p.ClusterID)
	}
	g.publicKey(p)
	for i := range g.Connections {
		if c := &g.Connections[i]; c.Namespace == p.Namespace && c.Name == networkingv1beta1.GatewayChild(p.Gateway) {
			p.Connection, p.TunnelMTU = c.Status.Value, c.Status.MTU
		}
	}
	return true
}

func (g *gathering) candidates(p *Peer) {
	for _, pod := range g.gateways[[2]string{p.Namespace, p.Gateway}] {
		if ip := podIP(pod); ip.IsValid() {
			p.Candidates = append(p.Candidates, Candidate{Pod: pod.Name, IP: ip, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Unix(),
				Ready: pod.DeletionTimestamp == nil && api.PodReady(pod)})
		}
	}
	slices.SortFunc(p.Candidates, func(a, b Candidate) int { return cmp.Compare(a.Pod, b.Pod) })
}

func (g *gathering) publicKey(p *Peer) {
	counts := PublicKeyInUse(g.PublicKeys, p.Namespace, p.ClusterID)
	for _, k := range g.keys {
		if k.Namespace != p.Namespace || clusterOf(k) != p.ClusterID {
			continue
		}
		if n := len(k.Spec.PublicKey); n != KeyLength {
			g.problem("", named("PublicKey", k), "spec.publicKey has %d bytes instead of %d: enter the key that the other cluster generates", n, KeyLength)
		} else if k != counts {
			g.problem("", named("PublicKey", k), "cluster %q also has PublicKey %s, which takes precedence: delete one of them", p.ClusterID, counts.Name)
		}
	}
	if counts == nil {
		g.wait("", "PublicKey "+p.Namespace+"/"+p.ClusterID, "waiting for the public key of cluster %q's gateway: there is no tunnel until then", p.ClusterID)
		return
	}
	p.PublicKey = slices.Clone(counts.Spec.PublicKey)
}
