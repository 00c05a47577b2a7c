package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	tick          = 10 * time.Millisecond
	interval      = 100 * time.Millisecond
	lossThreshold = 5
)

// tunnelWorld simulates a tunnel with several replicas at both ends. It loses packets, crashes replicas, and cuts connections. It behaves like
// WireGuard behind a Service: a server has one session, with the client of the last handshake, and answers to the address of the last packet. A
// dialing client reaches some server, and the same one as long as it keeps its port.
type tunnelWorld struct {
	random *rand.Rand
	now    time.Time
	timing Timing
	loss   float64
	// far is the transmission time to the other side, in addition to a minimum.
	far time.Duration
	// cut contains pairs of names of replicas that can't reach each other.
	cut map[[2]string]bool
	// stale means that the Service still routes to crashed servers.
	stale            bool
	clients, servers []*replica
	nodes            map[Role]netip.Addr
	heard            map[Role]map[netip.Addr]ProbeResult
	later            []delivery
}

type replica struct {
	Replica
	name      string
	ip        netip.Addr
	role      Role
	dead      bool
	wake      time.Time
	pong      time.Time
	rtt       time.Duration
	handshake time.Time
	siblings  map[string]ProbeResult
	session   int // the value of Replica.Session for which the last dial was made
	// far is the server that receives the packets of a client's port. For a server, current and previous are the client and port of its sessions, and reply is
	// where it sends its answers.
	far                      *replica
	current, previous, reply port
	pinged                   time.Time
}

// port identifies the local port of a client in one session.
type port struct {
	client  *replica
	session int
}

type delivery struct {
	at time.Time
	do func()
}

func newTunnelWorld(seed uint64, clients, servers int) *tunnelWorld {
	w := &tunnelWorld{random: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1000, 0), timing: DefaultTiming(interval, lossThreshold),
		cut: map[[2]string]bool{}, nodes: map[Role]netip.Addr{}, heard: map[Role]map[netip.Addr]ProbeResult{Client: {}, Server: {}}}
	for i := range clients {
		w.clients = append(w.clients, &replica{name: fmt.Sprint("client-", i), role: Client, ip: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), siblings: map[string]ProbeResult{}})
	}
	for i := range servers {
		w.servers = append(w.servers, &replica{name: fmt.Sprint("server-", i), role: Server, ip: netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), siblings: map[string]ProbeResult{}})
	}
	for _, all := range [][]*replica{w.clients, w.servers} {
		for _, a := range all {
			for _, b := range all {
				if a != b {
					a.siblings[b.name] = ProbeResult{}
				}
			}
		}
	}
	return w
}

func (w *tunnelWorld) hears(a, b *replica) bool {
	return !a.dead && !b.dead && !w.cut[[2]string{a.name, b.name}] && !w.cut[[2]string{b.name, a.name}] && w.random.Float64() >= w.loss
}

// send calls do after the transmission time from a to b, unless the packet is lost.
func (w *tunnelWorld) send(a, b *replica, do func()) {
	if w.hears(a, b) {
		way := tick + time.Duration(w.random.IntN(2))*tick
		if a.role != b.role {
			way += w.far
		}
		w.later = append(w.later, delivery{w.now.Add(way), func() {
			if !b.dead {
				do()
			}
		}})
	}
}

func (w *tunnelWorld) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(tick) {
		due := w.later
		w.later = nil
		for _, l := range due {
			if l.at.After(w.now) {
				w.later = append(w.later, l)
			} else {
				l.do()
			}
		}
		for _, all := range [][]*replica{w.clients, w.servers} {
			if w.now.UnixMilli()%w.timing.ProbeInterval.Milliseconds() == 0 {
				w.askEachOther(all)
			}
			if w.now.UnixMilli()%w.timing.Watch.Milliseconds() == 0 {
				w.watch(all)
			}
			w.choose(all)
		}
		for _, r := range slices.Concat(w.clients, w.servers) {
			before := r.State
			if w.step(r); r.State != before {
				w.tell(r)
			}
		}
	}
}

// askEachOther lets siblings probe each other.
func (w *tunnelWorld) askEachOther(all []*replica) {
	for _, a := range all {
		for _, b := range all {
			if a != b {
				w.send(a, b, func() { w.answer(b, a) })
			}
		}
	}
}

func (w *tunnelWorld) answer(b, a *replica) {
	answer := b.Answer(w.now)
	w.send(b, a, func() { a.siblings[b.name], a.wake = ProbeResult{answer, w.now}, w.now })
}

// watch lets the node of this side probe all replicas.
func (w *tunnelWorld) watch(all []*replica) {
	for _, r := range all {
		w.answerNode(r)
	}
}

func (w *tunnelWorld) answerNode(r *replica) {
	if !r.dead && r.State != "" && w.random.Float64() >= w.loss {
		w.heard[r.role][r.ip] = ProbeResult{r.Answer(w.now), w.now}
	}
}

// tell sends the state of a replica to all clients that probed it recently, as after a change.
func (w *tunnelWorld) tell(r *replica) {
	w.answerNode(r)
	for _, a := range either(r.role == Client, w.clients, w.servers) {
		if a != r {
			w.answer(r, a)
		}
	}
}

