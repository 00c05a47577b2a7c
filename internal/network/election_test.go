package network

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"liqo.io/liqo/internal/dataplane"
)

// TestElectionSettles: from any state, once the network works again, each side has exactly one active replica, which stays active.
func TestElectionSettles(t *testing.T) {
	worst := time.Duration(0)
	for seed := range uint64(300) {
		w := newTunnelWorld(seed, 1+int(seed%3), 1+int(seed/3%3))
		w.trouble(0, 0.05, 0.4)
		for _, side := range [][]*replica{w.clients, w.servers} { // at least one replica of each side survives
			side[w.random.IntN(len(side))].dead = false
		}
		// Losses at the end of the trouble may still interrupt a session later, but not after ten seconds.
		began, settled := w.now, w.now
		for w.now.Sub(began) < 30*time.Second {
			w.run(tick)
			if why := w.works(); why != "" {
				settled = w.now
				if w.now.Sub(began) > 10*time.Second {
					t.Fatalf("seed %d: after %s without trouble: %s\n%s", seed, w.now.Sub(began), why, w)
				}
			}
		}
		worst = max(worst, settled.Sub(began))
	}
	t.Logf("settled within %s at worst", worst)
}

// TestTakeOver: with the default timing, another replica replaces a lost one, and everybody routes to it, within want. The usual limit is 1 s. The limit of 1.4
// s follows from TCP, which retransmits after 0.2, 0.6, 1.4 and 3 s; it applies after earlier faults, on busy hosts, and while the Service still routes to a
// dead server. In that last case each attempt reaches the dead server with a probability of one half, so a few cases may take longer. With three clients, those
// that dialed without success wait for each other, for up to 1.8 s.
func TestTakeOver(t *testing.T) {
	for _, test := range []struct {
		side            Role
		replicas        int
		stale, troubled bool
		// busy is the additional transmission time of packets to the other side, starting with the loss.
		busy time.Duration
		want time.Duration
		// late is the percentage of cases that may take longer than want.
		late int
	}{
		{Client, 2, false, false, 0, time.Second, 0},
		{Server, 2, false, false, 0, time.Second, 0},
		{Server, 2, true, false, 0, 1400 * time.Millisecond, 2},
		{Server, 2, true, false, 30 * time.Millisecond, 1400 * time.Millisecond, 5},
		{Client, 2, false, false, 60 * time.Millisecond, 1400 * time.Millisecond, 0},
		{Client, 2, false, true, 0, 1400 * time.Millisecond, 0},
		{Server, 2, false, true, 0, 1400 * time.Millisecond, 0},
		{Client, 3, false, false, 0, time.Second, 0},
		{Client, 3, false, true, 0, 1800 * time.Millisecond, 0},
		{Server, 3, false, true, 0, 1400 * time.Millisecond, 0},
	} {
		side := test.side
		var all []time.Duration
		for seed := range uint64(200) {
			w := newTunnelWorld(seed, test.replicas, test.replicas)
			if test.troubled {
				w.trouble(0, 0.05)
				for _, r := range slices.Concat(w.clients, w.servers) {
					r.dead = false
				}
				w.run(10 * time.Second)
			}
			w.run(5*time.Second + time.Duration(w.random.IntN(100))*tick)
			if why := w.works(); why != "" {
				t.Fatalf("seed %d: it did not come up: %s\n%s", seed, why, w)
			}
			w.stale = test.stale
			for _, r := range either(side == Client, w.clients, w.servers) {
				if r.State == Active {
					w.crash(r)
				}
			}
			w.far = test.busy
			began := w.now
			for w.works() != "" && w.now.Sub(began) < 10*time.Second {
				w.run(tick)
			}
			all = append(all, w.now.Sub(began))
		}
		slices.Sort(all)
		worst := all[len(all)*(100-test.late)/100-1]
		t.Logf("%s lost of %d, stale %t, troubled %t, busy %s: replaced within %s, half of the time within %s, and within %s at worst", side, test.replicas,
			test.stale, test.troubled, test.busy, worst, all[len(all)/2], all[len(all)-1])
		if worst > test.want {
			t.Errorf("a lost %s of %d is replaced within %s, want %s", side, test.replicas, worst, test.want)
		}
	}
}

