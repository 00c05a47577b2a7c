package gateway

import (
	"net/netip"
	"slices"
	"time"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

// Session decides the WireGuard configuration of one gateway replica: its peer, the endpoint of the peer, and the keys. It is a
// state machine without clock, sockets or locks: Step takes the observations, and Tunnels returns the wanted configuration.
type Session struct {
	timing network.Timing
	// port picks a local port for a client's next session.
	port func() uint16

	begun bool
	// stepped is the time of the last Step. It is zero before the first one.
	stepped time.Time
	// adopting is the time of the first call of Adopt that found a session in WireGuard.
	adopting time.Time
	replica  network.Replica
	rotation network.Rotation
	private  dataplane.PrivateKey
	// endpoint is the address that a client dials in this session. local is the local port of the tunnel.
	endpoint netip.AddrPort
	local    uint16
	// closed is true after Close: WireGuard must no longer have the peer.
	closed bool
	// left is true after the peer's active replica announced that it is about to end.
	left bool
	// again is true while the WireGuard peer has to be removed and added again.
	again bool
	// counted is the number of bytes received through the tunnel at the last Step. It is maintained only while no pong arrives, and counting is true then.
	// received is the time of the last Step that found a higher number than counted. After a long pause between two Steps, received is set to a more recent
	// time, because the pause delayed the answers.
	counted  int64
	counting bool
	received time.Time
}

// NewSession returns a Session that has taken no decision yet.
func NewSession(timing network.Timing, port func() uint16) *Session {
	return &Session{timing: timing, port: port}
}

// Input is everything that a Session depends on.
type Input struct {
	Now time.Time
	// Peer is taken from the facts. Private is the private key of this gateway.
	Peer    network.Peer
	Private dataplane.PrivateKey
	// Endpoints are the addresses that a client may dial, the best first.
	Endpoints []netip.AddrPort
	// Device is the state of WireGuard when it was last read. It is read less often while pongs arrive. PingStats holds the latest ping results.
	Device    Device
	PingStats PingStats
	// Self is the name of this pod. Siblings holds the last answer of each other pod of this gateway, with one entry for each.
	Self     string
	Siblings map[string]network.ProbeResult
}

// Begun reports whether Step has been called, or Adopt has taken over the session of a previous agent.
func (s *Session) Begun() bool { return s.begun }

// Rotating reports whether a key change of the far gateway is in progress.
func (s *Session) Rotating() bool { return s.rotation.Next != dataplane.PublicKey{} }

// Replica returns the state of this replica.
func (s *Session) Replica() network.Replica { return s.replica }

// Adopt takes over a working session that a previous agent left in WireGuard, so that nothing is recreated. reported is the last state that the
// previous agent of this replica announced. Call Adopt before Step.
//
// wait is true if the caller should call Adopt again later, and should not call Step yet. The session then may still work, since an answer through the tunnel
// may still arrive, and a new session would interrupt the traffic. Adopt waits for at most Timing.Deaf, because an answer may be that late on a busy host.
func (s *Session) Adopt(in Input, reported ReplicaStatus) (wait bool) {
	peer, ok := in.Device.carrying()
	if s.begun || !ok || reported.State != network.Active {
		return false
	}
	if s.adopting.IsZero() {
		s.adopting = in.Now
	}
	if in.PingStats.Pongs == 0 {
		return in.Now.Sub(s.adopting) < s.timing.Deaf
	}
	s.begun = true
	s.replica = network.Replica{State: network.Active, Since: reported.Since, Peered: true, Made: in.PingStats.Last.Add(-time.Nanosecond)}
	s.rotation = network.Rotation{Present: peer.Key}
	s.private = in.Private
	s.local = in.Device.Port
	if in.Peer.Role == network.Client { // a server does not dial: its client contacts it
		s.endpoint = peer.Endpoint
	}
	return false
}

// Step takes a decision from the input. It returns the latest time for the next call, and whether the result of Tunnels has
// changed. The first Step always reports a change, also after Adopt, because there was no earlier result.
func (s *Session) Step(in Input) (again time.Time, changed bool) {
	before, rotation, private, first := s.replica, s.rotation, s.private, s.stepped.IsZero()
	if !first && s.Pause(in.Now) >= s.timing.Lost {
		s.received = in.Now.Add(-s.timing.Lost / 2) // the answer to the next ping may still arrive in time
	}
	s.begun, s.stepped = true, in.Now
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
	s.replica, again = s.replica.Next(in.Peer.Role, network.Observation{
		Now: in.Now, Pong: in.PingStats.Last, Received: s.received, Handshake: carrying.Handshake, RTT: in.PingStats.RTT, Self: in.Self, Siblings: in.Siblings,
	}, s.timing)
	if s.replica.Session != before.Session {
		s.again = true
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

// Pause returns the time since the last Step, or 0 before the first one. A long pause means that this process got no CPU time. It then could not
// receive packets of the peer, so missing answers do not mean that the tunnel is broken.
func (s *Session) Pause(now time.Time) time.Duration {
	if s.stepped.IsZero() {
		return 0
	}
	return now.Sub(s.stepped)
}

// Silent reports whether an active replica has had no pong for half of Timing.Lost or longer.
func (s *Session) Silent(stats PingStats, now time.Time) bool {
	return s.replica.State == network.Active && now.Sub(stats.Last) >= s.timing.Lost/2
}

// count records in received whether other data still arrives through the tunnel while no pong does.
func (s *Session) count(in Input) {
	silent := s.Silent(in.PingStats, in.Now)
	if received, _ := in.Device.Traffic(); silent {
		if s.counting && received > s.counted {
			s.received = in.Now
		}
		s.counted = received
	}
	s.counting = silent
}

// PeerLeft records that the peer's active replica is about to end. The next Step of a client dials another replica.
func (s *Session) PeerLeft() { s.left = true }

// Close ends the session for good: Tunnels no longer includes the peer, so the peer has to find another replica.
func (s *Session) Close() { s.closed = true }

// Tunnels returns the configurations that WireGuard must get, in this order. The last one stays in place. If the peer has to be replaced, a configuration
// without the peer comes before it.
func (s *Session) Tunnels() []network.Tunnel {
	last := network.Tunnel{PrivateKey: s.private, ListenPort: s.local}
	none := last
	if s.replica.Peered && !s.closed {
		last.Peers = s.rotation.Peers(s.endpoint)
	}
	if s.again && len(last.Peers) > 0 {
		return []network.Tunnel{none, last}
	}
	return []network.Tunnel{last}
}

// Made records that WireGuard has been given every configuration of Tunnels. session is the number of the session that they were for. Made returns true if
// that completes the replacement of the peer.
func (s *Session) Made(session int) bool {
	if s.replica.Session != session || !s.again {
		return false
	}
	s.again = false
	return true
}
