package network

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// The tunnel decides which replica of a gateway is active, not a lease. Gateways hold no state of flows, so two active replicas do no harm, and the
// election does not need the API server. The peer's gateway has one session, and the replica with that session is active.

// State is the state of a replica.
type State string

// The states of replicas. Only clients dial.
const (
	Standby State = "standby"
	Dialing State = "dialing"
	Active  State = "active"
)

// Answer is a replica's answer to a probe on ProbePort. It contains a duration and no timestamp, so clocks need not agree.
type Answer struct {
	State State `json:"state"`
	// For is how long the replica has been in State, in nanoseconds.
	For time.Duration `json:"for"`
}

// ProbeResult is the last answer of a replica and its time of arrival. The zero value means that no answer has arrived yet.
type ProbeResult struct {
	Answer
	At time.Time
}

// since returns the time when the replica entered its state, by the clock of the receiver. The result is late by the transmission time of the answer.
func (h ProbeResult) since() time.Time { return h.At.Add(-h.For) }

// alive reports whether the answer is newer than t.Silence.
func (h ProbeResult) alive(now time.Time, t Timing) bool {
	return !h.At.IsZero() && now.Sub(h.At) < t.Silence
}

// Timing holds the time limits and intervals of the election.
type Timing struct {
	// Lost is the time without a pong after which the tunnel counts as lost: ping interval times loss threshold. While other traffic arrives
	// through the tunnel, pongs may be late behind it, and the limit is Deaf instead. After Deaf without a pong, the far side probably does
	// not receive this side's packets. A replica without siblings waits for Alone instead of Lost: no other replica takes over faster, and on a
	// busy host a new session interrupts a tunnel whose pongs are only late.
	Lost, Alone, Deaf time.Duration
	// Redial is the minimum time that a client waits for the first pong before it dials again. It waits at least twice the round trip. The
	// third attempt waits twice as long and later ones four times as long, because the round trip may be long and is unknown before the
	// first pong.
	Redial time.Duration
	// Again replaces Redial if the round trip is known, until Yield has passed. The client waits at least three times the round trip, and an eighth
	// more after each failed attempt. Many short attempts are best here: the Service may send some of them to a server that is down. After a
	// handshake the server is known to run, and a late pong means a busy host or link. The client then waits at least Redial for the first pong.
	Again time.Duration
	// Silence is the time without an answer after which a sibling counts as gone. It is also how long a standby client waits for a sibling
	// to dial. Rank is the extra time that a standby client waits for each sibling that comes before it.
	Silence, Rank time.Duration
	// Yield is how long a client dials without success before it lets a sibling try.
	Yield time.Duration
	// Forget is how long a server with siblings keeps a session without a pong.
	Forget time.Duration
	// ProbeInterval is the interval at which replicas of one gateway probe each other. Watch is the interval at which nodes and other gateways probe
	// them. It is longer because there are many nodes, and because a replica reports a change to all clients that probed it within the last second.
	ProbeInterval, Watch time.Duration
}

// DefaultTiming returns the timing for a ping interval and a loss threshold, the number of pings that may be lost.
func DefaultTiming(interval time.Duration, threshold int) Timing {
	return Timing{
		Lost: interval * time.Duration(threshold), Alone: 2 * interval * time.Duration(threshold), Deaf: 4 * interval * time.Duration(threshold),
		Redial: 500 * time.Millisecond, Again: 60 * time.Millisecond,
		Silence: 500 * time.Millisecond, Rank: 500 * time.Millisecond,
		Yield: 5 * time.Second, Forget: 3 * time.Second, ProbeInterval: 100 * time.Millisecond, Watch: 250 * time.Millisecond,
	}
}

// Replica is the election state of one replica of a gateway. The zero value is a replica that just started.
type Replica struct {
	State State
	// Since is the time at which the replica entered State.
	Since time.Time
	// Peered: WireGuard must have the peer. Session counts how often the peer had to be recreated. When Session changes, the peer is removed
	// and added again; a client then uses a new local port and the endpoint that Session selects (see Endpoint).
	Peered  bool
	Session int
	// Made is the time at which Session began.
	Made time.Time
	// dialing is the time since which the replica dials without success. vain is the number of failed attempts since then.
	dialing time.Time
	vain    int
	// worked is the last session that worked. best is the index of its endpoint.
	worked, best int
	// yielded: the replica dialed without success and lets its siblings dial first.
	yielded bool
}

