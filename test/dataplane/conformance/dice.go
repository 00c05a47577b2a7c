package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Dice generates random valid states of nodes and gateways. It draws values from small pools, so that they often collide.
type Dice struct {
	*rand.Rand
	own dataplane.Ownership
}

// NewDice returns a generator. The same seed gives the same states.
func NewDice(seed uint64, own dataplane.Ownership) Dice {
	return Dice{rand.New(rand.NewPCG(seed, 18952)), own}
}

func (d Dice) maybe() bool { return d.IntN(2) == 0 }

func (d Dice) addr() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(d.IntN(3)), 0, byte(1 + d.IntN(8))})
}

func (d Dice) prefix() netip.Prefix {
	p, _ := d.addr().Prefix([]int{8, 14, 16, 24, 30, 31, 32}[d.IntN(7)])
	return p
}

func (d Dice) prefixes(n int, single bool) []netip.Prefix {
	var out []netip.Prefix
	for range d.IntN(n + 1) {
		if single {
			out = append(out, netip.PrefixFrom(d.addr(), 32))
		} else {
			out = append(out, d.prefix())
		}
	}
	return out
}

// HostAddress is an address of every host of the suite, used as the source address of routes.
var HostAddress = netip.MustParseAddr("172.16.0.1")

func mac(a netip.Addr) dataplane.MAC {
	b := a.As4()
	return dataplane.MAC{2, 0x4c, b[0], b[1], b[2], b[3]}
}

// State returns a random state of a host, with or without a tunnel.
func (d Dice) State(tunnel bool) dataplane.State {
	var s dataplane.State
	if d.IntN(20) == 0 {
		return s
	}
	vxlan := dataplane.Link{Name: d.own.Overlay, Kind: dataplane.VXLAN, MTU: 1400 + 50*d.IntN(2), VNI: 18952, Port: 6091, Local: HostAddress, MAC: mac(HostAddress)}
	if d.IntN(8) == 0 {
		vxlan.Port++
	}
	s.Links = append(s.Links, vxlan)
	seen := map[netip.Addr]bool{}
	for range d.IntN(5) {
		if a := d.addr(); !seen[a] {
			seen[a] = true
			underlay := a
			if d.IntN(4) == 0 {
				underlay = a.Next()
			}
			s.Neighbours = append(s.Neighbours, dataplane.Neighbour{Link: vxlan.Name, IP: a, MAC: mac(a), Underlay: underlay})
		}
	}
	if tunnel {
		d.tunnel(&s)
	}
	d.routing(&s, tunnel)
	if d.IntN(8) > 0 {
		s.Table = d.table()
	}
	return s
}

func (d Dice) tunnel(s *dataplane.State) {
	s.Links = append(s.Links, dataplane.Link{Name: d.own.Tunnel, Kind: dataplane.Tunnel, MTU: 1300 + 40*d.IntN(2)})
	for i := range 2 {
		if d.IntN(3) > 0 {
			s.Addresses = append(s.Addresses, dataplane.Address{Link: d.own.Tunnel, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, byte(1 + i)}), 30)})
		}
	}
	w := dataplane.WireGuard{Link: d.own.Tunnel, PrivateKey: dataplane.PrivateKey{1, byte(1 + d.IntN(2))}, ListenPort: uint16(d.IntN(2) * 51820)}
	allowed := map[netip.Prefix]bool{}
	for i := range d.IntN(3) {
		p := dataplane.Peer{PublicKey: dataplane.PublicKey{byte(i + 1)}, Keepalive: time.Duration(d.IntN(2)) * 25 * time.Second}
		if d.maybe() {
			p.Endpoint = netip.AddrPortFrom(d.addr(), 51820)
		}
		for _, a := range d.prefixes(3, false) {
			if !allowed[a] {
				allowed[a] = true
				p.AllowedIPs = append(p.AllowedIPs, a)
			}
		}
		w.Peers = append(w.Peers, p)
	}
	s.WireGuard = append(s.WireGuard, w)
}

func (d Dice) routing(s *dataplane.State, tunnel bool) {
	seen := map[string]bool{}
	for range d.IntN(8) {
		r := dataplane.Route{Table: dataplane.OverlayTable + d.IntN(2), Destination: d.prefix()}
		if k := fmt.Sprint(r.Table, r.Destination); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		switch {
		case d.IntN(5) == 0:
			r.Type = dataplane.Unreachable
		case tunnel && len(s.Addresses) > 0 && d.maybe():
			r.Link = d.own.Tunnel
			if d.maybe() {
				r.Via = netip.MustParseAddr("169.254.18.2")
			}
		default:
			r.Link, r.Via, r.OnLink, r.MTU = d.own.Overlay, d.addr(), true, d.IntN(2)*1340
			if d.maybe() {
				r.Source = HostAddress
			}
		}
		s.Routes = append(s.Routes, r)
	}
	for range d.IntN(4) {
		r := dataplane.Rule{Priority: 900 + d.IntN(2), Table: dataplane.OverlayTable + d.IntN(2)}
		if d.maybe() {
			r.InLink = d.own.Overlay
		}
		if d.IntN(3) == 0 {
			r.Source = d.prefix()
		}
		if d.IntN(3) == 0 {
			r.Destination = d.prefix()
		}
		s.Rules = append(s.Rules, r)
	}
}

