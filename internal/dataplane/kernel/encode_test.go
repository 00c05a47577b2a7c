package kernel

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/test/dataplane/conformance"
)

// wire is the list of expressions as a netlink message has it.
func wire(t *testing.T, exprs []expr.Any) []byte {
	t.Helper()
	list := make([]netlink.Attribute, 0, len(exprs))
	for _, e := range exprs {
		b, err := expr.Marshal(unix.NFPROTO_IPV4, e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: b})
	}
	out, err := netlink.MarshalAttributes(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parsed(t *testing.T, b []byte) []expr.Any {
	t.Helper()
	exprs, err := parseExpressions(b)
	if err != nil {
		t.Fatal(err)
	}
	return exprs
}

func canonical(r dataplane.FilterRule) dataplane.FilterRule {
	s := dataplane.Canonical(dataplane.State{Table: &dataplane.Table{Chains: []dataplane.Chain{{Rules: []dataplane.FilterRule{r}}}}})
	return s.Table.Chains[0].Rules[0]
}

// TestRulesRoundTrip: every rule is read as it was written. A rule with any expression left out, doubled or swapped is read as another rule, or as a
// foreign one.
func TestRulesRoundTrip(t *testing.T) {
	for seed := range uint64(3000) {
		d := conformance.NewDice(seed, dataplane.Ours())
		want := canonical(d.Rule())
		if got := decode(parsed(t, wire(t, encode(want)))); got != want {
			t.Fatalf("seed %d: %q was read as %q", seed, want, got)
		}
		exprs := mutated(d.Rand, encode(want))
		if exprs == nil {
			continue
		}
		got := decode(parsed(t, wire(t, exprs)))
		if got == want || got.Foreign == "" && len(exprs) > 0 && !reflect.DeepEqual(encode(got), exprs) {
			t.Fatalf("seed %d: %s was read as %q", seed, describe(exprs), got)
		}
	}
}

// mutated leaves out, doubles or swaps expressions; nil if that changes nothing.
func mutated(d *rand.Rand, exprs []expr.Any) []expr.Any {
	if len(exprs) == 0 {
		return nil
	}
	out := append([]expr.Any(nil), exprs...)
	switch i, j := d.IntN(len(out)), d.IntN(len(out)); d.IntN(3) {
	case 0:
		out = append(out[:i], out[i+1:]...)
	case 1:
		out = append(out, out[i])
	case 2:
		out[i], out[j] = out[j], out[i]
	}
	if reflect.DeepEqual(out, exprs) {
		return nil
	}
	return out
}

func TestForeignExpressions(t *testing.T) {
	for name, e := range map[string]expr.Any{
		"log":        &expr.Log{},
		"limit":      &expr.Limit{Rate: 1, Unit: expr.LimitTimeSecond},
		"goto":       &expr.Verdict{Kind: expr.VerdictGoto, Chain: "out"},
		"other port": &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2},
		"random":     &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegAddrMax: 1, Random: true},
		"masquerade": &expr.Masq{FullyRandom: true},
		"mark":       &expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		"register":   &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if r := decode(parsed(t, wire(t, []expr.Any{&expr.Counter{}, e, &expr.Verdict{Kind: expr.VerdictDrop}}))); r.Foreign == "" {
				t.Errorf("read as %q", r)
			}
		})
	}
}

// TestCheapMatchesFirst: the kernel compares every packet of a host with every rule. Few packets have the protocol and port, and the lookup of an
// address costs most.
func TestCheapMatchesFirst(t *testing.T) {
	exprs := encode(dataplane.FilterRule{Match: dataplane.Match{
		InLink: dataplane.LinkName{Name: "a"}, Source: dataplane.Selector{Set: "s"}, Destination: dataplane.Selector{Set: "d"}, Transport: dataplane.UDP, DestinationPort: 1,
	}})
	first := slices.IndexFunc(exprs, func(e expr.Any) bool { _, ok := e.(*expr.Lookup); return ok })
	if len(exprs) != 10 || first != 7 {
		t.Errorf("the first of 10 expressions that looks up is number %d: %s", first, describe(exprs))
	}
}

func TestCountersAreRead(t *testing.T) {
	r := decode(parsed(t, wire(t, []expr.Any{&expr.Counter{Packets: 7, Bytes: 700}, &expr.Verdict{Kind: expr.VerdictDrop}})))
	if want := (dataplane.FilterRule{Counter: true, Verdict: dataplane.Drop, Packets: 7}); r != want {
		t.Errorf("read %+v", r)
	}
}

// FuzzDecode: every message of the kernel is decoded, rejected or marked as foreign. A decoded rule is encoded as the same message.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		r := canonical(conformance.NewDice(seed, dataplane.Ours()).Rule())
		var b []byte
		for _, e := range encode(r) {
			data, err := expr.Marshal(unix.NFPROTO_IPV4, e)
			if err != nil {
				f.Fatal(err)
			}
			element, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data}})
			if err != nil {
				f.Fatal(err)
			}
			b = append(b, element...)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		exprs, err := parseExpressions(b)
		if err != nil {
			return
		}
		r := decode(exprs)
		if r.Foreign == "" && r != decode(encode(r)) && r.Packets == 0 {
			t.Errorf("%q is written and read as %q", r, decode(encode(r)))
		}
		_ = r.String()
	})
}