// Observation holds the observations on which a replica decides.
type Observation struct {
	Now time.Time
	// Pong is the time of the last pong through the tunnel. Received is the last time at which any traffic is known to have arrived through
	// it. Handshake is the time of WireGuard's last handshake. Zero means never.
	Pong, Received, Handshake time.Time
	// RTT is the round trip time through the tunnel; 0: unknown.
	RTT time.Duration
	// Self is the name of this replica's pod. Siblings has the last answer of every other pod of the gateway, by name; the zero value if the
	// pod never answered.
	Self     string
	Siblings map[string]ProbeResult
}

// Next returns the replica's next state, and the latest time at which the caller must call Next again. The caller may call it at any time.
func (r Replica) Next(role Role, s Observation, t Timing) (Replica, time.Time) {
	if r.State == "" {
		r.State, r.Since, r.Made = Standby, s.Now, s.Now
	}
	if role == Server {
		return r.server(s, t)
	}
	return r.client(s, t)
}

// Answer returns the replica's answer to a probe on ProbePort.
func (r Replica) Answer(now time.Time) Answer { return Answer{State: r.State, For: now.Sub(r.Since)} }

// Endpoint returns the endpoint that a client dials in this session; false if there is none. The client tries the endpoints one after the other. It
// starts with the endpoint that worked last, and tries that one again after each other endpoint: the server may be reachable there again, while the
// other endpoints may never be.
func (r Replica) Endpoint(endpoints []netip.AddrPort) (netip.AddrPort, bool) {
	if len(endpoints) == 0 {
		return netip.AddrPort{}, false
	}
	return endpoints[r.endpoint()%len(endpoints)], true
}

// endpoint returns the index of the endpoint for this session. It may exceed the number of endpoints.
func (r Replica) endpoint() int {
	tries := r.Session - r.worked
	switch {
	case r.worked == 0:
		return max(r.Session-1, 0) // the first session is number 1
	case tries%2 == 1:
		return r.best
	}
	return r.best + tries/2
}

// server returns the next state of a server, which is active while pongs arrive. All servers have the peer in WireGuard. If a server has siblings and
// gets no more packets of its client, the client may have switched to a sibling. The server must then drop its session: its pings would otherwise
// make the client's WireGuard send to this server again.
func (r Replica) server(s Observation, t Timing) (Replica, time.Time) {
	r.Peered = true
	r = r.into(either(r.works(s, t), Active, Standby), s.Now)
	last := s.Pong
	if !s.Handshake.After(s.Now) { // otherwise, the clock was set back since then
		last = latest(s.Pong, s.Handshake)
	}
	if len(s.Siblings) > 0 && last.After(r.Made) && s.Now.Sub(last) >= t.Forget {
		return r.redial(s.Now), s.Now.Add(t.ProbeInterval)
	}
	return r, s.Now.Add(t.ProbeInterval)
}

func (r Replica) client(s Observation, t Timing) (Replica, time.Time) {
	if r.State == Standby {
		wait := r.backoff(s, t)
		if s.Now.Sub(latest(r.Since, s.busy())) < wait {
			return r, s.Now.Add(min(t.ProbeInterval, wait))
		}
		r.yielded = false
		return r.dial(s, t)
	}
	if r.shouldYield(s, t) {
		return r.hangUp(s.Now), s.Now.Add(t.ProbeInterval)
	}
	switch {
	case r.works(s, t):
		if r.State != Active {
			r = r.into(Active, s.Now)
		}
		r.worked, r.best = r.Session, r.endpoint()
		return r, s.Now.Add(t.ProbeInterval)
	case r.State == Active:
		return r.dial(s, t)
	case s.Now.Sub(r.dialing) >= t.Yield && s.anyAlive(t):
		r = r.hangUp(s.Now)
		r.yielded = true
		return r, s.Now.Add(t.ProbeInterval)
	case s.Now.Sub(r.Made) >= r.attempt(s, t):
		r.vain++
		r = r.redial(s.Now)
	}
	return r, r.Made.Add(r.attempt(s, t))
}

// dial returns the replica in state Dialing, and when its first attempt ends.
func (r Replica) dial(s Observation, t Timing) (Replica, time.Time) {
	r.dialing, r.vain = s.Now, 0
	return r.into(Dialing, s.Now).redial(s.Now), s.Now.Add(r.attempt(s, t))
}

// works reports whether the tunnel works: a pong arrived in this session, and not too long ago. On a busy host, pongs are late behind other traffic.
// So received traffic counts too, until t.Deaf after the last pong.
func (r Replica) works(s Observation, t Timing) bool {
	observed := s.Pong
	if s.Now.Sub(s.Pong) < t.Deaf {
		observed = latest(s.Pong, s.Received)
	}
	return r.Peered && s.Pong.After(r.Made) && s.Now.Sub(observed) < either(len(s.Siblings) > 0, t.Lost, t.Alone)
}

