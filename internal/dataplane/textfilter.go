package dataplane

import (
	"fmt"
	"strings"
)

func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {%s\n", t.Name, line("", foreign(t.Foreign)))
	for _, s := range t.Sets {
		flags := ""
		if s.Intervals {
			flags = " flags interval;"
		}
		fmt.Fprintf(&b, "\tset %s { type ipv4_addr;%s elements = { %s } }\n", s.Name, flags, prefixes(s.Elements))
	}
	for _, m := range t.Maps {
		fmt.Fprintf(&b, "\tmap %s { type ipv4_addr : ipv4_addr; elements = { %s } }\n", m.Name, pairs(m.Elements))
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		if c.Hook != NoHook {
			kind, policy := "filter", "accept"
			if c.NAT {
				kind = "nat"
			}
			if c.Drop {
				policy = "drop"
			}
			fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy %s;\n", kind, c.Hook, c.Priority, policy)
		}
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// String returns the rule in the style of `nft list`, without the value of the counter.
func (r FilterRule) String() string {
	if r.Foreign != "" {
		return foreign(r.Foreign)
	}
	clamp := ""
	if r.ClampMSS != 0 {
		clamp = fmt.Sprint("tcp option maxseg size set ", r.ClampMSS)
	}
	return line(r.Match.String(), r.Rewrite.String(), clamp, flag("counter", r.Counter), r.verdict())
}

func (r FilterRule) verdict() string {
	switch r.Verdict {
	case Jump:
		return "jump " + r.Chain
	case KeepSource:
		return "snat to ip saddr"
	case ToSource:
		return "snat to " + r.Address.String()
	}
	return string(r.Verdict)
}

func (m Match) String() string {
	transport := ""
	switch {
	case m.ICMPError:
		transport = "icmp type { destination-unreachable, time-exceeded, parameter-problem }"
	case m.SYN:
		transport = "tcp flags syn / syn,rst"
	case m.Transport != AnyTransport && m.DestinationPort == 0:
		transport = "meta l4proto " + string(m.Transport)
	}
	if m.DestinationPort != 0 {
		transport = line(fmt.Sprintf("%s dport %d", m.Transport, m.DestinationPort), transport)
	}
	return line(m.InLink.text("iifname"), m.OutLink.text("oifname"), m.Source.text("ip saddr"), m.Destination.text("ip daddr"), transport,
		m.QuotedSource.text(quotedSource), m.QuotedDestination.text(quotedDestination),
		flag("ct state != established,related", m.NewOrInvalid), flag("ct status dnat", m.DestinationTranslated))
}

// Positions of the quoted packet's addresses: offset in bits from the start of the ICMP header, and length in bits.
const (
	quotedSource      = "@th,160,32"
	quotedDestination = "@th,192,32"
)

func negation(not bool) string {
	if not {
		return "!= "
	}
	return ""
}

func (n LinkName) text(field string) string {
	if n.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s %s%q", field, negation(n.Not), n.Name)
}

func (s Selector) text(field string) string {
	switch {
	case s.Set != "":
		return fmt.Sprintf("%s %s@%s", field, negation(s.Not), s.Set)
	case s.Prefix.IsValid():
		return fmt.Sprintf("%s %s%s", field, negation(s.Not), prefix(s.Prefix))
	}
	return ""
}

// String returns the rewriting statement in the style of nft.
func (r Rewrite) String() string {
	field := ""
	switch r.Field {
	case NoField:
		return ""
	case SourceField:
		field = "ip saddr"
	case DestinationField:
		field = "ip daddr"
	case QuotedSourceField:
		field = quotedSource
	case QuotedDestinationField:
		field = quotedDestination
	}
	if r.Map != "" {
		return fmt.Sprintf("%s set %s map @%s", field, field, r.Map)
	}
	return fmt.Sprintf("%s set %s into %s", field, field, r.To)
}
