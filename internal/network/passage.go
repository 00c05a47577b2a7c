package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Packet is what of a packet the plans of hosts look at.
type Packet struct {
	Source, Destination netip.Addr
	Transport           dataplane.Transport
	// Port is the destination port.
	Port uint16
	// SYN tells that it opens a TCP connection.
	SYN bool
	// Quoted is the packet that an ICMP error is about; nil for all other packets.
	Quoted *Quoted
}

// Quoted is the beginning of a packet inside an ICMP error.
type Quoted struct {
	Source, Destination netip.Addr
}

func (p Packet) String() string {
	text := fmt.Sprintf("%s > %s", p.Source, p.Destination)
	if p.Quoted != nil {
		text += fmt.Sprintf(" (about %s > %s)", p.Quoted.Source, p.Quoted.Destination)
	}
	return text
}

// Answer is the packet that answers this one.
func (p Packet) Answer() Packet {
	return Packet{Source: p.Destination, Destination: p.Source, Transport: p.Transport}
}

// Error is the ICMP error with which the destination refuses the packet.
func (p Packet) Error() Packet {
	return Packet{Source: p.Destination, Destination: p.Source, Transport: dataplane.ICMP, Quoted: &Quoted{p.Source, p.Destination}}
}

// Step is one thing that happened to a packet on a host.
type Step struct {
	// By is the rule or the route, as nft and ip would say it, or whoever else did it in words.
	By            string
	Before, After Packet
}

// Pass is what becomes of a packet that a host with this plan, and these addresses of its own, forwards: how it leaves, and by which link. It
// is false for packets that are dropped or for the host itself.
func Pass(state *dataplane.State, packet Packet, in string, own ...netip.Addr) (out Packet, link string, ok bool) {
	p := &passage{state: state, packet: packet, in: in, fresh: true}
	ok = p.through(own...)
	return p.packet, p.out, ok
}

// passage is a packet on its way through the plan of one host. It does what a kernel does with these rules, and knows nothing of what they
// are for.
type passage struct {
	state   *dataplane.State
	packet  Packet
	in, out string
	// fresh says that the packet opens a connection, translated that a service's address was replaced in it.
	fresh, translated bool
	steps             []Step
}

// through goes from one link to another, without the chains that translate connections.
func (p *passage) through(own ...netip.Addr) bool {
	if !p.filter(dataplane.Prerouting) || slices.Contains(own, p.packet.Destination) || slices.Contains(own, p.packet.Source) {
		return false // it is for the host itself, or a lie
	}
	route, ok := p.route()
	return ok && route.Type == dataplane.Unicast && p.filter(dataplane.Forward) && p.filter(dataplane.Postrouting)
}

