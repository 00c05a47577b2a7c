package dataplane_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// gateway returns a state that contains every kind of object.
func gateway() dataplane.State {
	overlay, tunnel := dataplane.LinkName{Name: dataplane.OverlayLink}, dataplane.LinkName{Name: dataplane.TunnelLink}
	view := dataplane.Selector{Prefix: netip.MustParsePrefix("10.71.0.0/16")}
	return dataplane.State{
		Links: []dataplane.Link{
			{Name: dataplane.TunnelLink, Kind: dataplane.Tunnel, MTU: 1340},
			{Name: dataplane.OverlayLink, Kind: dataplane.VXLAN, MTU: 1350, VNI: 18952, Port: 6091, Local: addr("10.200.1.9"), MAC: dataplane.MAC{2, 0x4c, 10, 200, 1, 9}},
		},
		Addresses:  []dataplane.Address{{Link: dataplane.TunnelLink, Prefix: netip.MustParsePrefix("169.254.18.1/30")}},
		Neighbours: []dataplane.Neighbour{{Link: dataplane.OverlayLink, IP: addr("172.16.0.1"), MAC: dataplane.MAC{2, 0x4c, 172, 16, 0, 1}, Underlay: addr("172.16.0.1")}},
		WireGuard: []dataplane.WireGuard{{Link: dataplane.TunnelLink, PrivateKey: dataplane.PrivateKey{1}, ListenPort: 51820, Peers: []dataplane.Peer{
			{PublicKey: dataplane.PublicKey{2}, AllowedIPs: prefixes("169.254.18.2/32", "10.200.0.0/16"), Endpoint: netip.MustParseAddrPort("192.0.2.1:51820"), Keepalive: 25 * time.Second},
			{PublicKey: dataplane.PublicKey{3}},
		}}},
		Routes: []dataplane.Route{
			{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("10.200.0.0/16"), Via: addr("169.254.18.2"), Link: dataplane.TunnelLink},
			{Table: dataplane.OverlayTable, Destination: netip.MustParsePrefix("0.0.0.0/0"), Type: dataplane.Unreachable},
			{Table: dataplane.TunnelTable, Destination: netip.MustParsePrefix("10.200.1.0/24"), Via: addr("172.16.0.1"), Link: dataplane.OverlayLink, OnLink: true, Source: addr("10.200.1.9"), MTU: 1300},
		},
		Rules: []dataplane.Rule{{Priority: 18952, InLink: dataplane.OverlayLink, Table: dataplane.OverlayTable}, {Priority: 18953, InLink: dataplane.TunnelLink, Table: dataplane.TunnelTable},
			{Priority: 18954, Source: netip.MustParsePrefix("10.200.0.0/16"), Destination: netip.MustParsePrefix("10.0.0.0/8"), Table: dataplane.OverlayTable}},
		Table: &dataplane.Table{
			Name: dataplane.FilterTable,
			Sets: []dataplane.AddressSet{{Name: "pods", Intervals: true, Elements: prefixes("10.200.1.0/24", "10.200.0.0/24")}, {Name: "members", Elements: prefixes("172.16.0.1/32")}},
			Maps: []dataplane.AddressMap{{Name: "external", Elements: map[netip.Addr]netip.Addr{addr("172.16.0.1"): addr("10.70.0.1"), addr("10.9.0.1"): addr("10.70.0.2")}}},
			Chains: []dataplane.Chain{
				{Name: "check", Hook: dataplane.Prerouting, Priority: dataplane.Raw, Rules: []dataplane.FilterRule{
					{Match: dataplane.Match{Source: dataplane.Selector{Set: "members", Not: true}, Transport: dataplane.UDP, DestinationPort: 6091}, Counter: true, Verdict: dataplane.Drop},
					{Match: dataplane.Match{InLink: overlay}, Verdict: dataplane.Jump, Chain: "out"},
				}},
				{Name: "out", Rules: []dataplane.FilterRule{
					{Match: dataplane.Match{ICMPError: true, QuotedSource: view}, Rewrite: dataplane.Rewrite{Field: dataplane.QuotedSourceField, To: netip.MustParsePrefix("10.200.0.0/16")}},
					{Rewrite: dataplane.Rewrite{Field: dataplane.SourceField, Map: "external"}},
					{Match: dataplane.Match{Destination: view}, Rewrite: dataplane.Rewrite{Field: dataplane.DestinationField, To: netip.MustParsePrefix("10.200.0.0/16")}, Verdict: dataplane.Accept},
					{Match: dataplane.Match{Transport: dataplane.ICMP}, Verdict: dataplane.Return},
				}},
				{Name: "through", Hook: dataplane.Forward, Drop: true, Rules: []dataplane.FilterRule{
					{Match: dataplane.Match{SYN: true}, ClampMSS: 1300},
					{Match: dataplane.Match{InLink: overlay, OutLink: tunnel}, Verdict: dataplane.Accept},
				}},
				{Name: "source", Hook: dataplane.Postrouting, NAT: true, Priority: dataplane.SourceNAT - 1, Rules: []dataplane.FilterRule{
					{Match: dataplane.Match{OutLink: overlay, Source: dataplane.Selector{Set: "pods"}}, Verdict: dataplane.KeepSource},
					{Match: dataplane.Match{OutLink: dataplane.LinkName{Name: dataplane.OverlayLink, Not: true}, NewOrInvalid: true}, Verdict: dataplane.ToSource, Address: addr("172.16.0.1")},
					{Match: dataplane.Match{DestinationTranslated: true}, Verdict: dataplane.Masquerade},
				}},
			},
		},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it):\n%s", file, diff)
	}
}

