package dataplane

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Text returns the canonical text of a state, with one line per object in the style of `ip` and `nft`. Equal states have equal texts.
// States that differ only in private keys have equal texts too, because Text hides these keys.
func Text(s State) string {
	s = Canonical(s)
	var b strings.Builder
	for _, l := range s.Links {
		fmt.Fprintln(&b, l)
	}
	for _, a := range s.Addresses {
		fmt.Fprintln(&b, a)
	}
	for _, n := range s.Neighbours {
		fmt.Fprintln(&b, n)
	}
	if s.Table != nil {
		fmt.Fprint(&b, s.Table)
	}
	for _, w := range s.WireGuard {
		fmt.Fprintln(&b, Device{Link: w.Link, PrivateKey: w.PrivateKey, ListenPort: w.ListenPort})
		for _, p := range w.Peers {
			fmt.Fprintln(&b, DevicePeer{Link: w.Link, Peer: p})
		}
	}
	for _, r := range s.Routes {
		fmt.Fprintln(&b, r)
	}
	for _, r := range s.Rules {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// line joins the words with spaces and leaves out empty ones.
func line(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// option returns the name and the value, or "" if the value is zero.
func option[T comparable](name string, value T) string {
	if value == *new(T) {
		return ""
	}
	return fmt.Sprint(name, " ", value)
}

func flag(name string, set bool) string {
	if set {
		return name
	}
	return ""
}

func foreign(words string) string {
	if words == "" {
		return ""
	}
	return "# " + words
}

func (l Link) String() string {
	var vxlan string
	if l.Kind == VXLAN {
		vxlan = line(fmt.Sprintf("id %d dstport %d", l.VNI, l.Port), option("local", l.Local), "nolearning", fmt.Sprint("address ", l.MAC))
	}
	return line(fmt.Sprintf("link %s type %s", l.Name, l.Kind), vxlan, option("mtu", l.MTU), flag("down", l.Down), foreign(l.Foreign))
}

func (a Address) String() string { return fmt.Sprintf("address %s dev %s", a.Prefix, a.Link) }

func (n Neighbour) String() string {
	return line("neighbour", option("ip", n.IP), fmt.Sprintf("lladdr %s dev %s", n.MAC, n.Link), option("dst", n.Underlay))
}

func (r Rule) String() string {
	from := "all"
	if r.Source.IsValid() {
		from = r.Source.String()
	}
	return line(fmt.Sprintf("rule %d:", r.Priority), "from "+from, option("to", r.Destination), option("iif", r.InLink), fmt.Sprint("lookup ", r.Table), foreign(r.Foreign))
}

func (r Route) String() string {
	destination := r.Destination.String()
	if r.Destination.IsValid() && r.Destination.Bits() == 0 {
		destination = "default"
	}
	return line("route", string(r.Type), destination, option("via", r.Via), option("dev", r.Link), flag("onlink", r.OnLink),
		option("src", r.Source), option("mtu", r.MTU), fmt.Sprint("table ", r.Table), foreign(r.Foreign))
}

func (d Device) String() string {
	return line("wireguard", d.Link, option("listen-port", d.ListenPort), fmt.Sprint("private-key ", d.PrivateKey))
}

func (p DevicePeer) String() string {
	endpoint := ""
	if p.Peer.Endpoint.IsValid() {
		endpoint = "endpoint " + p.Peer.Endpoint.String()
	}
	allowed := "(none)"
	if len(p.Peer.AllowedIPs) > 0 {
		allowed = prefixes(p.Peer.AllowedIPs)
	}
	return line(fmt.Sprintf("wireguard %s peer %s", p.Link, p.Peer.PublicKey), endpoint, "allowed-ips", allowed,
		option("persistent-keepalive", int(p.Peer.Keepalive.Seconds())))
}

func (e Elements) String() string {
	contents := func(word string, list []Content) (out []string) {
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s ip %s %s { %s }", word, e.Table, c.Name, c.text()))
		}
		return out
	}
	return strings.Join(append(contents("delete element", e.Delete), contents("add element", e.Add)...), "; ")
}

// shown is the maximum number of elements in the text of a change, which must fit on one line of the log.
const shown = 8

func (c Content) text() string {
	list := texts(c.Prefixes)
	if c.Pairs != nil {
		list = pairTexts(c.Pairs)
	}
	if len(list) > shown {
		list = append(list[:shown:shown], fmt.Sprintf("%d more", len(list)-shown))
	}
	return strings.Join(list, ", ")
}

func prefixes(list []netip.Prefix) string { return strings.Join(texts(list), ", ") }

func texts(list []netip.Prefix) []string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, prefix(p))
	}
	return out
}

// prefix returns the text of p, without the length if p is a single address.
func prefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func pairs(m map[netip.Addr]netip.Addr) string { return strings.Join(pairTexts(m), ", ") }

func pairTexts(m map[netip.Addr]netip.Addr) []string {
	keys := slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s : %s", k, m[k]))
	}
	return out
}

// String returns one line. Of a whole table it prints only the name.
func (c Change) String() string {
	word := "set "
	if c.Operation == Delete {
		word = "delete "
	}
	switch {
	case c.Link != nil:
		return word + c.Link.String()
	case c.Address != nil:
		return word + c.Address.String()
	case c.Neighbour != nil:
		return word + c.Neighbour.String()
	case c.Table != nil:
		return word + "table ip " + c.Table.Name
	case c.Elements != nil:
		return c.Elements.String()
	case c.Device != nil:
		return word + c.Device.String()
	case c.Peer != nil:
		return word + c.Peer.String()
	case c.Route != nil:
		return word + c.Route.String()
	case c.Rule != nil:
		return word + c.Rule.String()
	}
	return word + "nothing"
}
