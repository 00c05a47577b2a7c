package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/network"
)

func TestHostNamesAreResolved(t *testing.T) {
	var away atomic.Bool
	changes := make(chan struct{}, 100)
	r := NewResolver(func() { changes <- struct{}{} })
	r.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if away.Load() || host != "gateway.example.org" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("::ffff:192.0.2.8")}, nil
	}
	hosts := []string{"192.0.2.1", "gateway.example.org", "192.0.2.9", "nowhere.example.org"}
	endpoints := func() (found []string) {
		endpoints, refused := r.Endpoints(&network.Peer{Endpoints: hosts, Port: 51840})
		for _, e := range endpoints {
			found = append(found, e.String())
		}
		if refused != "" {
			t.Errorf("refused: %s", refused)
		}
		return found
	}
	if got, want := endpoints(), []string{"192.0.2.1:51840", "192.0.2.9:51840"}; !slices.Equal(got, want) {
		t.Errorf("before anything was looked up: %q, want %q", got, want)
	}
	start(t, r.Run)
	<-changes
	want := []string{"192.0.2.1:51840", "192.0.2.8:51840", "192.0.2.9:51840", "[2001:db8::1]:51840"}
	if got := endpoints(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	away.Store(true)
	r.resolve(t.Context())
	if got := endpoints(); !slices.Equal(got, want) {
		t.Errorf("while names can't be looked up: %q, want what was known, %q", got, want)
	}
	if len(changes) != 0 {
		t.Error("nothing changed, and it was told")
	}
}

// TestOnlyTheFirstAddressesAreDialed: the peer controls its DNS, so its host name may resolve to any number of addresses, in any order.
func TestOnlyTheFirstAddressesAreDialed(t *testing.T) {
	many := []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	for i := range 200 {
		many = append(many, netip.AddrFrom4([4]byte{192, 0, 2, byte(200 - i)}))
	}
	r := NewResolver(func() {})
	r.lookup = func(context.Context, string) ([]netip.Addr, error) { return slices.Clone(many), nil }
	peer := &network.Peer{ClusterID: "milan", Port: 51840, Endpoints: []string{"gateway.example.org", "192.0.2.250"}}
	r.Endpoints(peer)
	r.resolve(t.Context())
	got, refused := r.Endpoints(peer)
	var want []netip.AddrPort
	for i := range maxResolved {
		want = append(want, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), peer.Port))
	}
	want = append(want, netip.MustParseAddrPort("192.0.2.250:51840"))
	if !slices.Equal(got, want) || !strings.Contains(refused, "gateway.example.org") || !strings.Contains(refused, "resolves to 201 addresses") {
		t.Errorf("dials %v, and says %q, want %v", got, refused, want)
	}
	slices.Reverse(many)
	r.changed = func() { t.Error("the order of the answer changes the result") }
	r.resolve(t.Context())
	many = many[:maxResolved]
	r.changed = func() {}
	r.resolve(t.Context())
	if got, refused := r.Endpoints(peer); len(got) != maxResolved+1 || refused != "" {
		t.Errorf("of %d addresses: dials %v, and says %q", maxResolved, got, refused)
	}
}

// TestNoHostNameLeadsToSpecialAddresses: the peer controls its DNS, so its host name may resolve to any address, also after a good one.
func TestNoHostNameLeadsToSpecialAddresses(t *testing.T) {
	const name = "gateway.example.org"
	view := netip.MustParsePrefix("10.71.0.0/16")
	good := netip.MustParseAddr("192.0.2.9")
	for _, hostile := range []string{
		"127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "::", "::1", "fe80::1", "ff02::1", "10.71.5.5",
	} {
		resolved := []netip.Addr{netip.MustParseAddr(hostile)}
		r := NewResolver(func() {})
		r.lookup = func(context.Context, string) ([]netip.Addr, error) { return slices.Clone(resolved), nil }
		peer := &network.Peer{ClusterID: "milan", Port: 51840, Endpoints: []string{name}, Pods: []ipam.Remap{{Real: view, View: view}}}
		r.Endpoints(peer)
		r.resolve(t.Context())
		if got, refused := r.Endpoints(peer); len(got) != 0 || !strings.Contains(refused, name) || !strings.Contains(refused, resolved[0].Unmap().String()) {
			t.Errorf("%s as the host name resolves: dials %v, and says %q", hostile, got, refused)
		}
		resolved = append(resolved, good)
		r.resolve(t.Context())
		if got, refused := r.Endpoints(peer); !slices.Equal(got, []netip.AddrPort{netip.AddrPortFrom(good, peer.Port)}) || refused == "" {
			t.Errorf("%s beside a good address: dials %v, and says %q", hostile, got, refused)
		}
		peer.Endpoints = []string{" " + hostile}
		if got, refused := r.Endpoints(peer); len(got) != 0 || refused == "" {
			t.Errorf("%s in the endpoint: dials %v, and says %q", hostile, got, refused)
		}
	}
}