// filter runs the filter chains of a hook; false if they drop the packet.
func (p *passage) filter(hook dataplane.Hook) bool {
	if p.state.Table == nil {
		return true
	}
	chains := slices.Clone(p.state.Table.Chains)
	slices.SortStableFunc(chains, func(a, b dataplane.Chain) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, c := range chains {
		if c.Hook != hook || c.NAT {
			continue
		}
		switch rule, verdict := p.chain(c.Name, 0); {
		case verdict == dataplane.Drop:
			p.note(fmt.Sprintf("chain %s: %s", c.Name, rule), p.packet)
			return false
		case verdict == dataplane.NextRule && c.Drop:
			p.note(fmt.Sprintf("chain %s: policy drop", c.Name), p.packet)
			return false
		}
	}
	return true
}

// translate runs the chains that translate sources. Only the first packet of a connection gets there.
func (p *passage) translate(link netip.Addr) {
	if p.state.Table == nil || !p.fresh {
		return
	}
	for _, c := range p.state.Table.Chains {
		if !c.NAT || c.Hook != dataplane.Postrouting {
			continue
		}
		before := p.packet
		rule, verdict := p.chain(c.Name, 0)
		switch verdict {
		case dataplane.ToSource:
			p.packet.Source = rule.Address
		case dataplane.Masquerade:
			p.packet.Source = link
		}
		if p.packet != before {
			p.note(fmt.Sprintf("chain %s: %s", c.Name, rule), before)
		}
	}
}

// chain runs a chain until a rule decides, and returns that rule.
func (p *passage) chain(name string, depth int) (dataplane.FilterRule, dataplane.Verdict) {
	i := slices.IndexFunc(p.state.Table.Chains, func(c dataplane.Chain) bool { return c.Name == name })
	if i < 0 || depth > 8 {
		return dataplane.FilterRule{}, dataplane.NextRule
	}
	for _, rule := range p.state.Table.Chains[i].Rules {
		if !p.matches(rule.Match) || !p.rewrite(name, rule) {
			continue
		}
		switch rule.Verdict {
		case dataplane.NextRule:
		case dataplane.Return:
			return rule, dataplane.NextRule
		case dataplane.Jump:
			if decided, verdict := p.chain(rule.Chain, depth+1); verdict != dataplane.NextRule {
				return decided, verdict
			}
		default:
			return rule, rule.Verdict
		}
	}
	return dataplane.FilterRule{}, dataplane.NextRule
}

func (p *passage) matches(m dataplane.Match) bool {
	icmpError := p.packet.Transport == dataplane.ICMP && p.packet.Quoted != nil
	switch {
	case m.InLink.Name != "" && (m.InLink.Name == p.in) == m.InLink.Not,
		m.OutLink.Name != "" && (m.OutLink.Name == p.out) == m.OutLink.Not,
		!p.selects(m.Source, p.packet.Source), !p.selects(m.Destination, p.packet.Destination),
		m.Transport != dataplane.AnyTransport && m.Transport != p.packet.Transport,
		m.DestinationPort != 0 && m.DestinationPort != p.packet.Port,
		m.SYN && !p.packet.SYN, m.ICMPError && !icmpError,
		m.Unasked && !p.fresh, m.DestinationTranslated && !p.translated:
		return false
	}
	if icmpError {
		return p.selects(m.QuotedSource, p.packet.Quoted.Source) && p.selects(m.QuotedDestination, p.packet.Quoted.Destination)
	}
	return m.QuotedSource == dataplane.Selector{} && m.QuotedDestination == dataplane.Selector{}
}

func (p *passage) selects(s dataplane.Selector, a netip.Addr) bool {
	switch {
	case s.Set != "":
		for _, set := range p.state.Table.Sets {
			if set.Name == s.Set {
				return contains(set.Elements, a) != s.Not
			}
		}
		return s.Not
	case s.Prefix.IsValid():
		return s.Prefix.Contains(a) != s.Not
	}
	return true
}

// rewrite does what the rule says; false if it ends there, because a map does not have the address.
func (p *passage) rewrite(chain string, rule dataplane.FilterRule) bool {
	before := p.packet
	if p.packet.Quoted != nil {
		quoted := *p.packet.Quoted
		p.packet.Quoted = &quoted
	}
	var field *netip.Addr
	switch r := rule.Rewrite; {
	case r.Field == dataplane.SourceField:
		field = &p.packet.Source
	case r.Field == dataplane.DestinationField:
		field = &p.packet.Destination
	case r.Field == dataplane.QuotedSourceField && p.packet.Quoted != nil:
		field = &p.packet.Quoted.Source
	case r.Field == dataplane.QuotedDestinationField && p.packet.Quoted != nil:
		field = &p.packet.Quoted.Destination
	default:
		return true
	}
	if name := rule.Rewrite.Map; name != "" {
		i := slices.IndexFunc(p.state.Table.Maps, func(m dataplane.AddressMap) bool { return m.Name == name })
		if i < 0 {
			return false
		}
		to, ok := p.state.Table.Maps[i].Elements[*field]
		if !ok {
			return false
		}
		*field = to
	} else {
		everything := netip.PrefixFrom(*field, rule.Rewrite.To.Bits()).Masked()
		*field, _ = ipam.Remap{Real: everything, View: rule.Rewrite.To}.ToView(*field)
	}
	p.note(fmt.Sprintf("chain %s: %s", chain, rule), before)
	return true
}

// route asks the rules and the tables, the longest prefix first; false if none of ours has a route.
func (p *passage) route() (dataplane.Route, bool) {
	rules := slices.Clone(p.state.Rules)
	slices.SortStableFunc(rules, func(a, b dataplane.Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, rule := range rules {
		if rule.InLink != "" && rule.InLink != p.in || rule.Source.IsValid() && !rule.Source.Contains(p.packet.Source) ||
			rule.Destination.IsValid() && !rule.Destination.Contains(p.packet.Destination) {
			continue
		}
		var best dataplane.Route
		for _, r := range p.state.Routes {
			if r.Table == rule.Table && r.Destination.Contains(p.packet.Destination) && (!best.Destination.IsValid() || r.Destination.Bits() > best.Destination.Bits()) {
				best = r
			}
		}
		if best.Destination.IsValid() {
			p.out = best.Link
			p.note(best.String(), p.packet)
			return best, true
		}
	}
	return dataplane.Route{}, false
}

func (p *passage) note(by string, before Packet) {
	p.steps = append(p.steps, Step{By: by, Before: before, After: p.packet})
}
