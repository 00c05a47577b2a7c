package network

import (
	"net/netip"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Rotation is where a change of the far gateway's key stands. Traffic stays with the present key until the next one shook hands, so the two
// ends may change in any order within the time that a session lives. The zero value knows no key.
type Rotation struct {
	Present, Next dataplane.PublicKey
}

// Step goes on with the key that we were told last (the zero key: none, the present one stays) and with what WireGuard tells of
// handshakes. A first key needs no handshake.
func (r Rotation) Step(told dataplane.PublicKey, handshakes map[dataplane.PublicKey]time.Time) Rotation {
	none := dataplane.PublicKey{}
	switch {
	case told == none || told == r.Present:
		return Rotation{Present: r.Present}
	case r.Present == none || !handshakes[told].IsZero():
		return Rotation{Present: told}
	}
	return Rotation{Present: r.Present, Next: told}
}

// Peers are what WireGuard is to have: endpoint is what to dial, not valid for servers.
func (r Rotation) Peers(endpoint netip.AddrPort) []TunnelPeer {
	var peers []TunnelPeer
	if none := (dataplane.PublicKey{}); r.Present != none {
		peers = append(peers, TunnelPeer{Key: r.Present, Endpoint: endpoint, Carries: true})
		if r.Next != none {
			peers = append(peers, TunnelPeer{Key: r.Next, Endpoint: endpoint})
		}
	}
	return peers
}
