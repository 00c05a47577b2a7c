package gateway

import (
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// Session is what one replica of a gateway has WireGuard do: whom it talks to, where, and with which keys. It is a state machine without
// clock, sockets or locks: Step takes in what is seen, Tunnels says what there is to be.
type Session struct {
	timing network.Timing
	// port picks a local port for a client's next session.
	port func() uint16

	begun    bool
	stepped  bool
	replica  network.Replica
	rotation network.Rotation
	private  dataplane.PrivateKey
	// endpoint and local are where a client dials and from which port, in this session.
	endpoint netip.AddrPort
	local    uint16
	// closed says that WireGuard must not know the peer any more.
	closed bool
	// left says that the far replica is about to end.
	left bool
	// anew says that WireGuard must forget the peer before it gets it again.
	anew bool
	// counted is what had come through the tunnel when it was looked at last while no pong came, received when it was more than before.
	counted  int64
	counting bool
	received time.Time
}

// NewSession returns one that has not begun.
func NewSession(timing network.Timing, port func() uint16) *Session {
	return &Session{timing: timing, port: port}
}

// Input is all that a Session depends on.
type Input struct {
	Now time.Time
	// Peer as the facts have it; Private is our own key.
	Peer    network.Peer
	Private dataplane.PrivateKey
	// Endpoints are the addresses that a client may dial, the best first.
	Endpoints []netip.AddrPort
	// Device as it is (as it was a moment ago, while pongs come), and what came through the tunnel lately.
	Device Device
	Pulse  Pulse
	// Self is the name of this pod, Siblings what the other ones answered: an entry for each.
	Self     string
	Siblings map[string]network.Heard
}

// Begun tells whether anything was decided yet.
func (s *Session) Begun() bool { return s.begun }

// Rotating tells whether the far gateway is about to change its key.
func (s *Session) Rotating() bool { return s.rotation.Next != dataplane.PublicKey{} }

// Replica is where this replica stands.
func (s *Session) Replica() network.Replica { return s.replica }

// Adopt takes over a session that an agent before this one left in WireGuard, if it works: then nothing is made anew. told is what that
// agent said last. Call it before Step; it tells whether to wait for an answer through the tunnel, which may still come.
func (s *Session) Adopt(in Input, told Standing) (wait bool) {
	peer, ok := in.Device.carrying()
	if s.begun || !ok || told.State != network.Active {
		return false
	}
	if in.Pulse.Pongs == 0 {
		return true
	}
	s.begun = true
	s.replica = network.Replica{State: network.Active, Since: told.Since, Peered: true, Made: in.Pulse.Last.Add(-time.Nanosecond)}
	s.rotation = network.Rotation{Present: peer.Key}
	s.private = in.Private
	s.local = in.Device.Port
	if in.Peer.Role == network.Client { // a server goes by whoever calls
		s.endpoint = peer.Endpoint
	}
	return false
}

// Step decides anew and returns when it wants to be called again at the latest, and whether Tunnels says something else now. With the first
// Step it does, also after Adopt: before there was nothing to go by.
func (s *Session) Step(in Input) (again time.Time, changed bool) {
	before, rotation, private, first := s.replica, s.rotation, s.private, !s.stepped
	s.begun, s.stepped = true, true
	s.private = in.Private
	client := in.Peer.Role == network.Client
	moved := client && s.endpoint.IsValid() && len(in.Endpoints) > 0 && !slices.Contains(in.Endpoints, s.endpoint)
	rekeyed := client && private != (dataplane.PrivateKey{}) && private != in.Private
	left := client && s.left && s.replica.State == network.Active
	s.left = false
	if s.replica.Peered && (moved || rekeyed || left) {
		s.replica.Session++
		s.replica.Made = in.Now
	}
	s.count(in)
	carrying, _ := in.Device.carrying()
	s.replica, again = s.replica.Next(in.Peer.Role, network.Seen{
		Now: in.Now, Pong: in.Pulse.Last, Received: s.received, Handshake: carrying.Handshake, RTT: in.Pulse.RTT, Self: in.Self, Siblings: in.Siblings,
	}, s.timing)
	if s.replica.Session != before.Session {
		s.anew = true
		if client {
			s.endpoint, _ = s.replica.Endpoint(in.Endpoints)
			s.local = s.port()
		}
	}
	handshakes := make(map[dataplane.PublicKey]time.Time, len(in.Device.Peers))
	for _, p := range in.Device.Peers {
		handshakes[p.Key] = p.Handshake
	}
	var key dataplane.PublicKey
	copy(key[:], in.Peer.PublicKey)
	s.rotation = s.rotation.Step(key, handshakes)
	if !client {
		s.local = in.Peer.Port
	}
	return again, first || before.Session != s.replica.Session || before.Peered != s.replica.Peered || rotation != s.rotation || private != s.private
}

// Silent tells whether a replica at work misses a pong.
func (s *Session) Silent(pulse Pulse, now time.Time) bool {
	return s.replica.State == network.Active && now.Sub(pulse.Last) >= s.timing.Lost/2
}

// count takes note of what comes through the tunnel while no pong does.
func (s *Session) count(in Input) {
	silent := s.Silent(in.Pulse, in.Now)
	if received, _ := in.Device.Traffic(); silent {
		if s.counting && received > s.counted {
			s.received = in.Now
		}
		s.counted = received
	}
	s.counting = silent
}

// PeerLeft tells that the far replica is about to end: a client dials another one with the next Step.
func (s *Session) PeerLeft() { s.left = true }

// Close ends it for good: the peer has to find another replica.
func (s *Session) Close() { s.closed = true }

// Tunnels are what WireGuard is to have, one after the other; the last is to stay.
func (s *Session) Tunnels() []network.Tunnel {
	last := network.Tunnel{PrivateKey: s.private, ListenPort: s.local}
	none := last
	if s.replica.Peered && !s.closed {
		last.Peers = s.rotation.Peers(s.endpoint)
	}
	if s.anew && len(last.Peers) > 0 {
		return []network.Tunnel{none, last}
	}
	return []network.Tunnel{last}
}

// Made tells that WireGuard has been all that Tunnels said, when the replica was in this session. It returns whether that was news.
func (s *Session) Made(session int) bool {
	if s.replica.Session != session || !s.anew {
		return false
	}
	s.anew = false
	return true
}
