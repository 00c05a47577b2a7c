package conformance

import (
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

func (h Host) peers(peers ...dataplane.Peer) dataplane.State {
	s := h.tunnel()
	s.WireGuard[0].Peers = peers
	return s
}

func peer(key byte, allowed ...string) dataplane.Peer {
	p := dataplane.Peer{PublicKey: dataplane.PublicKey{key}}
	for _, a := range allowed {
		p.AllowedIPs = append(p.AllowedIPs, netip.MustParsePrefix(a))
	}
	return p
}

func allowedPrefixes(t *testing.T, h Host) {
	h.AddTunnel()
	first := peer(1, "10.200.0.0/16", "10.70.0.0/16")
	first.Endpoint, first.Keepalive = netip.MustParseAddrPort("[2001:db8::1]:51820"), 25*time.Second
	h.converge(t, h.peers(first, peer(2)))
	// Another program assigns one of the prefixes to the second peer, so the first peer loses it.
	stolen := peer(2, "10.70.0.0/16")
	h.apply(t, dataplane.Change{Peer: &dataplane.DevicePeer{Link: h.Own.Tunnel, Peer: stolen}})
	for _, p := range h.read(t).WireGuard[0].Peers {
		if len(p.AllowedIPs) != 1 {
			t.Errorf("peer %s has %v", p.PublicKey, p.AllowedIPs)
		}
	}
	h.converge(t, h.peers(first, peer(2)))
	h.converge(t, h.peers(peer(1, "10.70.0.0/16"), peer(2, "10.200.0.0/16")))
	h.converge(t, h.peers(peer(1, "10.200.0.0/16"), peer(2, "10.70.0.0/16")))
	// If the wanted state has no endpoint for a peer, the current endpoint stays.
	for _, p := range h.read(t).WireGuard[0].Peers {
		if p.PublicKey == first.PublicKey && p.Endpoint != first.Endpoint {
			t.Errorf("the endpoint became %s", p.Endpoint)
		}
	}
	gone := dataplane.DevicePeer{Link: h.Own.Tunnel, Peer: peer(1)}
	h.apply(t, dataplane.Change{Operation: dataplane.Delete, Peer: &gone}, dataplane.Change{Peer: &gone})
	for _, p := range h.read(t).WireGuard[0].Peers {
		if p.PublicKey == first.PublicKey && p.Endpoint.IsValid() {
			t.Errorf("the endpoint is still known: %s", p.Endpoint)
		}
	}
}

func rotation(t *testing.T, h Host) {
	h.AddTunnel()
	h.converge(t, h.peers(peer(1, "10.200.0.0/16")))
	h.converge(t, h.peers(peer(1, "10.200.0.0/16"), peer(3)))
	h.converge(t, h.peers(peer(1), peer(3, "10.200.0.0/16")))
	h.converge(t, h.peers(peer(3, "10.200.0.0/16")))
	ours := h.peers(peer(3, "10.200.0.0/16"))
	ours.WireGuard[0].PrivateKey = dataplane.PrivateKey{9}
	ours.WireGuard[0].ListenPort = 51821
	h.converge(t, ours)
}
