package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
)

// tableRoutes returns the routes of the given tables as the netlink library represents them.
func (k *Kernel) tableRoutes(tables ...int) ([]netlink.Route, error) {
	return retryDump(func() (out []netlink.Route, err error) {
		// The kernel dumps the routes of all tables, whichever table the request names.
		err = k.handle.RouteListFilteredIter(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if slices.Contains(tables, r.Table) {
				out = append(out, r)
			}
			return true
		})
		return out, err
	})
}

func (k *Kernel) readRoutes(s *dataplane.State, own dataplane.Ownership) error {
	routes, err := k.tableRoutes(own.Tables...)
	if err != nil {
		return err
	}
	names := map[int]string{}
	s.Routes = make([]dataplane.Route, 0, len(routes))
	for _, r := range routes {
		s.Routes = append(s.Routes, k.route(r, names))
	}
	return nil
}

// route converts a route of the kernel. It encodes the result again and compares it with the original. If the original has other
// attributes, Foreign describes it.
func (k *Kernel) route(r netlink.Route, names map[int]string) dataplane.Route {
	out := dataplane.Route{Table: r.Table, Destination: prefix(r.Dst)}
	switch r.Type {
	case unix.RTN_UNREACHABLE:
		out.Type = dataplane.Unreachable
	default:
		out.Link = k.nameOf(r.LinkIndex, names)
		out.Via, out.Source, out.MTU = address(r.Gw), address(r.Src), r.MTU
		out.OnLink = r.Flags&int(netlink.FLAG_ONLINK) != 0
	}
	again := encodeRoute(out, r.LinkIndex)
	is := r
	is.Flags &= int(netlink.FLAG_ONLINK)
	is.Family = 0
	more := r.MTULock || r.Window+r.Rtt+r.RttVar+r.Ssthresh+r.Cwnd+r.AdvMSS+r.Reordering+r.Hoplimit+r.InitCwnd+r.Features+r.RtoMin+r.InitRwnd+r.QuickACK+r.FastOpenNoCookie != 0 || r.Congctl != ""
	if more || is.MTU != again.MTU || !is.Equal(*again) {
		out.Foreign = fmt.Sprintf("proto %d scope %d metric %d tos %d type %d %s", r.Protocol, r.Scope, r.Priority, r.Tos, r.Type, r)
	}
	return out
}

// nameOf returns the name of the link with an index. It caches the names in names.
func (k *Kernel) nameOf(index int, names map[int]string) string {
	name, known := names[index]
	if known || index == 0 {
		return name
	}
	if link, err := k.handle.LinkByIndex(index); err == nil {
		name = link.Attrs().Name
	} else {
		name = fmt.Sprint("#", index)
	}
	names[index] = name
	return name
}

