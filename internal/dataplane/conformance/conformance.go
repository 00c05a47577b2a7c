// Package conformance holds every dataplane.Kernel to the same behaviour: the one in memory and the real one. It is one suite, and what
// it finds out about one it has found out about the other.
package conformance

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// Kernel is what both can do.
type Kernel interface {
	dataplane.Kernel
	// Watch calls changed in the beginning and after changes to what own says is ours, until ctx ends.
	Watch(ctx context.Context, own dataplane.Ownership, changed func()) error
}

// Host is a network namespace with loopback up and HostAddress on it, and nothing of ours.
type Host struct {
	Kernel
	Own dataplane.Ownership

	// AddTunnel does what the process of the tunnel does when it starts: a link of that name that is down, and its WireGuard device.
	AddTunnel func()
	// RemoveLink and SetDown are what anybody can do to a link.
	RemoveLink, SetDown func(name string)
	// Close takes the host away.
	Close func()
}

// NewHost makes a host.
type NewHost func(t testing.TB) Host

func (h Host) read(t *testing.T) dataplane.State {
	t.Helper()
	s, err := h.Read(context.Background(), h.Own)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apply makes changes that must succeed.
func (h Host) apply(t *testing.T, changes ...dataplane.Change) {
	t.Helper()
	if err := h.Apply(context.Background(), changes); err != nil {
		t.Fatalf("%v\nof %v", err, changes)
	}
}

// refuse makes a change that must fail and leave everything as it was.
func (h Host) refuse(t *testing.T, c dataplane.Change) {
	t.Helper()
	before := dataplane.Text(h.read(t))
	if err := h.Apply(context.Background(), []dataplane.Change{c}); err == nil {
		t.Errorf("%q was not refused", c)
	}
	if after := dataplane.Text(h.read(t)); after != before {
		t.Errorf("%q was refused, but changed\n%s\ninto\n%s", c, before, after)
	}
}

// converge goes to a state and checks that it is there.
func (h Host) converge(t *testing.T, want dataplane.State) {
	t.Helper()
	if err := dataplane.Validate(want, h.Own); err != nil {
		t.Fatalf("the suite wants an invalid state: %v", err)
	}
	h.apply(t, dataplane.Diff(h.read(t), want, h.Own)...)
	h.same(t, want)
}

// same fails where the host is not as wanted. What a state leaves open is not compared.
func (h Host) same(t *testing.T, want dataplane.State) {
	t.Helper()
	have := h.read(t)
	if changes := dataplane.Diff(have, want, h.Own); len(changes) > 0 {
		t.Fatalf("not silent where nothing differs: %v\nhave\n%s\nwant\n%s", changes, dataplane.Text(have), dataplane.Text(want))
	}
	if got, expected := dataplane.Text(settled(have, want)), dataplane.Text(settled(want, want)); got != expected {
		t.Fatalf("the host differs from what is wanted; have\n%s\nwant\n%s", got, expected)
	}
}

// settled leaves out of s what want leaves open.
func settled(s, want dataplane.State) dataplane.State {
	s.Links = made(s.Links)
	if len(want.WireGuard) == 0 {
		s.WireGuard = nil // the device stays, and its key
	}
	s.WireGuard = slices.Clone(s.WireGuard)
	for i := range s.WireGuard {
		if want.WireGuard[0].ListenPort == 0 {
			s.WireGuard[i].ListenPort = 0
		}
		s.WireGuard[i].Peers = slices.Clone(s.WireGuard[i].Peers)
		for j, p := range s.WireGuard[i].Peers {
			open := func(w dataplane.Peer) bool { return w.PublicKey == p.PublicKey && !w.Endpoint.IsValid() }
			if slices.ContainsFunc(want.WireGuard[0].Peers, open) {
				s.WireGuard[i].Peers[j].Endpoint = netip.AddrPort{}
			}
		}
	}
	return s
}

// made leaves out tunnels: they are there or not, whatever is wanted.
func made(links []dataplane.Link) []dataplane.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l dataplane.Link) bool { return l.Kind == dataplane.Tunnel })
}
