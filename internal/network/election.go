package network

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Which replica of a gateway is at work is decided by the tunnel and never by a lease: gateways hold no state of flows, so two at work
// at once do no harm, and nothing of this needs the API server. The far gateway has one session, and whoever has it is active.

// State of a replica.
type State string

// States of replicas. Only clients dial.
const (
	Standby State = "standby"
	Dialing State = "dialing"
	Active  State = "active"
)

// Answer is what a replica tells who asks on AskPort. The time is a length and no date, so clocks need not agree.
type Answer struct {
	State State `json:"state"`
	// For is how long it has been in State.
	For time.Duration `json:"for"`
}

// Heard is an answer and when it came. The zero value says that none came yet.
type Heard struct {
	Answer
	At time.Time
}

// since is when the answering one came into its state, by the clock of who asked; late by the time that the answer took to arrive.
func (h Heard) since() time.Time { return h.At.Add(-h.For) }

// alive tells whether the answer is fresh.
func (h Heard) alive(now time.Time, t Timing) bool {
	return !h.At.IsZero() && now.Sub(h.At) < t.Silence
}

// Timing is how long what takes.
type Timing struct {
	// Lost is how long the tunnel may be without a pong before it counts as lost: ping interval times loss threshold. Deaf is how long it may be
	// while something comes through it: then pongs are late behind it, or this side is not heard any more.
	Lost, Deaf time.Duration
	// Redial is how long a client waits for the first pong before it dials again: twice the round trip where that is longer, and more at each
	// vain attempt after the second, up to four times that, since the round trip may be long and is not known before the first pong.
	Redial time.Duration
	// Again is how long an attempt takes instead where the round trip is known: three times that where it is longer, and a sixteenth more at each
	// vain attempt, until Yield. A Service may lead to a server that is gone for a while, so what counts is the number of attempts.
	Again time.Duration
	// Silence is after how long without an answer a sibling counts as gone, and how long a standby client waits for somebody else to
	// dial. Rank is how much longer each waits for those that come before it.
	Silence, Rank time.Duration
	// Yield is how long a client dials in vain before it lets a sibling try.
	Yield time.Duration
	// Forget is how long a server with siblings keeps a session without a pong.
	Forget time.Duration
	// Ask is how often siblings ask each other, Watch how often nodes and other gateways ask the replicas of a gateway that has several: there are
	// many of them, and a change is told to whoever asked within the last second.
	Ask, Watch time.Duration
}

// DefaultTiming is the timing for pings every interval of which threshold may be lost.
func DefaultTiming(interval time.Duration, threshold int) Timing {
	return Timing{
		Lost: interval * time.Duration(threshold), Deaf: 4 * interval * time.Duration(threshold), Redial: 500 * time.Millisecond, Again: 60 * time.Millisecond,
		Silence: 500 * time.Millisecond, Rank: 500 * time.Millisecond,
		Yield: 5 * time.Second, Forget: 3 * time.Second, Ask: 100 * time.Millisecond, Watch: 250 * time.Millisecond,
	}
}

// Replica is where one replica of a gateway stands. The zero value is one that just started.
type Replica struct {
	State State
	// Since is when it came into State.
	Since time.Time
	// Peered tells that WireGuard is to have the peer. Session numbers how often the peer was to be made anew: when it changes, the
	// peer is removed and added again, for a client with a new local port and the endpoint that Session selects (see Endpoint).
	Peered  bool
	Session int
	// Made is when Session began.
	Made time.Time
	// dialing is when it began to dial without success, vain how many attempts it made since.
	dialing time.Time
	vain    int
	// worked is the last session that worked, best the number of the endpoint that it had.
	worked, best int
	// yielded tells that it dialed in vain and lets others go first.
	yielded bool
}

// Seen is what a replica sees when it decides.
type Seen struct {
	Now time.Time
	// Pong is when the last answer to a ping came through the tunnel, Received when it was last known that anything did, Handshake when WireGuard
	// last shook hands; zero for never.
	Pong, Received, Handshake time.Time
	// RTT is the round trip through the tunnel, 0 while unknown.
	RTT time.Duration
	// Self is the name of this replica's pod, Siblings what the other pods of the gateway answered, by name: one entry for each, also
	// for those that never did.
	Self     string
	Siblings map[string]Heard
}

// Next decides what a replica is from now on, and when it wants to be asked again at the latest. It may be asked at any time.
func (r Replica) Next(role Role, s Seen, t Timing) (Replica, time.Time) {
	if r.State == "" {
		r.State, r.Since, r.Made = Standby, s.Now, s.Now
	}
	if role == Server {
		return r.server(s, t)
	}
	return r.client(s, t)
}

// Answer is what the replica tells others.
func (r Replica) Answer(now time.Time) Answer { return Answer{State: r.State, For: now.Sub(r.Since)} }

// Endpoint selects what a client dials in this session out of all the addresses it has: one after the other, and in between, and first of all,
// the one that worked. Behind it may be another server now, while others may lead nowhere.
func (r Replica) Endpoint(endpoints []netip.AddrPort) (netip.AddrPort, bool) {
	if len(endpoints) == 0 {
		return netip.AddrPort{}, false
	}
	return endpoints[r.endpoint()%len(endpoints)], true
}

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

