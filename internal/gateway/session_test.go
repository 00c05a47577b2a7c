package gateway

import (
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
	"liqo.io/liqo/internal/network"
)

var (
	timing    = network.DefaultTiming(100*time.Millisecond, 5)
	noon      = time.Unix(1_800_000_000, 0)
	here      = netip.MustParseAddrPort("192.0.2.1:51840")
	elsewhere = netip.MustParseAddrPort("192.0.2.2:51840")
)

// lab is a session with its input.
type lab struct {
	*testing.T
	session *Session
	in      Input
	ports   uint16
}

func newLab(t *testing.T, role network.Role) *lab {
	l := &lab{T: t, ports: 20000}
	l.restart()
	l.in = Input{
		Now: noon, Self: "a", Private: dataplane.PrivateKey{1}, Endpoints: []netip.AddrPort{here, elsewhere},
		Peer: network.Peer{ClusterID: "milan", Role: role, Port: 51840, PublicKey: make([]byte, 32)},
	}
	l.in.Peer.PublicKey[0] = 7
	return l
}

// restart puts another agent in place.
func (l *lab) restart() {
	l.session = NewSession(timing, func() uint16 { l.ports++; return l.ports })
}

// after lets time pass, and steps as often as an agent does.
func (l *lab) after(d time.Duration) {
	for ; d > timing.ProbeInterval; d -= timing.ProbeInterval {
		l.pause(timing.ProbeInterval)
	}
	l.pause(d)
}

// pause lets time pass in which the agent does not run, and steps.
func (l *lab) pause(d time.Duration) {
	l.in.Now = l.in.Now.Add(d)
	l.session.Step(l.in)
}

// pong lets an answer come in.
func (l *lab) pong() {
	l.in.Now = l.in.Now.Add(time.Millisecond)
	l.in.PingStats.Pongs++
	l.in.PingStats.Last, l.in.PingStats.RTT = l.in.Now, time.Millisecond
}

// apply puts what there is to be into WireGuard, and returns through how many states.
func (l *lab) apply() int {
	l.Helper()
	tunnels := l.session.Tunnels()
	for _, tunnel := range tunnels {
		device := Device{Port: tunnel.ListenPort}
		for _, p := range tunnel.Peers {
			peer := DevicePeer{Key: p.Key, Endpoint: p.Endpoint, Carries: p.Carries}
			for _, old := range l.in.Device.Peers {
				if old.Key == p.Key {
					peer.Handshake = old.Handshake
					if !peer.Endpoint.IsValid() {
						peer.Endpoint = old.Endpoint
					}
				}
			}
			device.Peers = append(device.Peers, peer)
		}
		l.in.Device = device
	}
	l.session.Made(l.session.Replica().Session)
	return len(tunnels)
}

func (l *lab) is(state network.State, endpoint netip.AddrPort, port uint16) {
	l.Helper()
	tunnels := l.session.Tunnels()
	last := tunnels[len(tunnels)-1]
	if l.session.Replica().State != state || last.ListenPort != port || len(last.Peers) == 0 || last.Peers[0].Endpoint != endpoint {
		l.Fatalf("it is %s, WireGuard is to have %+v; want it %s, dialing %s from port %d", l.session.Replica().State, tunnels, state, endpoint, port)
	}
}

func TestClientDialsUntilThePeerAnswers(t *testing.T) {
	l := newLab(t, network.Client)
	l.after(0)
	l.is(network.Dialing, here, 20001)
	if states := l.apply(); states != 2 {
		t.Errorf("a session that begins goes through %d states, want 2: without the peer, and with it", states)
	}
	if states := l.apply(); states != 1 {
		t.Errorf("a session that was made goes through %d states, want 1", states)
	}
	l.after(timing.Redial)
	l.is(network.Dialing, elsewhere, 20002)
	l.apply()
	l.after(100 * time.Millisecond)
	l.pong()
	l.after(time.Millisecond)
	l.is(network.Active, elsewhere, 20002)
	l.after(timing.Alone)
	l.is(network.Dialing, elsewhere, 20003) // what worked is tried first
}