// TestWorkingTunnelStays: no client opens a new session while the tunnel works, whatever happens to standby replicas.
func TestWorkingTunnelStays(t *testing.T) {
	for seed := range uint64(50) {
		w := newTunnelWorld(seed, 3, 3)
		w.run(10 * time.Second)
		if why := w.works(); why != "" {
			t.Fatalf("seed %d: %s\n%s", seed, why, w)
		}
		var working []*replica
		sessions := map[string]int{}
		for _, r := range slices.Concat(w.clients, w.servers) {
			if r.State == Active {
				working = append(working, r)
				sessions[r.name] = r.Session
			}
		}
		for range 10 {
			for _, r := range slices.Concat(w.clients, w.servers) {
				switch {
				case slices.Contains(working, r):
				case r.dead:
					r.dead = false
				case w.random.IntN(2) == 0:
					w.crash(r)
				}
			}
			w.run(3 * time.Second)
			for _, r := range working {
				if r.State != Active || r.Session != sessions[r.name] {
					t.Fatalf("seed %d: %s was disturbed\n%s", seed, r.name, w)
				}
			}
			if why := w.works(); why != "" {
				t.Fatalf("seed %d: %s\n%s", seed, why, w)
			}
		}
	}
}

// TestFarPeersConnect: a client that does not know the round trip time yet gives a distant server enough time to answer.
func TestFarPeersConnect(t *testing.T) {
	for seed := range uint64(100) {
		w := newTunnelWorld(seed, 1+int(seed%2), 1+int(seed/2%2))
		w.far = time.Duration(w.random.IntN(450)) * time.Millisecond
		w.run(20 * time.Second)
		if why := w.works(); why != "" {
			t.Fatalf("seed %d: %s away: %s\n%s", seed, w.far, why, w)
		}
	}
}

// TestSplitBrainHeals: two clients that cannot reach each other both dial. When they can reach each other again, one of them stops.
func TestSplitBrainHeals(t *testing.T) {
	for seed := range uint64(100) {
		w := newTunnelWorld(seed, 2, 1+int(seed%2))
		w.cut[[2]string{"client-0", "client-1"}] = true
		w.run(10 * time.Second)
		dialing := 0
		for _, c := range w.clients {
			dialing += either(c.State == Standby, 0, 1)
		}
		if dialing != 2 {
			t.Fatalf("seed %d: %d clients dial although none hears another", seed, dialing)
		}
		clear(w.cut)
		w.run(5 * time.Second)
		if why := w.works(); why != "" {
			t.Fatalf("seed %d: %s\n%s", seed, why, w)
		}
	}
}

// TestSingleReplicaDialsAtOnce: a client without siblings dials at once, and never stops dialing.
func TestSingleReplicaDialsAtOnce(t *testing.T) {
	start := time.Unix(1000, 0)
	r, _ := Replica{}.Next(Client, Observation{Now: start, Self: "a"}, DefaultTiming(interval, lossThreshold))
	if r.State != Dialing || !r.Peered {
		t.Fatalf("it does not dial: %+v", r)
	}
	sessions := r.Session
	for now := start; now.Sub(start) < time.Minute; now = now.Add(tick) {
		r, _ = r.Next(Client, Observation{Now: now, Self: "a"}, DefaultTiming(interval, lossThreshold))
		if r.State != Dialing {
			t.Fatalf("it gave up after %s", now.Sub(start))
		}
	}
	if dialed := r.Session - sessions; dialed < 30 || dialed > 32 { // two attempts in the first second, later one every two seconds
		t.Errorf("it dialed %d times in a minute", dialed)
	}
	server, _ := Replica{}.Next(Server, Observation{Now: start, Self: "a"}, DefaultTiming(interval, lossThreshold))
	made := server.Session
	server, _ = server.Next(Server, Observation{Now: start.Add(time.Hour), Pong: start.Add(time.Second), Self: "a"}, DefaultTiming(interval, lossThreshold))
	if server.Session != made || server.State != Standby {
		t.Errorf("a server alone forgot its client: %+v", server)
	}
}

