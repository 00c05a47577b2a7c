package conformance

import (
	"fmt"
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/dataplane"
)

// maximumName is the longest name of a chain, set or map that every kernel accepts. maximumLink is the longest name of a link. Both are in
// characters.
const (
	maximumName = 31
	maximumLink = 15
)

func (v *validator) table(t *dataplane.Table) {
	sets, maps, chains := map[string]bool{}, map[string]bool{}, map[string]dataplane.Chain{}
	for _, s := range t.Sets {
		v.check(!sets[s.Name] && isName(s.Name) && s.Name != dataplane.ReservedSet, "set "+s.Name, "the name is there twice, empty, reserved, too long or has other than letters, digits, _ and -")
		sets[s.Name] = true
		for _, p := range s.Elements {
			v.check(p.IsValid() && p.Addr().Is4() && (s.Intervals || p.IsSingleIP()), "set "+s.Name, fmt.Sprintf("%s is not an IPv4 address, or prefix in a set with intervals", p))
		}
	}
	for _, m := range t.Maps {
		v.check(!maps[m.Name] && !sets[m.Name] && isName(m.Name), "map "+m.Name, "the name is there twice, empty, reserved, too long or has other than letters, digits, _ and -")
		maps[m.Name] = true
		for k, value := range m.Elements {
			v.check(k.Is4() && value.Is4(), "map "+m.Name, fmt.Sprintf("%s : %s are not IPv4 addresses", k, value))
		}
	}
	for _, c := range t.Chains {
		_, twice := chains[c.Name]
		v.check(!twice && isName(c.Name), "chain "+c.Name, "the name is there twice, empty, reserved, too long or has other than letters, digits, _ and -")
		chains[c.Name] = c
	}
	for _, c := range t.Chains {
		v.chain(c)
		for _, r := range c.Rules {
			object := fmt.Sprintf("chain %s, rule %q", c.Name, r)
			v.rule(object, r, c)
			for _, s := range []string{r.Match.Source.Set, r.Match.Destination.Set, r.Match.QuotedSource.Set, r.Match.QuotedDestination.Set} {
				v.check(s == "" || sets[s], object, fmt.Sprintf("there is no set %q", s))
			}
			v.check(r.Rewrite.Map == "" || maps[r.Rewrite.Map], object, fmt.Sprintf("there is no map %q", r.Rewrite.Map))
			if next, found := chains[r.Chain]; r.Verdict == dataplane.Jump {
				v.check(found && next.Hook == dataplane.NoHook && !reaches(chains, r.Chain, c.Name, len(chains)), object, "the chain to jump to is missing, listens at a hook or leads back here")
			}
		}
	}
}

// reaches reports whether jumps lead from one chain to another. It also reports true for paths of more than depth jumps.
func reaches(chains map[string]dataplane.Chain, from, to string, depth int) bool {
	if from == to || depth == 0 {
		return true
	}
	return slices.ContainsFunc(chains[from].Rules, func(r dataplane.FilterRule) bool {
		return r.Verdict == dataplane.Jump && reaches(chains, r.Chain, to, depth-1)
	})
}

func (v *validator) chain(c dataplane.Chain) {
	object := "chain " + c.Name
	switch c.Hook {
	case dataplane.NoHook:
		v.check(!c.NAT && !c.Drop && c.Priority == 0, object, "only a chain with a hook has type, priority and policy")
	case dataplane.Prerouting, dataplane.Input, dataplane.Forward, dataplane.Output, dataplane.Postrouting:
	default:
		v.check(false, object, fmt.Sprintf("hook %q is not known", c.Hook))
	}
	v.check(!c.NAT || c.Hook != dataplane.Forward && c.Priority > -200, object, "no NAT at forward, nor before connection tracking (priority -200)")
}

