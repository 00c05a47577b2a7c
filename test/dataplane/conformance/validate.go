package conformance

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// minimumMTU is the minimum MTU of IPv4 in bytes (RFC 791): every host accepts packets of this size.
const minimumMTU = 576

// Validate returns an error for each object of a wanted state that is invalid. Each error names the object, the value and what would be
// valid. If Validate accepts a state, a kernel accepts it too. Read then returns it unchanged, and Diff finds no difference.
func Validate(want dataplane.State, own dataplane.Ownership) error {
	v := validator{own: own}
	names := map[string]bool{}
	for _, l := range want.Links {
		v.link(l)
		v.check(!names[l.Name], l, "there is another link of that name; names are unique")
		names[l.Name] = true
	}
	linked := func(object fmt.Stringer, link string) {
		v.check(names[link], object, fmt.Sprintf("link %q is not in the state; add it", link))
	}
	for _, a := range want.Addresses {
		linked(a, a.Link)
		v.check(a.Prefix.IsValid() && a.Prefix.Addr().Is4(), a, "the address is not IPv4")
	}
	v.neighbours(want.Neighbours, linked)
	v.wireguard(dataplane.Canonical(want).WireGuard, names)
	targets := map[routeKey]bool{}
	for _, r := range want.Routes {
		v.route(r)
		if r.Type == dataplane.Unicast {
			linked(r, r.Link)
		}
		v.check(!targets[routeKey{r.Table, r.Destination}], r, "there is another route to that destination in that table")
		targets[routeKey{r.Table, r.Destination}] = true
	}
	for _, r := range want.Rules {
		v.check(slices.Contains(own.Tables, r.Table), r, fmt.Sprintf("the table is not ours; use one of %v", own.Tables))
		v.check(r.Priority > 0 && r.Priority < 32766, r, "the priority is not between 1 and 32765")
		v.check(r.Foreign == "", r, "a foreign rule can't be wanted")
		for _, p := range []netip.Prefix{r.Source, r.Destination} {
			v.check(p == netip.Prefix{} || p.IsValid() && p.Addr().Is4() && p == p.Masked() && p.Bits() > 0, r, "a prefix is not a masked IPv4 one of at least one bit")
		}
	}
	if want.Table != nil {
		v.check(want.Table.Name == own.Table && want.Table.Foreign == "", want.Table.Name, fmt.Sprintf("the table is not ours; use %q", own.Table))
		v.table(dataplane.Canonical(want).Table)
	}
	return errors.Join(v.errs...)
}

// routeKey identifies a route: no two routes have the same key.
type routeKey struct {
	table       int
	destination netip.Prefix
}

type validator struct {
	own  dataplane.Ownership
	errs []error
}

func (v *validator) check(ok bool, object any, problem string) {
	if !ok {
		v.errs = append(v.errs, fmt.Errorf("%v: %s", object, problem))
	}
}

func (v *validator) link(l dataplane.Link) {
	v.check(l.MTU >= minimumMTU && l.MTU <= 65535, l, fmt.Sprintf("the MTU is not between %d and 65535", minimumMTU))
	v.check(!l.Down && l.Foreign == "", l, "a link is wanted up and as we make it")
	switch {
	case l.Kind == dataplane.VXLAN && l.Name == v.own.Overlay && l.Name != "":
		v.check(l.VNI > 0 && l.VNI < 1<<24, l, "the VNI is not between 1 and 16777215")
		v.check(l.Port != 0, l, "the UDP port is missing")
		v.check(l.Local.Is4(), l, "the local address is not IPv4")
		v.check(l.MAC != dataplane.MAC{} && l.MAC[0]&1 == 0, l, "the MAC is none of a single host")
	case l.Kind == dataplane.Tunnel && l.Name == v.own.Tunnel && l.Name != "":
		v.check(l == dataplane.Link{Name: l.Name, Kind: dataplane.Tunnel, MTU: l.MTU}, l, "a tunnel link has a name and an MTU only")
	default:
		v.check(false, l, fmt.Sprintf("the link is not ours; use vxlan %q or wireguard %q", v.own.Overlay, v.own.Tunnel))
	}
}

func (v *validator) neighbours(list []dataplane.Neighbour, linked func(fmt.Stringer, string)) {
	hops, macs := map[netip.Addr]bool{}, map[dataplane.MAC]bool{}
	for _, n := range list {
		linked(n, n.Link)
		v.check(n.Link == v.own.Overlay, n, fmt.Sprintf("only %q has neighbours", v.own.Overlay))
		v.check(n.IP.Is4() && n.Underlay.Is4(), n, "the addresses are not both IPv4")
		v.check(n.MAC != dataplane.MAC{} && n.MAC[0]&1 == 0, n, "the MAC is none of a single host")
		v.check(!hops[n.IP] && !macs[n.MAC], n, "there is another neighbour of that address or MAC")
		hops[n.IP], macs[n.MAC] = true, true
	}
}

func (v *validator) wireguard(list []dataplane.WireGuard, links map[string]bool) {
	for i, w := range list {
		v.check(w.Link == v.own.Tunnel && links[w.Link] && i == 0, w.Link, fmt.Sprintf("the one WireGuard device is %q, and its link is in the state", v.own.Tunnel))
		v.check(w.PrivateKey != dataplane.PrivateKey{}, w.Link, "the private key is missing")
		keys, allowed := map[dataplane.PublicKey]bool{}, map[netip.Prefix]bool{}
		for _, p := range w.Peers {
			named := dataplane.DevicePeer{Link: w.Link, Peer: p}
			v.check(p.PublicKey != dataplane.PublicKey{} && !keys[p.PublicKey], named, "the public key is missing or there twice")
			keys[p.PublicKey] = true
			v.check(p.Keepalive >= 0 && p.Keepalive%time.Second == 0 && p.Keepalive <= 65535*time.Second, named, "the keepalive is not a number of seconds up to 65535")
			for _, a := range p.AllowedIPs {
				v.check(a.IsValid() && a.Addr().Is4(), named, "an allowed prefix is not IPv4")
				v.check(!allowed[a], named, fmt.Sprintf("another peer has %s too", a))
				allowed[a] = true
			}
		}
	}
}

func (v *validator) route(r dataplane.Route) {
	v.check(slices.Contains(v.own.Tables, r.Table), r, fmt.Sprintf("the table is not ours; use one of %v", v.own.Tables))
	v.check(r.Destination.IsValid() && r.Destination.Addr().Is4() && r.Destination == r.Destination.Masked(), r, "the destination is not a masked IPv4 prefix")
	v.check(r.Foreign == "", r, "a foreign route can't be wanted")
	switch r.Type {
	case dataplane.Unicast:
		v.check(!r.Via.IsValid() || r.Via.Is4(), r, "the next hop is not IPv4")
		v.check(!r.OnLink || r.Via.IsValid(), r, "onlink needs a next hop")
		v.check(!r.Source.IsValid() || r.Source.Is4(), r, "the source is not IPv4")
		v.check(r.MTU == 0 || r.MTU >= minimumMTU && r.MTU <= 65535, r, fmt.Sprintf("the MTU is not between %d and 65535", minimumMTU))
	case dataplane.Unreachable:
		v.check(r == dataplane.Route{Table: r.Table, Destination: r.Destination, Type: dataplane.Unreachable}, r, "an unreachable route has nothing but a destination")
	default:
		v.check(false, r, "the type is not known")
	}
}