func TestAgentAdoptsASession(t *testing.T) {
	for _, role := range []network.Role{network.Client, network.Server} {
		t.Run(string(role), func(t *testing.T) {
			l := newLab(t, role)
			l.after(0)
			l.apply()
			l.pong()
			l.after(time.Millisecond)
			l.apply()
			before, since := l.in.Device, l.session.Replica().Since
			told := ReplicaStatus{l.session.Replica().State, since}
			if told.State != network.Active {
				t.Fatalf("it is %s", told.State)
			}

			l.restart()
			l.in.PingStats = PingStats{}
			l.in.Now = l.in.Now.Add(time.Minute)
			// The agent may be late itself: it may know the peer only a while after it started.
			for _, pause := range []time.Duration{0, timing.Lost, timing.Deaf - timing.Lost - 1} {
				l.in.Now = l.in.Now.Add(pause)
				if !l.session.Adopt(l.in, told) {
					t.Fatal("it does not wait for an answer")
				}
			}
			l.pong()
			if l.session.Adopt(l.in, told) || !l.session.Begun() {
				t.Fatal("the peer answered and it still waits")
			}
			// The sender of an earlier probe, which got the answer standby, must get the change, and only once.
			for _, news := range []bool{true, false} {
				if _, changed := l.session.Step(l.in); changed != news {
					t.Errorf("a session that was taken over told of a change: %v, want %v", changed, news)
				}
			}
			l.after(time.Millisecond)
			if r := l.session.Replica(); r.State != network.Active || !r.Since.Equal(since) {
				t.Errorf("it is %s since %s, want active since %s", r.State, r.Since, since)
			}
			if states := l.apply(); states != 1 || len(l.in.Device.Peers) != 1 || l.in.Device.Peers[0] != before.Peers[0] || l.in.Device.Port != before.Port {
				t.Errorf("through %d states WireGuard became %+v, from %+v", states, l.in.Device, before)
			}
			if endpoint := l.session.Tunnels()[0].Peers[0].Endpoint; role == network.Server && endpoint.IsValid() {
				t.Errorf("a server holds its client to %s, and the client may move", endpoint)
			}
		})
	}
}

func TestAgentDoesNotAdoptADeadSession(t *testing.T) {
	l := newLab(t, network.Client)
	for name, told := range map[string]ReplicaStatus{"nothing was told": {}, "standby": {State: network.Standby}} {
		if l.session.Adopt(l.in, told) {
			t.Errorf("%s: it waits", name)
		}
	}
	if l.session.Adopt(l.in, ReplicaStatus{State: network.Active}) {
		t.Error("WireGuard knows no peer, and it waits for an answer from one")
	}
	l.after(0)
	l.is(network.Dialing, here, 20001)
	l.apply()

	l.restart()
	told := ReplicaStatus{State: network.Active}
	if !l.session.Adopt(l.in, told) {
		t.Error("it does not wait for an answer")
	}
	l.in.Now = l.in.Now.Add(timing.Deaf)
	if l.session.Adopt(l.in, told) {
		t.Errorf("it waits longer than %s for an answer", timing.Deaf)
	}
}

func TestPeerSendsAShutdownNotice(t *testing.T) {
	for role, redials := range map[network.Role]bool{network.Client: true, network.Server: false} {
		l := newLab(t, role)
		l.after(0)
		l.apply()
		l.pong()
		l.after(time.Millisecond)
		before := l.session.Replica().Session
		l.session.PeerLeft()
		l.after(time.Millisecond)
		if got := l.session.Replica().Session != before; got != redials {
			t.Errorf("a %s whose peer left begins a session: %t, want %t", role, got, redials)
		}
		l.apply()
		after := l.session.Replica().Session
		l.after(time.Millisecond)
		if l.session.Replica().Session != after {
			t.Errorf("a %s goes on beginning sessions", role)
		}
	}
}

func TestClosedSessionRemovesThePeer(t *testing.T) {
	l := newLab(t, network.Server)
	l.after(0)
	l.apply()
	l.session.Close()
	l.after(time.Second)
	if l.apply(); len(l.in.Device.Peers) != 0 {
		t.Errorf("WireGuard still has %+v", l.in.Device.Peers)
	}
}

func TestRotationOfOurKey(t *testing.T) {
	for role, redials := range map[network.Role]bool{network.Client: true, network.Server: false} {
		l := newLab(t, role)
		l.after(0)
		l.apply()
		l.pong()
		l.after(time.Millisecond)
		before := l.session.Replica().Session
		l.in.Private = dataplane.PrivateKey{2}
		l.after(time.Millisecond)
		if got := l.session.Replica().Session != before; got != redials {
			t.Errorf("a %s with a new key begins a session: %t, want %t", role, got, redials)
		}
		if tunnels := l.session.Tunnels(); tunnels[len(tunnels)-1].PrivateKey != (dataplane.PrivateKey{2}) {
			t.Error("the key is not in use")
		}
	}
}

