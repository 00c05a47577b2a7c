package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"liqo.io/liqo/internal/ipam"
)

// Translation converts addresses between this cluster and one peer, in the same way as gateways translate packets. It is for addresses in objects,
// such as pods and endpoints, and for explanations.
//
// A wire address is an address as it appears inside the tunnel: the address of a pod in its own cluster, or an address of its cluster's external
// CIDR. A view is the address under which a cluster sees a wire address of its peer.
type Translation struct {
	// ClusterID is the ID of the peer.
	ClusterID string
	// Pods and External map the prefixes of the peer to this cluster's views of them.
	Pods, External []ipam.Remap

	ours       []netip.Prefix
	toExternal map[netip.Addr]netip.Addr
	toReal     map[netip.Addr]netip.Addr
}

// Translation returns the translation between this cluster and a peer; false if the peer is unknown or not complete.
func (f *Facts) Translation(clusterID string) (Translation, bool) {
	p, ok := f.Peer(clusterID)
	if !ok {
		return Translation{}, false
	}
	return newTranslation(clusterID, p.Pods, p.External, f.Pods, f.Exposed), true
}

func newTranslation(clusterID string, pods, external []ipam.Remap, ours []netip.Prefix, exposed []Exposed) Translation {
	t := Translation{ClusterID: clusterID, Pods: pods, External: external, ours: ours,
		toExternal: make(map[netip.Addr]netip.Addr, len(exposed)), toReal: make(map[netip.Addr]netip.Addr, len(exposed))}
	for _, e := range exposed {
		t.toExternal[e.Real] = e.External
		t.toReal[e.External] = e.Real
	}
	return t
}

// ToView returns the view of an address that the peer reports: the address of a pod of the peer, or one of its external CIDR. It returns an
// error for every other address, because a peer must not name an address that is not its own.
func (t Translation) ToView(reported netip.Addr) (netip.Addr, error) {
	if why := ipam.Special(reported); why != "" {
		return netip.Addr{}, fmt.Errorf("translating address %s reported by cluster %q: it is %s", reported, t.ClusterID, why)
	}
	for _, r := range t.remaps() {
		if view, ok := r.ToView(reported); ok {
			return view, nil
		}
	}
	why := ""
	if contains(t.ours, reported) {
		why = ", but in one of our own pod CIDRs"
	}
	return netip.Addr{}, fmt.Errorf("translating address %s reported by cluster %q: it is not in a range of that cluster (%s)%s: compare spec.remote.cidr of Configuration %q with the Networks of that cluster",
		reported, t.ClusterID, prefixes(t.remaps(), false), why, t.ClusterID)
}

// ToReal returns the peer's own address for a view.
func (t Translation) ToReal(view netip.Addr) (netip.Addr, error) {
	for _, r := range t.remaps() {
		if real, ok := r.ToReal(view); ok {
			return real, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("translating address %s for cluster %q: it is not in the range under which that cluster is seen here (%s)", view, t.ClusterID, prefixes(t.remaps(), true))
}

// ToWire returns the address that peers must use for an address of this cluster. Addresses of pods stay as they are. For others, it is the
// address under which an IP object exposes them. It returns an error if there is none.
func (t Translation) ToWire(own netip.Addr) (netip.Addr, error) {
	if contains(t.ours, own) {
		return own, nil
	}
	if external, ok := t.toExternal[own]; ok {
		return external, nil
	}
	return netip.Addr{}, fmt.Errorf("translating address %s for cluster %q: it is not the address of a pod of this cluster (pod CIDRs: %s), and no IP object exposes it: create one with spec.ip %s, or wait for its status.ip",
		own, t.ClusterID, join(t.ours), own)
}

// FromWire returns the address of this cluster that a wire address stands for: the inverse of ToWire.
func (t Translation) FromWire(wire netip.Addr) (netip.Addr, error) {
	if contains(t.ours, wire) {
		return wire, nil
	}
	if real, ok := t.toReal[wire]; ok {
		return real, nil
	}
	return netip.Addr{}, fmt.Errorf("translating address %s that cluster %q calls: it is neither the address of a pod of this cluster (pod CIDRs: %s) nor status.ip of an IP object", wire, t.ClusterID, join(t.ours))
}

func (t Translation) remaps() []ipam.Remap { return slices.Concat(t.Pods, t.External) }

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// inside reports whether one of the prefixes covers all of p.
func inside(prefixes []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) })
}

func overlaps(prefixes []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, p.Overlaps)
}

func prefixes(remaps []ipam.Remap, views bool) string {
	var all []netip.Prefix
	for _, r := range remaps {
		all = append(all, either(views, r.View, r.Real))
	}
	return join(all)
}

func join[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.String()
	}
	return strings.Join(texts, ", ")
}