// server is active while it hears pongs. All servers listen; one that lost its client must fall silent, or its pings would draw the
// client's session away from the server it went on to.
func (r Replica) server(s Seen, t Timing) (Replica, time.Time) {
	r.Peered = true
	r = r.into(either(r.works(s, t), Active, Standby), s.Now)
	last := s.Pong
	if !s.Handshake.After(s.Now) { // or the clock was set back since
		last = latest(s.Pong, s.Handshake)
	}
	if len(s.Siblings) > 0 && last.After(r.Made) && s.Now.Sub(last) >= t.Forget {
		return r.redial(s.Now), s.Now.Add(t.Ask)
	}
	return r, s.Now.Add(t.Ask)
}

func (r Replica) client(s Seen, t Timing) (Replica, time.Time) {
	if r.State == Standby {
		wait := r.patience(s, t)
		if s.Now.Sub(latest(r.Since, s.busy())) < wait {
			return r, s.Now.Add(min(t.Ask, wait))
		}
		r.yielded = false
		return r.dial(s, t)
	}
	if r.outdone(s, t) {
		return r.hangUp(s.Now), s.Now.Add(t.Ask)
	}
	switch {
	case r.works(s, t):
		if r.State != Active {
			r = r.into(Active, s.Now)
		}
		r.worked, r.best = r.Session, r.endpoint()
		return r, s.Now.Add(t.Ask)
	case r.State == Active:
		return r.dial(s, t)
	case s.Now.Sub(r.dialing) >= t.Yield && s.anyAlive(t):
		r = r.hangUp(s.Now)
		r.yielded = true
		return r, s.Now.Add(t.Ask)
	case s.Now.Sub(r.Made) >= r.attempt(s, t):
		r.vain++
		r = r.redial(s.Now)
	}
	return r, r.Made.Add(r.attempt(s, t))
}

// dial begins to.
func (r Replica) dial(s Seen, t Timing) (Replica, time.Time) {
	r.dialing, r.vain = s.Now, 0
	return r.into(Dialing, s.Now).redial(s.Now), s.Now.Add(r.attempt(s, t))
}

// works tells whether a pong came in this session, and lately. On a host that is busy pongs are late behind other traffic, which tells as much.
func (r Replica) works(s Seen, t Timing) bool {
	heard := s.Pong
	if s.Now.Sub(s.Pong) < t.Deaf {
		heard = latest(s.Pong, s.Received)
	}
	return r.Peered && s.Pong.After(r.Made) && s.Now.Sub(heard) < t.Lost
}

// outdone tells whether a sibling is at work instead of this client. Of two active ones the newer stays, because its session is the one
// that the server has. An answer makes its sender look newer than it is by the time it took to arrive, so it can't happen that neither
// gives way. Of two that dial, the first by name stays.
func (r Replica) outdone(s Seen, t Timing) bool {
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

// patience is how long a standby client leaves it to others to dial: to those of them that are there, and that come before it.
func (r Replica) patience(s Seen, t Timing) time.Duration {
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
		rank++ // the others don't know, and wait for it
	}
	return t.Silence + time.Duration(rank)*t.Rank
}

// attempt is how long one attempt to dial lasts.
func (r Replica) attempt(s Seen, t Timing) time.Duration {
	if s.RTT > 0 && s.Now.Sub(r.dialing) < t.Yield {
		again := max(t.Again, 3*s.RTT)
		return again + time.Duration(r.vain)*again/16
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

// busy is when a sibling last told that it works or dials.
func (s Seen) busy() time.Time {
	var last time.Time
	for _, h := range s.Siblings {
		if h.State == Active || h.State == Dialing {
			last = latest(last, h.At)
		}
	}
	return last
}

func (s Seen) anyAlive(t Timing) bool {
	for _, h := range s.Siblings {
		if h.alive(s.Now, t) {
			return true
		}
	}
	return false
}

// Choose returns the gateway pod that others are to route to: the one that became active last, else the present one, else one that answers, else
// the likeliest. answers are by address. It is not valid only when there are no candidates.
func Choose(candidates []Candidate, present netip.Addr, answers map[netip.Addr]Heard, now time.Time, t Timing) netip.Addr {
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
	case present.IsValid(): // none other does more
		return present
	case len(alive) > 0:
		return alive[0]
	}
	return first(candidates).IP
}

// first is the candidate to begin with while nothing is known: one that Kubernetes holds for ready, the oldest of them.
func first(candidates []Candidate) Candidate {
	return slices.MinFunc(candidates, func(a, b Candidate) int {
		if a.Ready != b.Ready {
			return either(a.Ready, -1, 1)
		}
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Pod, b.Pod))
	})
}

// FirstChoice is Choose for all peers while nobody was asked yet: the gateways with one replica, and the likeliest of the others.
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

// either is yes if the condition holds, no if not.
func either[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