func (d Dice) table() *dataplane.Table {
	t := &dataplane.Table{Name: d.own.Table}
	t.Sets = append(t.Sets,
		dataplane.AddressSet{Name: "remotes", Intervals: true, Elements: d.prefixes(6, false)},
		dataplane.AddressSet{Name: "members", Elements: d.prefixes(6, true)})
	m := dataplane.AddressMap{Name: "real2ext", Elements: map[netip.Addr]netip.Addr{}}
	for range d.IntN(6) {
		m.Elements[d.addr()] = d.addr()
	}
	t.Maps = append(t.Maps, m)
	t.Chains = append(t.Chains, dataplane.Chain{Name: "out", Rules: d.rules(3)})
	base := dataplane.Chain{Name: "raw", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: d.rules(2)}
	base.Rules = append(base.Rules, dataplane.FilterRule{Match: dataplane.Match{InLink: dataplane.LinkName{Name: d.own.Overlay}}, Verdict: dataplane.Jump, Chain: "out"})
	nat := dataplane.Chain{Name: "nat", Hook: dataplane.Postrouting, NAT: true, Priority: dataplane.SourceNAT - 1, Drop: false}
	nat.Rules = append(nat.Rules, dataplane.FilterRule{Verdict: []dataplane.Verdict{dataplane.KeepSource, dataplane.Masquerade}[d.IntN(2)]},
		dataplane.FilterRule{Verdict: dataplane.ToSource, Address: d.addr()})
	t.Chains = append(t.Chains, base, nat)
	return t
}

func (d Dice) selector() dataplane.Selector {
	switch d.IntN(4) {
	case 0:
		return dataplane.Selector{Prefix: d.prefix(), Not: d.maybe()}
	case 1:
		return dataplane.Selector{Set: []string{"remotes", "members"}[d.IntN(2)], Not: d.maybe()}
	}
	return dataplane.Selector{}
}

// rules returns few different rules, so that tables often have equal structures.
func (d Dice) rules(n int) []dataplane.FilterRule {
	var out []dataplane.FilterRule
	if d.IntN(3) > 0 {
		n = 0
	}
	for range n {
		out = append(out, d.Rule())
	}
	return out
}

// Rule returns a random rule for a chain without a hook. It uses the sets remotes and members and the map real2ext.
func (d Dice) Rule() dataplane.FilterRule {
	r := dataplane.FilterRule{Counter: d.maybe(), Verdict: []dataplane.Verdict{dataplane.NextRule, dataplane.Accept, dataplane.Drop, dataplane.Return}[d.IntN(4)]}
	m := &r.Match
	m.Source, m.Destination = d.selector(), d.selector()
	m.NewOrInvalid, m.DestinationTranslated = d.IntN(4) == 0, d.IntN(4) == 0
	if d.maybe() {
		m.InLink = dataplane.LinkName{Name: d.own.Overlay, Not: d.maybe()}
	}
	if d.IntN(4) == 0 {
		m.OutLink = dataplane.LinkName{Name: d.own.Tunnel, Not: d.maybe()}
	}
	m.Transport = []dataplane.Transport{dataplane.AnyTransport, dataplane.TCP, dataplane.UDP, dataplane.ICMP}[d.IntN(4)]
	if m.Transport == dataplane.TCP || m.Transport == dataplane.UDP {
		m.DestinationPort = uint16(d.IntN(2) * 6091)
	}
	fields := []dataplane.Field{dataplane.SourceField, dataplane.DestinationField}
	switch {
	case m.Transport == dataplane.TCP && d.maybe():
		m.SYN, r.ClampMSS = true, uint16(d.IntN(2)*1300)
	case m.Transport == dataplane.ICMP && d.maybe():
		m.ICMPError, m.QuotedSource, m.QuotedDestination = true, d.selector(), d.selector()
		fields = append(fields, dataplane.QuotedSourceField, dataplane.QuotedDestinationField)
	}
	switch d.IntN(4) {
	case 0:
		r.Rewrite = dataplane.Rewrite{Field: fields[d.IntN(len(fields))], To: d.prefix()}
	case 1:
		r.Rewrite = dataplane.Rewrite{Field: fields[d.IntN(len(fields))], Map: "real2ext"}
	}
	return r
}