// shouldYield reports whether a sibling takes precedence, so that this client must stop. Of two active clients, the one that became active later
// stays, because the server has its session. The answer of a sibling takes time to arrive, which makes the sibling look newer. So at least one of the
// two stops. Of two dialing clients, the first by name stays.
func (r Replica) shouldYield(s Observation, t Timing) bool {
	for name, h := range s.Siblings {
		if !h.alive(s.Now, t) {
			continue
		}
		switch {
		case r.State == Dialing && h.State == Active,
			r.State == Dialing && h.State == Dialing && name < s.Self,
			r.State == Active && h.State == Active && !h.since().Before(r.Since):
			return true
		}
	}
	return false
}

// backoff returns how long a standby client waits for siblings to dial. It waits longer for each reachable sibling that comes before it.
func (r Replica) backoff(s Observation, t Timing) time.Duration {
	if len(s.Siblings) == 0 {
		return 0
	}
	rank := 0
	for name, h := range s.Siblings {
		if h.alive(s.Now, t) && (r.yielded || name < s.Self) {
			rank++
		}
	}
	if r.yielded && rank > 0 {
		rank++ // the siblings do not know that this replica yielded, and wait for it
	}
	return t.Silence + time.Duration(rank)*t.Rank
}

// attempt returns how long one attempt to dial lasts.
func (r Replica) attempt(s Observation, t Timing) time.Duration {
	if s.RTT > 0 && s.Now.Sub(r.dialing) < t.Yield {
		again := max(t.Again, 3*s.RTT)
		again += time.Duration(r.vain) * again / 8
		if s.Handshake.After(r.Made) {
			return max(again, t.Redial)
		}
		return again
	}
	return max(t.Redial, 2*s.RTT) << min(max(r.vain-1, 0), 2)
}

func (r Replica) into(state State, now time.Time) Replica {
	if r.State != state {
		r.State, r.Since = state, now
	}
	return r
}

func (r Replica) redial(now time.Time) Replica {
	r.Peered, r.Made = true, now
	r.Session++
	return r
}

func (r Replica) hangUp(now time.Time) Replica {
	r.Peered = false
	return r.into(Standby, now)
}

// busy returns when a sibling last answered that it is active or dialing.
func (s Observation) busy() time.Time {
	var last time.Time
	for _, h := range s.Siblings {
		if h.State == Active || h.State == Dialing {
			last = latest(last, h.At)
		}
	}
	return last
}

func (s Observation) anyAlive(t Timing) bool {
	for _, h := range s.Siblings {
		if h.alive(s.Now, t) {
			return true
		}
	}
	return false
}

// Choose returns the address of the gateway pod that other hosts route to. It prefers the pod that became active last, then the present one, then a
// pod that answers, then the pod that first returns. answers are by address. Without candidates, the result is the zero Addr.
func Choose(candidates []Candidate, present netip.Addr, answers map[netip.Addr]ProbeResult, now time.Time, t Timing) netip.Addr {
	if len(candidates) == 0 {
		return netip.Addr{}
	}
	if !slices.ContainsFunc(candidates, func(c Candidate) bool { return c.IP == present }) {
		present = netip.Addr{}
	}
	var active, alive []netip.Addr
	for _, c := range candidates {
		if h := answers[c.IP]; h.alive(now, t) {
			alive = append(alive, c.IP)
			if h.State == Active {
				active = append(active, c.IP)
			}
		}
	}
	switch {
	case len(active) > 0:
		return slices.MaxFunc(active, func(a, b netip.Addr) int { return answers[a].since().Compare(answers[b].since()) })
	case present.IsValid(): // no other candidate is known to be better
		return present
	case len(alive) > 0:
		return alive[0]
	}
	return first(candidates).IP
}

// first returns the candidate to use while no candidate has answered: the oldest ready one, or the oldest one if none is ready.
func first(candidates []Candidate) Candidate {
	return slices.MinFunc(candidates, func(a, b Candidate) int {
		if a.Ready != b.Ready {
			return either(a.Ready, -1, 1)
		}
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Pod, b.Pod))
	})
}

// FirstChoice returns the result of Choose for each peer before any replica has answered, by cluster ID.
func FirstChoice(f *Facts) map[string]netip.Addr {
	choice := make(map[string]netip.Addr, len(f.Peers))
	for _, p := range f.Peers {
		if addr := Choose(p.Candidates, netip.Addr{}, nil, time.Time{}, Timing{}); addr.IsValid() {
			choice[p.ClusterID] = addr
		}
	}
	return choice
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}

// either returns yes if the condition holds, otherwise no.
func either[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
