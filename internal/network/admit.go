package network

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Dependency is a network or an address that a node needs besides those that the API tells of.
type Dependency struct {
	Prefix netip.Prefix
	// Name says what it is: "the network of link eth0", "a next hop", "the destination of a route", "a resolver".
	Name string
}

// Admitted are the views of a peer that a node leads to it. What an administrator entered is. A range that only the peer named is refused where
// packets to it would be taken from what the node needs: the problems say so.
func Admitted(p *Peer, host Host) ([]netip.Prefix, []Problem) {
	if !p.Negotiated {
		return p.Views(), nil
	}
	var views []netip.Prefix
	var problems []Problem
	for _, r := range p.Remaps() {
		i := slices.IndexFunc(host.Dependencies, func(d Dependency) bool { return d.Prefix.Overlaps(r.View) })
		switch {
		case r.Identity() && !ipam.Private(r.View):
			problems = append(problems, Problem{Object: "Node " + host.Name, Text: fmt.Sprintf("range %s of cluster %q is not led there: it is not private, and only the peer named it", r.View, p.ClusterID)})
		case i >= 0:
			d := host.Dependencies[i]
			problems = append(problems, Problem{Object: "Node " + host.Name, Text: fmt.Sprintf("range %s, where cluster %q is seen, is not led there: it overlaps %s (%s); add that to ipam.reservedSubnets and delete the Network of the range, another one is chosen", r.View, p.ClusterID, d.Prefix, d.Name)})
		default:
			views = append(views, r.View)
		}
	}
	return views, problems
}

// Refusals are the problems of all peers' ranges on a node; see Admitted.
func Refusals(f *Facts, host Host) []Problem {
	var all []Problem
	for i := range f.Peers {
		_, problems := Admitted(&f.Peers[i], host)
		all = append(all, problems...)
	}
	return all
}

// nodeRules select what may follow the routes to peers. Pods do, by their source. What the node itself sends may have no source yet when it is routed,
// and a call of one of its ports has that of a caller anywhere: those are selected by destination, which is private, or a place that this cluster
// gave a peer outside of private ranges. So no route to a peer takes a node's packets to other addresses with it, whatever became a route.
func nodeRules(f *Facts, views []netip.Prefix) []dataplane.Rule {
	destinations := ipam.PrivateRanges()
	for _, view := range views {
		if !inside(ipam.PrivateRanges(), view) {
			destinations = append(destinations, view)
		}
	}
	// Before the one rule for every address that earlier versions had: the kernel would take that for one of these, and not let it come back.
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
