package gateway

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
)

func TestHostNamesAreLookedUp(t *testing.T) {
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
		for _, e := range r.Endpoints(hosts, 51840) {
			found = append(found, e.String())
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