func encodeRoute(r dataplane.Route, link int) *netlink.Route {
	out := &netlink.Route{Table: r.Table, Dst: network(r.Destination), Protocol: dataplane.Protocol, Type: unix.RTN_UNREACHABLE}
	if r.Type == dataplane.Unreachable {
		return out
	}
	out.Type, out.LinkIndex, out.MTU = unix.RTN_UNICAST, link, r.MTU
	if r.Via.IsValid() {
		out.Gw = r.Via.AsSlice()
	} else {
		out.Scope = netlink.SCOPE_LINK
	}
	if r.Source.IsValid() {
		out.Src = r.Source.AsSlice()
	}
	if r.OnLink {
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	return out
}

func (k *Kernel) setRoute(r dataplane.Route) error {
	index := 0
	if r.Type == dataplane.Unicast {
		link, err := k.requireLink(r.Link)
		if err != nil {
			return err
		}
		index = link.Attrs().Index
	}
	return k.handle.RouteReplace(encodeRoute(r, index))
}

// deleteRoute deletes exactly this route. It first looks up a foreign route, to name all its attributes in the request.
func (k *Kernel) deleteRoute(r dataplane.Route) error {
	if r.Foreign == "" {
		index := 0
		if r.Type == dataplane.Unicast {
			link, err := k.find(r.Link)
			if err != nil || link == nil {
				return err
			}
			index = link.Attrs().Index
		}
		return gone(k.handle.RouteDel(encodeRoute(r, index)))
	}
	routes, err := k.tableRoutes(r.Table)
	if err != nil {
		return err
	}
	names := map[int]string{}
	for _, is := range routes {
		if k.route(is, names) == r {
			if err := gone(k.handle.RouteDel(&is)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ourRules returns the rules that point to one of the tables and are marked with Liqo's protocol number.
func (k *Kernel) ourRules(tables ...int) ([]netlink.Rule, error) {
	rules, err := retryDump(func() ([]netlink.Rule, error) { return k.handle.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rules, func(r netlink.Rule) bool {
		return r.Protocol != dataplane.Protocol || !slices.Contains(tables, r.Table)
	}), nil
}

func (k *Kernel) readRules(s *dataplane.State, own dataplane.Ownership) error {
	rules, err := k.ourRules(own.Tables...)
	if err != nil {
		return err
	}
	for _, r := range rules {
		s.Rules = append(s.Rules, rule(r))
	}
	return nil
}

func rule(r netlink.Rule) dataplane.Rule {
	out := dataplane.Rule{Priority: r.Priority, InLink: r.IifName, Table: r.Table}
	if r.Src != nil {
		out.Source = prefix(r.Src)
	}
	if r.Dst != nil {
		out.Destination = prefix(r.Dst)
	}
	if r.Mark != 0 || r.Mask != nil || r.Tos != 0 || r.TunID != 0 || r.Goto > 0 || r.Flow > 0 || r.OifName != "" ||
		r.SuppressIfgroup >= 0 || r.SuppressPrefixlen >= 0 || r.Invert || r.Dport != nil || r.Sport != nil || r.IPProto != 0 || r.UIDRange != nil {
		r.Protocol = 0
		out.Foreign = fmt.Sprintf("%+v", r)
	}
	return out
}

func (k *Kernel) setRule(r dataplane.Rule) error {
	rules, err := k.ourRules(r.Table)
	if err != nil || slices.ContainsFunc(rules, func(is netlink.Rule) bool { return rule(is) == r }) {
		return err
	}
	wanted := netlink.NewRule()
	wanted.Family, wanted.Priority, wanted.IifName, wanted.Table, wanted.Protocol = netlink.FAMILY_V4, r.Priority, r.InLink, r.Table, dataplane.Protocol
	if r.Source.IsValid() {
		wanted.Src = network(r.Source)
	}
	if r.Destination.IsValid() {
		wanted.Dst = network(r.Destination)
	}
	err = k.handle.RuleAdd(wanted)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	// The kernel treats a rule without addresses as a duplicate of an existing rule with addresses, and does not add it. So delete the similar
	// rules first, and add them again after the new rule.
	similar := slices.DeleteFunc(rules, func(is netlink.Rule) bool { return is.Priority != r.Priority || is.IifName != r.InLink })
	for i := range similar {
		if err := gone(k.handle.RuleDel(&similar[i])); err != nil {
			return err
		}
	}
	for _, add := range append([]netlink.Rule{*wanted}, similar...) {
		if err := k.handle.RuleAdd(&add); err != nil {
			return fmt.Errorf("adding %q: %w", rule(add), err)
		}
	}
	return nil
}

// deleteRule deletes exactly this rule. A request cannot express "without such a condition", so the kernel may delete another rule of the
// same priority and table instead. deleteRule then adds that rule again.
func (k *Kernel) deleteRule(r dataplane.Rule) error {
	for {
		rules, err := k.ourRules(r.Table)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rules, func(is netlink.Rule) bool { return rule(is) == r })
		if i < 0 {
			return nil
		}
		if err := gone(k.handle.RuleDel(&rules[i])); err != nil {
			return err
		}
		left, err := k.ourRules(r.Table)
		if err != nil {
			return err
		}
		for j, is := range rules {
			if j == i || slices.ContainsFunc(left, func(l netlink.Rule) bool { return rule(l) == rule(is) }) {
				continue
			}
			if err := k.handle.RuleAdd(&is); err != nil {
				return fmt.Errorf("restoring %q: %w", rule(is), err)
			}
		}
		if len(left) == len(rules) {
			return errors.New("the kernel did not delete the rule")
		}
	}
}