func TestText(t *testing.T) {
	if err := conformance.Validate(gateway(), own); err != nil {
		t.Fatal(err)
	}
	golden(t, "gateway.txt", dataplane.Text(gateway()))
}

// TestOrderOfChanges shows the changes of an installation and of an uninstallation as a log does.
func TestOrderOfChanges(t *testing.T) {
	there := dataplane.State{Links: []dataplane.Link{{Name: dataplane.TunnelLink, Kind: dataplane.Tunnel, MTU: 1420, Down: true}}, WireGuard: []dataplane.WireGuard{{Link: dataplane.TunnelLink}}}
	var lines strings.Builder
	for _, c := range dataplane.Diff(there, gateway(), own) {
		fmt.Fprintln(&lines, c)
	}
	fmt.Fprintln(&lines)
	for _, c := range dataplane.Diff(gateway(), dataplane.State{}, own) {
		fmt.Fprintln(&lines, c)
	}
	golden(t, "changes.txt", lines.String())
}

func TestManyElementsAreOneShortLine(t *testing.T) {
	e := dataplane.Elements{Table: "liqo", Add: []dataplane.Content{{Name: "m", Pairs: map[netip.Addr]netip.Addr{}}}}
	a := addr("10.0.0.0")
	for range 1000 {
		e.Add[0].Pairs[a] = a
		a = a.Next()
	}
	if text := (dataplane.Change{Elements: &e}).String(); len(text) > 400 || !strings.HasSuffix(text, "992 more }") {
		t.Errorf("%d characters: %s", len(text), text)
	}
}

func TestPrivateKeysNeverPrint(t *testing.T) {
	secret := dataplane.PrivateKey{'s', 'e', 'c', 'r', 'e', 't', 7, 7, 7, 7}
	state := gateway()
	state.WireGuard[0].PrivateKey = secret
	change := dataplane.Change{Device: &dataplane.Device{Link: "l", PrivateKey: secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{secret, &secret, state, &state, state.WireGuard, change, *change.Device, []any{secret}, map[string]any{"k": secret}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, v := range []any{secret, state, state.WireGuard[0], change} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	if err := gob.NewEncoder(&out).Encode(state.WireGuard[0]); err != nil {
		t.Fatal(err)
	}
	out.WriteString(dataplane.Text(state) + secret.String() + secret.GoString())
	for _, form := range []string{string(secret[:6]), "736563726574", "115 101 99", "115,101,99", "0x73, 0x65", "c2VjcmV0", "[115"} {
		if strings.Contains(strings.ToLower(out.String()), strings.ToLower(form)) {
			t.Errorf("the key shows as %s", form)
		}
	}
}

// TestTextDistinguishesStates: two states have the same text exactly if there is no difference.
func TestTextDistinguishesStates(t *testing.T) {
	for seed := range uint64(3000) {
		a, b := conformance.NewDice(seed, own).State(true), conformance.NewDice(seed+seed%2, own).State(true)
		open := func(s *dataplane.State) { // removes from a state the values that a wanted state may leave open
			for i := range s.WireGuard {
				s.WireGuard[i].PrivateKey = dataplane.PrivateKey{}
				for j := range s.WireGuard[i].Peers {
					s.WireGuard[i].Peers[j].Endpoint = netip.AddrPort{}
				}
				s.WireGuard[i].ListenPort = 0
			}
		}
		open(&a)
		open(&b)
		same, silent := dataplane.Text(a) == dataplane.Text(b), len(dataplane.Diff(a, b, own))+len(dataplane.Diff(b, a, own)) == 0
		links := slices.EqualFunc(a.Links, b.Links, func(a, b dataplane.Link) bool { return a.Name == b.Name })
		if same != silent && links {
			t.Fatalf("seed %d: equal texts %t, nothing to change %t\n%s\n%s", seed, same, silent, dataplane.Text(a), dataplane.Text(b))
		}
	}
}
