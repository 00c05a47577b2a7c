package dataplane_test

import (
	"net/netip"
	"strings"
	"testing"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
)

var own = dataplane.Ours()

func TestValidateNamesWhatIsWrong(t *testing.T) {
	rule := func(s *dataplane.State) *dataplane.FilterRule { return &s.Table.Chains[0].Rules[0] }
	for want, change := range map[string]func(s *dataplane.State){
		"the link is not ours":                     func(s *dataplane.State) { s.Links[1].Name = "eth0" },
		"the MTU is not between 576 and 65535":     func(s *dataplane.State) { s.Links[1].MTU = 100 },
		"the VNI is not between":                   func(s *dataplane.State) { s.Links[1].VNI = 1 << 24 },
		"the local address is not IPv4":            func(s *dataplane.State) { s.Links[1].Local = netip.IPv6Loopback() },
		"the MAC is none of a single host":         func(s *dataplane.State) { s.Links[1].MAC[0] = 1 },
		"there is another link of that name":       func(s *dataplane.State) { s.Links[0].Name, s.Links[0].Kind = s.Links[1].Name, s.Links[1].Kind },
		`link "eth1" is not in the state`:          func(s *dataplane.State) { s.Routes[0].Link = "eth1" },
		"there is another neighbour":               func(s *dataplane.State) { s.Neighbours = append(s.Neighbours, s.Neighbours[0]) },
		"the destination is not a masked":          func(s *dataplane.State) { s.Routes[0].Destination = netip.MustParsePrefix("10.200.0.1/16") },
		"an unreachable route has nothing but":     func(s *dataplane.State) { s.Routes[0].Type = dataplane.Unreachable },
		"the table is not ours; use one of":        func(s *dataplane.State) { s.Rules[0].Table = 254 },
		"there is another route":                   func(s *dataplane.State) { s.Routes = append(s.Routes, s.Routes[0]) },
		"the priority is not between":              func(s *dataplane.State) { s.Rules[0].Priority = 40000 },
		"the private key is missing":               func(s *dataplane.State) { s.WireGuard[0].PrivateKey = dataplane.PrivateKey{} },
		"another peer has 10.200.0.0/16 too":       func(s *dataplane.State) { s.WireGuard[0].Peers[1].AllowedIPs = prefixes("10.200.0.0/16") },
		"the keepalive is not a number of":         func(s *dataplane.State) { s.WireGuard[0].Peers[0].Keepalive = 1500 },
		`the table is not ours; use "liqo"`:        func(s *dataplane.State) { s.Table.Name = "nat" },
		"10.200.1.0/24 is not an IPv4 address, or": func(s *dataplane.State) { s.Table.Sets[0].Intervals = false },
		"the name is there twice":                  func(s *dataplane.State) { s.Table.Sets[1].Name = s.Table.Sets[0].Name },
		`there is no set "nobody"`:                 func(s *dataplane.State) { rule(s).Match.Source.Set = "nobody" },
		`there is no map "nobody"`:                 func(s *dataplane.State) { s.Table.Chains[1].Rules[1].Rewrite.Map = "nobody" },
		"leads back here": func(s *dataplane.State) {
			s.Table.Chains[1].Rules[0].Verdict, s.Table.Chains[1].Rules[0].Chain = dataplane.Jump, "out"
		},
		"a port needs transport":             func(s *dataplane.State) { rule(s).Match.Transport = "" },
		"only an ICMP error quotes a packet": func(s *dataplane.State) { rule(s).Match.QuotedSource.Set = "members" },
		"clamping the MSS needs SYN":         func(s *dataplane.State) { rule(s).ClampMSS = 1300 },
		"translating the source needs a NAT": func(s *dataplane.State) { rule(s).Verdict = dataplane.Masquerade },
		"a selector has both":                func(s *dataplane.State) { rule(s).Match.Source.Prefix = netip.MustParsePrefix("10.0.0.0/8") },
		"no NAT at forward":                  func(s *dataplane.State) { s.Table.Chains[2].NAT = true },
		"only a chain with a hook":           func(s *dataplane.State) { s.Table.Chains[1].Drop = true },
	} {
		t.Run(want, func(t *testing.T) {
			s := gateway()
			change(&s)
			if err := conformance.Validate(s, own); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}