// choose lets the node choose the active gateway again.
func (w *tunnelWorld) choose(all []*replica) {
	var candidates []Candidate
	for _, r := range all {
		candidates = append(candidates, Candidate{Pod: r.name, IP: r.ip})
	}
	role := all[0].role
	w.nodes[role] = Choose(candidates, w.nodes[role], w.heard[role], w.now, w.timing)
}

// step runs one step of the agent of a replica.
func (w *tunnelWorld) step(r *replica) {
	if r.dead {
		return
	}
	if !w.now.Before(r.wake) {
		seen := Observation{Now: w.now, Pong: r.pong, Handshake: r.handshake, RTT: r.rtt, Self: r.name, Siblings: r.siblings}
		r.Replica, r.wake = r.Next(r.role, seen, w.timing)
	}
	if r.session != r.Session {
		r.session = r.Session
		r.current, r.previous, r.reply = port{}, port{}, port{}
		if r.role == Client {
			w.dial(r)
		}
	}
	if w.now.Sub(r.pinged) >= interval {
		w.ping(r)
	}
}

// dial performs a handshake from a new port.
func (w *tunnelWorld) dial(c *replica) {
	c.far = nil
	var backends []*replica
	for _, s := range w.servers {
		if !s.dead || w.stale {
			backends = append(backends, s)
		}
	}
	if len(backends) == 0 {
		return
	}
	s, mine := backends[w.random.IntN(len(backends))], port{c, c.session}
	w.send(c, s, func() {
		s.previous, s.current, s.reply, s.handshake = s.current, mine, mine, w.now
		w.send(s, c, func() {
			if c.session == mine.session && c.Peered {
				c.far, c.handshake = s, w.now
				w.ping(c)
			}
		})
	})
}

// ping sends a ping to the endpoint that WireGuard would use. The answer goes to the endpoint that the other side would use.
func (w *tunnelWorld) ping(r *replica) {
	r.pinged = w.now
	if r.role == Client {
		s, mine := r.far, port{r, r.session}
		if s == nil || !r.Peered {
			return
		}
		at := w.now
		w.send(r, s, func() {
			if s.current != mine && s.previous != mine {
				return
			}
			s.reply = mine
			w.pong(s, mine, at)
		})
		return
	}
	if to := r.reply; to.client != nil && to == r.current {
		w.send(r, to.client, func() {
			if to.client.session == to.session && to.client.Peered && to.client.far == r {
				w.send(to.client, r, func() {
					if r.current == to {
						r.pong, r.wake = w.now, w.now
					}
				})
			}
		})
	}
}

// pong delivers an answer if the client has the keys of the session that the server used.
func (w *tunnelWorld) pong(s *replica, to port, asked time.Time) {
	if s.current != to {
		return
	}
	w.send(s, to.client, func() {
		if c := to.client; c.session == to.session && c.Peered {
			c.pong, c.wake, c.rtt = w.now, w.now, w.now.Sub(asked)
		}
	})
}

func (w *tunnelWorld) crash(r *replica) {
	r.dead = true
	*r = replica{name: r.name, role: r.role, ip: r.ip, dead: true, siblings: r.siblings}
	for name := range r.siblings {
		r.siblings[name] = ProbeResult{}
	}
}

// trouble simulates 20 to 60 seconds in which replicas crash and restart, can't reach each other, and lose packets at one of the given rates. At the
// end, crashed replicas stay down; all other faults end.
func (w *tunnelWorld) trouble(losses ...float64) {
	all := slices.Concat(w.clients, w.servers)
	for range 20 {
		w.loss, w.stale = losses[w.random.IntN(len(losses))], w.random.IntN(2) == 0
		switch a, b := all[w.random.IntN(len(all))], all[w.random.IntN(len(all))]; w.random.IntN(4) {
		case 0:
			w.crash(a)
		case 1:
			w.cut[[2]string{a.name, b.name}] = true
		case 2:
			clear(w.cut)
		case 3:
			a.dead = false
		}
		w.run(time.Second + time.Duration(w.random.IntN(200))*tick)
	}
	w.loss, w.stale = 0, false
	clear(w.cut)
}

// works returns a description of the fault, empty if there is none: each side must have one active replica, both must have a session with each other,
// and all nodes must route to them.
func (w *tunnelWorld) works() string {
	active := func(all []*replica) (found []*replica) {
		for _, r := range all {
			if !r.dead && r.State == Active {
				found = append(found, r)
			}
		}
		return found
	}
	clients, servers := active(w.clients), active(w.servers)
	switch {
	case len(clients) != 1 || len(servers) != 1:
		return fmt.Sprintf("%d active clients, %d active servers", len(clients), len(servers))
	case servers[0].current.client != clients[0]:
		return "the active ones have no session with each other"
	case w.nodes[Client] != clients[0].ip || w.nodes[Server] != servers[0].ip:
		return "nodes route to others"
	}
	return ""
}

func (w *tunnelWorld) String() string {
	var b strings.Builder
	for _, r := range slices.Concat(w.clients, w.servers) {
		fmt.Fprintf(&b, "%s dead=%v %s since %s, session %d, pong %s ago\n", r.name, r.dead, r.State, w.now.Sub(r.Since), r.Session, w.now.Sub(r.pong))
	}
	return b.String()
}
