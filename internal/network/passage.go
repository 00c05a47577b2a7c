package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/ipam"
)

// Packet holds the fields of a packet that the plans of hosts use.
type Packet struct {
	Source, Destination netip.Addr
	Transport           dataplane.Transport
	// Port is the destination port.
	Port uint16
	// SYN: the packet opens a TCP connection.
	SYN bool
	// Quoted is the packet that an ICMP error is about; nil for all other packets.
	Quoted *Quoted
}

// Quoted holds the addresses of the packet that an ICMP error quotes.
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

// Answer returns the packet that answers p.
func (p Packet) Answer() Packet {
	return Packet{Source: p.Destination, Destination: p.Source, Transport: p.Transport}
}

// Error returns the ICMP error with which the destination rejects p.
func (p Packet) Error() Packet {
	return Packet{Source: p.Destination, Destination: p.Source, Transport: dataplane.ICMP, Quoted: &Quoted{p.Source, p.Destination}}
}

// Step is one event of a packet on a host.
type Step struct {
	// By is the rule or the route, in the style of nft and ip, or a description of another cause.
	By            string
	Before, After Packet
}

// Pass returns how a host that applies this plan forwards a packet: the packet that leaves, and its link. The packet arrives on link in. The argument own has
// the host's own addresses. ok is false if the host drops the packet or is its destination.
func Pass(state *dataplane.State, packet Packet, in string, own ...netip.Addr) (out Packet, link string, ok bool) {
	p := &passage{state: state, packet: packet, in: in, fresh: true}
	ok = p.through(own...)
	return p.packet, p.out, ok
}

// passage is a packet on its way through the plan of one host. It evaluates the rules as a kernel would, without knowing their purpose.
type passage struct {
	state   *dataplane.State
	packet  Packet
	in, out string
	// fresh: the packet opens a connection. translated: the address of a Service was replaced in the packet.
	fresh, translated bool
	steps             []Step
}

// through forwards the packet from one link to another, without the NAT chains. It returns false if the packet is not forwarded.
func (p *passage) through(own ...netip.Addr) bool {
	if !p.filter(dataplane.Prerouting) || slices.Contains(own, p.packet.Destination) || slices.Contains(own, p.packet.Source) {
		return false // the packet is for the host itself, or its source is forged
	}
	route, ok := p.route()
	return ok && route.Type == dataplane.Unicast && p.filter(dataplane.Forward) && p.filter(dataplane.Postrouting)
}

// filter runs the filter chains of a hook. It returns false if they drop the packet.
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

// translate runs the NAT chains at postrouting. Only the first packet of a connection reaches them. link is the address that a masquerade
// uses.
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

// chain runs a chain until a rule gives a verdict, and returns that rule and verdict.
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
		m.NewOrInvalid && !p.fresh, m.DestinationTranslated && !p.translated:
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

// rewrite applies the rewrite of a rule. It returns false if the rule ends there because the map lacks the address.
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

// route finds the route in the plan: rules by priority, then the longest prefix. It returns false if the plan has no route for the packet.
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
