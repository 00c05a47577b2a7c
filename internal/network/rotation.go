package network

import (
	"net/netip"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// Rotation is the state of a change of the far gateway's key. Traffic stays with the present key until the next key has completed a
// handshake. So the two ends may switch in any order within the lifetime of a session. The zero value has no key.
type Rotation struct {
	Present, Next dataplane.PublicKey
}

// Step returns the next state, given the last reported key and the handshake times of WireGuard. If the reported key is zero, the present
// key stays. The first key needs no handshake.
func (r Rotation) Step(reported dataplane.PublicKey, handshakes map[dataplane.PublicKey]time.Time) Rotation {
	none := dataplane.PublicKey{}
	switch {
	case reported == none || reported == r.Present:
		return Rotation{Present: r.Present}
	case r.Present == none || !handshakes[reported].IsZero():
		return Rotation{Present: reported}
	}
	return Rotation{Present: r.Present, Next: reported}
}

// Peers returns the peers that WireGuard must have. endpoint is the endpoint to dial; not valid for servers.
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