func TestRotationOfThePeersKey(t *testing.T) {
	l := newLab(t, network.Client)
	l.after(0)
	l.apply()
	l.pong()
	l.after(time.Millisecond)
	l.in.Peer.PublicKey = make([]byte, 32)
	l.in.Peer.PublicKey[0] = 8
	l.pong()
	l.after(time.Millisecond)
	l.apply()
	if peers := l.in.Device.Peers; len(peers) != 2 || !peers[0].Carries || peers[0].Key[0] != 7 || peers[1].Carries {
		t.Fatalf("before the new key shook hands traffic stays with the old one; WireGuard has %+v", peers)
	}
	l.in.Device.Peers[1].Handshake = l.in.Now
	l.pong()
	l.after(time.Millisecond)
	l.apply()
	if peers := l.in.Device.Peers; len(peers) != 1 || !peers[0].Carries || peers[0].Key[0] != 8 {
		t.Errorf("after it WireGuard has %+v", peers)
	}
}

func TestEndpointChanges(t *testing.T) {
	l := newLab(t, network.Client)
	l.in.Endpoints = []netip.AddrPort{here}
	l.after(0)
	l.apply()
	l.pong()
	l.after(time.Millisecond)
	before := l.session.Replica().Session
	l.in.Endpoints = []netip.AddrPort{elsewhere, here}
	l.after(time.Millisecond)
	if l.session.Replica().Session != before {
		t.Error("an address that is still among those to dial was left")
	}
	l.in.Endpoints = []netip.AddrPort{elsewhere}
	l.after(time.Millisecond)
	l.is(l.session.Replica().State, elsewhere, 20002)
	l.in.Endpoints = nil // no name can be looked up
	l.after(time.Millisecond)
	l.is(l.session.Replica().State, elsewhere, 20002)
}

// TestLatePongsKeepTheSession: while packets arrive through the tunnel, late pongs do not cause a new session, up to a limit: a peer that receives
// nothing from this side also sends.
func TestLatePongsKeepTheSession(t *testing.T) {
	for _, test := range []struct {
		name     string
		siblings map[string]network.ProbeResult
		received int64 // every 100 ms
		lost     time.Duration
	}{
		{"nothing comes", map[string]network.ProbeResult{"b": {}}, 0, timing.Lost},
		{"a stream comes", map[string]network.ProbeResult{"b": {}}, 1 << 20, timing.Deaf},
		{"nothing comes to the only replica", nil, 0, timing.Alone},
		{"a stream comes to the only replica", nil, 1 << 20, timing.Deaf},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, network.Client)
			l.in.Siblings = test.siblings
			l.after(2 * timing.Silence) // siblings may dial first
			l.apply()
			l.pong()
			l.after(0)
			if state := l.session.Replica().State; state != network.Active {
				t.Fatalf("it is %s", state)
			}
			began := l.in.Now
			for l.session.Replica().State == network.Active && l.in.Now.Sub(began) < time.Minute {
				l.in.Device.Peers[0].Received += test.received
				l.after(100 * time.Millisecond)
			}
			if took := l.in.Now.Sub(began); took < test.lost || took > test.lost+100*time.Millisecond {
				t.Errorf("the tunnel counts as lost after %s, want %s", took, test.lost)
			}
		})
	}
}

// TestAgentWithoutProcessorTime: an agent that does not get processor time receives no pongs. It keeps the session and waits for pongs again, but no
// longer than Deaf.
func TestAgentWithoutProcessorTime(t *testing.T) {
	working := func(t *testing.T) *lab {
		l := newLab(t, network.Client)
		l.after(0)
		l.apply()
		l.pong()
		l.after(time.Millisecond)
		l.is(network.Active, here, 20001)
		return l
	}
	t.Run("receives pongs again", func(t *testing.T) {
		l := working(t)
		for range 5 {
			l.pause(timing.Alone + time.Millisecond)
			l.after(timing.Alone / 2)
			l.is(network.Active, here, 20001)
			l.pong()
		}
	})
	t.Run("receives nothing when it runs again", func(t *testing.T) {
		l := working(t)
		l.pause(timing.Alone + time.Millisecond)
		l.after(timing.Alone - timing.Lost/2 - timing.ProbeInterval)
		l.is(network.Active, here, 20001)
		l.after(timing.ProbeInterval)
		l.is(network.Dialing, here, 20002)
	})
	t.Run("receives nothing and hardly runs", func(t *testing.T) {
		l := working(t)
		for silence := time.Duration(0); silence < timing.Deaf; silence += timing.Lost {
			l.is(network.Active, here, 20001)
			l.pause(timing.Lost)
		}
		l.is(network.Dialing, here, 20002)
	})
}
