package network

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Dependency is a network or an address that a node needs to reach and that the API does not report.
type Dependency struct {
	Prefix netip.Prefix
	// Name describes the dependency: "the network of link eth0", "a next hop", "the destination of a route", "a resolver".
	Name string
	// Routed means that it is the destination of a route. Its hosts are behind a router, and it may be wider than the networks that exist there.
	Routed bool
}

// wide is the longest prefix length of a route that does not count against views that this cluster chose. If 10.0.0.0/8 counted, few private addresses would be
// left to choose from. For a view that is the peer's own range, every route counts.
const wide = 8

// Admitted returns the views of a peer that a node routes to the peer. A view is a prefix under which this cluster sees a range of the peer. Admitted accepts
// every range that an administrator entered. It refuses a range that only the peer named in two cases: the view is the peer's own range and not private, or the
// view overlaps a dependency of the node. A wide route, such as a static one to 10.0.0.0/8, counts only if the view is the peer's own range: such a peer could
// attract packets to any host behind that route. IPAM chooses all other views, and the peer can't influence its choice. Admitted returns a problem for each
// refused range.
func Admitted(p *Peer, host Host) ([]netip.Prefix, []Problem) {
	if !p.Negotiated {
		return p.Views(), nil
	}
	var views []netip.Prefix
	var problems []Problem
	for _, r := range p.Remaps() {
		i := slices.IndexFunc(host.Dependencies, func(d Dependency) bool {
			return d.Prefix.Overlaps(r.View) && (r.Identity() || !d.Routed || d.Prefix.Bits() > wide)
		})
		switch {
		case r.Identity() && !ipam.Private(r.View):
			problems = append(problems, Problem{Object: "Node " + host.Name, Text: fmt.Sprintf("range %s is not routed to cluster %q: it is not private, and only the peer named it", r.View, p.ClusterID)})
		case i >= 0:
			d := host.Dependencies[i]
			reserved := d.Prefix
			if d.Routed && d.Prefix.Bits() <= wide { // to reserve all of it would end the networks of other peers
				reserved = r.View
			}
			cure := fmt.Sprintf("add %s to ipam.reservedSubnets and delete the Network of the range: Liqo then chooses another range, which ends the open connections to the cluster", reserved)
			if r.Identity() {
				cure += ". If these addresses belong to cluster " + p.ClusterID + ", an administrator of this cluster removes annotation " +
					networkingv1beta1.AnnotationReportedByPeer + " from the Configuration in namespace " + p.Namespace + " instead"
			}
			problems = append(problems, Problem{Object: "Node " + host.Name, Text: fmt.Sprintf("range %s, under which this cluster sees cluster %q, is not routed there: it overlaps %s (%s); %s", r.View, p.ClusterID, d.Prefix, d.Name, cure)})
		default:
			views = append(views, r.View)
		}
	}
	return views, problems
}

// Refusals returns the problems of all peers' ranges on a node; see Admitted.
func Refusals(f *Facts, host Host) []Problem {
	var all []Problem
	for i := range f.Peers {
		_, problems := Admitted(&f.Peers[i], host)
		all = append(all, problems...)
	}
	return all
}

// nodeRules returns the rules that select the packets that may use the routes to peers. They select packets of pods by their source. For
// packets of the node itself, this is impossible. Such a packet may have no source address yet when it is routed, and a connection to a
// node port has the address of any client as its source. The rules select these packets by destination: private ranges, and views that this
// cluster chose outside of private ranges. So even a wrong route to a peer never captures a node's packets to other addresses.
func nodeRules(f *Facts, views []netip.Prefix) []dataplane.Rule {
	destinations := ipam.PrivateRanges()
	for _, view := range views {
		if !inside(ipam.PrivateRanges(), view) {
			destinations = append(destinations, view)
		}
	}
	// Earlier versions installed one rule for all addresses, at f.rulePriority(). These rules use the priority before it: at the same priority, the
	// kernel would treat the old rule and a new one as duplicates, and reject one of them.
	priority := max(f.rulePriority()-1, 1)
	var rules []dataplane.Rule
	for _, pods := range disjoint(f.Pods) {
		rules = append(rules, dataplane.Rule{Priority: priority, Source: pods, Table: dataplane.OverlayTable})
	}
	for _, destination := range disjoint(destinations) {
		rules = append(rules, dataplane.Rule{Priority: priority, Destination: destination, Table: dataplane.OverlayTable})
	}
	return rules
}
