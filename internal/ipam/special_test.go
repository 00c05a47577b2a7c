package ipam

import (
	"net/netip"
	"slices"
	"testing"
)

// TestSpecial: ranges and addresses are classified alike, at every boundary.
func TestSpecial(t *testing.T) {
	check := func(a netip.Addr) {
		inside := slices.ContainsFunc(unusable(), func(p netip.Prefix) bool { return p.Contains(a) })
		if text := Special(a); inside != (text != "") {
			t.Errorf("%s: %q, in an unusable range: %v", a, text, inside)
		}
		if text := SpecialPrefix(netip.PrefixFrom(a, 32)); inside != (text != "") {
			t.Errorf("%s/32: %q, in an unusable range: %v", a, text, inside)
		}
	}
	for _, p := range unusable() {
		first, last := p.Addr(), fromNumber(uint32(spanOf(p).last))
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if a.IsValid() {
				check(a)
			}
		}
	}
	for _, usable := range []string{"10.0.0.0/8", "1.0.0.0/8", "223.255.255.0/24", "169.253.0.0/16", "128.0.0.0/8"} {
		if text := SpecialPrefix(netip.MustParsePrefix(usable)); text != "" {
			t.Errorf("%s: %s", usable, text)
		}
	}
	for _, bad := range []string{"0.0.0.0/0", "126.0.0.0/7", "169.0.0.0/8", "224.0.0.0/3", "fd00::/48"} {
		if SpecialPrefix(netip.MustParsePrefix(bad)) == "" {
			t.Errorf("%s may be used", bad)
		}
	}
	if Special(netip.Addr{}) == "" || Special(netip.MustParseAddr("::ffff:10.0.0.1")) == "" {
		t.Error("what is no IPv4 address may be used")
	}
}
