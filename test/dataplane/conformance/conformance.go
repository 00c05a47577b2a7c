// Package conformance tests that every dataplane.Kernel behaves alike. The same suite runs against the kernel in memory and against the
// real one, so tests that use the one in memory hold for the real one too.
package conformance

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"liqo.io/liqo/internal/dataplane"
)

// Kernel is the interface that every implementation under test provides.
type Kernel interface {
	dataplane.Kernel
	// Watch calls changed once at the start and after every change to an object that own lists, until ctx is done.
	Watch(ctx context.Context, own dataplane.Ownership, changed func()) error
}

// Host is a network namespace in which loopback is up and has HostAddress, and in which no object listed by Own exists.
type Host struct {
	Kernel
	Own dataplane.Ownership

	// AddTunnel does what the process of the tunnel does at its start: it creates the Tunnel link, which is down, and its WireGuard device.
	AddTunnel func()
	// RemoveLink deletes a link and SetDown takes it down, as another program could.
	RemoveLink, SetDown func(name string)
	// Close deletes the host.
	Close func()
}

// NewHost creates a host.
type NewHost func(t testing.TB) Host

func (h Host) read(t *testing.T) dataplane.State {
	t.Helper()
	s, err := h.Read(context.Background(), h.Own)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apply makes changes and fails the test if one of them fails.
func (h Host) apply(t *testing.T, changes ...dataplane.Change) {
	t.Helper()
	if err := h.Apply(context.Background(), changes); err != nil {
		t.Fatalf("%v\nof %v", err, changes)
	}
}

// refuse makes a change and fails the test unless the change fails and leaves everything as it was.
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

// converge applies the difference to a valid state and checks that the host is in that state.
func (h Host) converge(t *testing.T, want dataplane.State) {
	t.Helper()
	if err := Validate(want, h.Own); err != nil {
		t.Fatalf("the suite wants an invalid state: %v", err)
	}
	h.apply(t, dataplane.Diff(h.read(t), want, h.Own)...)
	h.same(t, want)
}

// same fails the test if the host is not in the wanted state. It ignores whatever the wanted state leaves open.
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

// settled removes from s what want does not specify, so that both can be compared.
func settled(s, want dataplane.State) dataplane.State {
	s.Links = made(s.Links)
	if len(want.WireGuard) == 0 {
		s.WireGuard = nil // the device and its key stay
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

// made returns the links that the agent creates: all except Tunnel links, which the process of the tunnel creates.
func made(links []dataplane.Link) []dataplane.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l dataplane.Link) bool { return l.Kind == dataplane.Tunnel })
}
