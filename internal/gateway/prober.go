package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"liqo.io/liqo/internal/network"
)

// ProberOptions of a Prober.
type ProberOptions struct {
	// Port that replicas answer on.
	Port uint16
	// Interval between questions.
	Interval time.Duration
	// Changed is called after an answer that differs from the one before, and may be nil.
	Changed func()
}

// Prober asks replicas of gateways what they are.
type Prober struct {
	opts ProberOptions

	mu       sync.Mutex
	replicas map[netip.Addr]*asked
}

// asked is a replica and the question to it that is open.
type asked struct {
	heard network.Heard
	nonce uint64
}

// NewProber returns a Prober that asks nobody.
func NewProber(opts ProberOptions) *Prober {
	return &Prober{opts: opts, replicas: map[netip.Addr]*asked{}}
}

// Ask sets whom to ask; what was heard of those that stay is kept.
func (p *Prober) Ask(replicas []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[netip.Addr]*asked, len(replicas))
	for _, replica := range replicas {
		if known, ok := p.replicas[replica]; ok {
			wanted[replica] = known
		} else {
			wanted[replica] = &asked{}
		}
	}
	p.replicas = wanted
}

// Heard returns what each replica that is asked last answered.
func (p *Prober) Heard() map[netip.Addr]network.Heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[netip.Addr]network.Heard, len(p.replicas))
	for replica, known := range p.replicas {
		out[replica] = known.heard
	}
	return out
}

// Run asks until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	socket, err := listen(ctx, ":0", "")
	if err != nil {
		return fmt.Errorf("opening a socket to ask replicas of gateways: %w", err)
	}
	defer closeWith(ctx, socket)()
	go p.hear(socket)
	tick := time.NewTicker(p.opts.Interval)
	defer tick.Stop()
	for {
		for replica, text := range p.questions() {
			_, _ = socket.WriteToUDPAddrPort(text, netip.AddrPortFrom(replica, p.opts.Port)) // who can't be reached does not answer
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// questions makes a new one for each replica; an answer to an older one counts no more.
func (p *Prober) questions() map[netip.Addr][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[netip.Addr][]byte, len(p.replicas))
	for replica, known := range p.replicas {
		var nonce [8]byte
		_, _ = rand.Read(nonce[:]) // never fails
		known.nonce = binary.BigEndian.Uint64(nonce[:])
		text, err := json.Marshal(probeMessage{Nonce: known.nonce})
		if err == nil {
			out[replica] = text
		}
	}
	return out
}

func (p *Prober) hear(socket *net.UDPConn) {
	buffer := make([]byte, messageSize)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var answer probeMessage
		if err != nil || json.Unmarshal(buffer[:n], &answer) != nil {
			continue
		}
		if p.answered(from.Addr().Unmap(), answer, time.Now()) && p.opts.Changed != nil {
			p.opts.Changed()
		}
	}
}

// answered takes note of an answer and tells whether it is another one than before. One that was not asked for is passed over; the last
// question may be answered again, when the answer changes.
func (p *Prober) answered(from netip.Addr, answer probeMessage, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.replicas[from]
	if !ok || answer.Nonce != known.nonce || answer.Nonce == 0 {
		return false
	}
	switch answer.State {
	case network.Active, network.Dialing, network.Standby:
	default:
		return false
	}
	before := known.heard
	known.heard = network.Heard{Answer: answer.Answer, At: now}
	// Shorter in its state than between the two answers: it left it and came back.
	return before.At.IsZero() || before.State != answer.State || answer.For < now.Sub(before.At)
}