func (v *validator) rule(object string, r dataplane.FilterRule, c dataplane.Chain) {
	m := r.Match
	v.check(r.Foreign == "", object, "a foreign rule can't be wanted")
	for _, n := range []dataplane.LinkName{m.InLink, m.OutLink} {
		v.check(len(n.Name) <= maximumLink && (n.Name != "" || !n.Not), object, "a link has no name or one of more than 15 characters")
	}
	for _, s := range []dataplane.Selector{m.Source, m.Destination, m.QuotedSource, m.QuotedDestination} {
		v.check(s.Set == "" || !s.Prefix.IsValid(), object, "a selector has both a set and a prefix")
		v.check(!s.Prefix.IsValid() || s.Prefix.Addr().Is4() && s.Prefix.Bits() > 0, object, "the prefix of a selector is not IPv4, or has every address")
		v.check(!s.Not || s.Set != "" || s.Prefix.IsValid(), object, "a selector of nothing can't be turned round")
	}
	switch m.Transport {
	case dataplane.AnyTransport, dataplane.TCP, dataplane.UDP, dataplane.ICMP:
	default:
		v.check(false, object, fmt.Sprintf("transport %q is not known", m.Transport))
	}
	v.check(m.DestinationPort == 0 || m.Transport == dataplane.TCP || m.Transport == dataplane.UDP, object, "a port needs transport tcp or udp")
	v.check(!m.SYN || m.Transport == dataplane.TCP, object, "SYN is of transport tcp")
	v.check(!m.ICMPError || m.Transport == dataplane.ICMP, object, "an ICMP error is of transport icmp")
	quotes := m.QuotedSource != dataplane.Selector{} || m.QuotedDestination != dataplane.Selector{} || r.Rewrite.Field == dataplane.QuotedSourceField || r.Rewrite.Field == dataplane.QuotedDestinationField
	v.check(!quotes || m.ICMPError, object, "only an ICMP error quotes a packet")
	v.check(r.ClampMSS == 0 || m.SYN, object, "clamping the MSS needs SYN")
	v.rewrite(object, r.Rewrite)
	v.verdict(object, r, c)
}

func (v *validator) rewrite(object string, r dataplane.Rewrite) {
	switch r.Field {
	case dataplane.NoField:
		v.check(r == dataplane.Rewrite{}, object, "a rewrite has no field")
	case dataplane.SourceField, dataplane.DestinationField, dataplane.QuotedSourceField, dataplane.QuotedDestinationField:
		v.check((r.Map == "") == r.To.IsValid(), object, "a rewrite needs either a prefix or a map")
		v.check(r.Map != "" || r.To == r.To.Masked() && r.To.Addr().Is4() && r.To.Bits() > 0, object, "the prefix of a rewrite is not a masked IPv4 prefix of at least one bit")
	default:
		v.check(false, object, fmt.Sprintf("field %q is not known", r.Field))
	}
}

func (v *validator) verdict(object string, r dataplane.FilterRule, c dataplane.Chain) {
	switch r.Verdict {
	case dataplane.NextRule, dataplane.Accept, dataplane.Drop, dataplane.Return, dataplane.Jump:
	case dataplane.KeepSource, dataplane.ToSource, dataplane.Masquerade:
		v.check(c.NAT && c.Hook == dataplane.Postrouting, object, "translating the source needs a NAT chain at postrouting")
	default:
		v.check(false, object, fmt.Sprintf("verdict %q is not known", r.Verdict))
	}
	v.check((r.Verdict == dataplane.Jump) == (r.Chain != ""), object, "a chain goes with a jump")
	v.check((r.Verdict == dataplane.ToSource) == (r.Address != netip.Addr{}) && (r.Verdict != dataplane.ToSource || r.Address.Is4()), object, "an IPv4 address goes with a translation of the source")
}

// isName reports whether nft can parse the name.
func isName(s string) bool {
	letter := func(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	return s != "" && len(s) <= maximumName && letter(s[0]) && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return !letter(c) && c != '-' && (c < '0' || c > '9')
	})
}