// TestClocksAreSetBack: WireGuard reports handshakes in wall-clock time. A handshake in the future does not count.
func TestClocksAreSetBack(t *testing.T) {
	seen := Observation{Now: time.Unix(1000, 0), Self: "a", Siblings: map[string]ProbeResult{"b": {}}}
	r, _ := Replica{}.Next(Server, seen, DefaultTiming(interval, lossThreshold))
	made := r.Session
	seen.Pong, seen.Handshake = seen.Now.Add(tick), seen.Now.Add(time.Hour)
	seen.Now = seen.Now.Add(time.Minute)
	if r, _ = r.Next(Server, seen, DefaultTiming(interval, lossThreshold)); r.Session != made+1 {
		t.Error("a server that lost its client a minute ago remembers it")
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	endpoints := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")}
	one, ok := Replica{Session: 1}.Endpoint(endpoints)
	two, _ := Replica{Session: 2}.Endpoint(endpoints)
	if !ok || one != endpoints[0] || two != endpoints[1] {
		t.Errorf("%s, then %s", one, two)
	}
	// Endpoint 2 worked and then stopped working: the client tries it first, and again after each other endpoint.
	seen := Observation{Now: time.Unix(1000, 0), Self: "a"}
	r, _ := Replica{}.Next(Client, seen, DefaultTiming(interval, lossThreshold))
	for r.Session < 2 {
		seen.Now = seen.Now.Add(tick)
		r, _ = r.Next(Client, seen, DefaultTiming(interval, lossThreshold))
	}
	seen.Now = seen.Now.Add(tick)
	seen.Pong = seen.Now
	r, _ = r.Next(Client, seen, DefaultTiming(interval, lossThreshold))
	var dialed []netip.AddrPort
	for session := r.Session; len(dialed) < 4; seen.Now = seen.Now.Add(tick) {
		if r, _ = r.Next(Client, seen, DefaultTiming(interval, lossThreshold)); r.Session != session {
			session = r.Session
			endpoint, _ := r.Endpoint(endpoints)
			dialed = append(dialed, endpoint)
		}
	}
	if want := []netip.AddrPort{endpoints[1], endpoints[0], endpoints[1], endpoints[1]}; !slices.Equal(dialed, want) {
		t.Errorf("dialed %v, want %v", dialed, want)
	}
	if _, ok := (Replica{}).Endpoint(nil); ok {
		t.Error("an endpoint out of none")
	}
}

func TestRotation(t *testing.T) {
	first, second, none := dataplane.PublicKey{1}, dataplane.PublicKey{2}, dataplane.PublicKey{}
	r := Rotation{}.Step(none, nil)
	if len(r.Peers(netip.AddrPort{})) != 0 {
		t.Errorf("peers without a key: %v", r)
	}
	r = r.Step(first, nil)
	r = r.Step(second, nil)
	peers := r.Peers(netip.AddrPort{})
	if len(peers) != 2 || peers[0].Key != first || !peers[0].Carries || peers[1].Key != second || peers[1].Carries {
		t.Errorf("before the handshake: %+v", peers)
	}
	if kept := r.Step(none, nil); kept.Present != first {
		t.Errorf("the key went with its object: %+v", kept)
	}
	if back := r.Step(first, nil); back.Next != none {
		t.Errorf("a change of mind: %+v", back)
	}
	r = r.Step(second, map[dataplane.PublicKey]time.Time{second: time.Unix(1, 0)})
	if peers := r.Peers(netip.AddrPort{}); len(peers) != 1 || peers[0].Key != second || !peers[0].Carries {
		t.Errorf("after the handshake: %+v", peers)
	}
}
