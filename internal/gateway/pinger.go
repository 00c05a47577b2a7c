package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// outstanding is how many pings may be on their way; answers to older ones do not count.
const outstanding = 32

// Pulse is what is known of the peer on the other side of the tunnel.
type Pulse struct {
	// Last is when the last answer came, Sent when the ping before it that it answers was sent. Zero while there was none.
	Last, Sent time.Time
	// RTT is how long that answer took.
	RTT time.Duration
	// Pings and Pongs count what was sent and answered.
	Pings, Pongs uint64
}

// PingerOptions of a Pinger.
type PingerOptions struct {
	// ClusterID of this cluster, for the peer's eyes.
	ClusterID string
	// Far is the address and port that answers, Address and Local are where to ask from, Link the link to ask through; Address and Link
	// may be left to the kernel.
	Far     netip.AddrPort
	Address netip.Addr
	Local   uint16
	Link    string
	// Interval between pings.
	Interval time.Duration
	// Heard is told of the time each answer took, Left when the other side is about to end.
	Heard func(rtt time.Duration)
	Left  func()
}

// Pinger asks the other side of the tunnel whether it is there.
type Pinger struct {
	opts PingerOptions
	now  chan struct{}

	mu     sync.Mutex
	paused bool
	socket *net.UDPConn // nil while there is none
	pulse  Pulse
	sent   [outstanding]time.Time // by number of the ping
}

// NewPinger returns a Pinger that has not asked yet.
func NewPinger(opts PingerOptions) *Pinger { return &Pinger{opts: opts, now: make(chan struct{}, 1)} }

// Ask asks at once, besides at every interval: the way may just have come up. It never waits.
func (p *Pinger) Ask() {
	select {
	case p.now <- struct{}{}:
	default: // about to
	}
}

// Pause ends the asking for good.
func (p *Pinger) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
}

// Leave tells the other side that this one is about to end: it need not find out by silence.
func (p *Pinger) Leave() error {
	text, err := json.Marshal(pingMessage{ClusterID: p.opts.ClusterID, Type: bye, Time: time.Now()})
	if err != nil {
		return err
	}
	p.mu.Lock()
	socket := p.socket
	p.mu.Unlock()
	if socket == nil {
		return nil // there is no way to the other side
	}
	if _, err := socket.WriteToUDPAddrPort(text, netip.AddrPortFrom(p.opts.Far.Addr(), p.opts.Local)); err != nil {
		return fmt.Errorf("taking leave of the peer: %w", err)
	}
	return nil
}

// Pulse tells what is known at the moment.
func (p *Pinger) Pulse() Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pulse
}

// Run asks until ctx ends. While there is no link, address or route, nobody answers; that is all that it means.
func (p *Pinger) Run(ctx context.Context) error {
	tick := time.NewTicker(p.opts.Interval)
	defer tick.Stop()
	var socket *net.UDPConn
	done := func() {}
	defer func() { done() }()
	for {
		if socket == nil {
			if opened, err := listen(ctx, p.local(), p.opts.Link); err == nil {
				socket, done = opened, closeWith(ctx, opened)
				p.use(opened)
				go p.hear(opened)
			}
		}
		if socket != nil {
			// A socket bound to a link that was made anew is of no use any more.
			if err := p.ask(socket); err != nil {
				done()
				socket, done = nil, func() {}
				p.use(nil)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.now:
		case <-tick.C:
		}
	}
}

// local is where to ask from, in the words of package net.
func (p *Pinger) local() string {
	if !p.opts.Address.IsValid() {
		return fmt.Sprintf(":%d", p.opts.Local)
	}
	return netip.AddrPortFrom(p.opts.Address, p.opts.Local).String()
}

func (p *Pinger) use(socket *net.UDPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.socket = socket
}

func (p *Pinger) ask(socket *net.UDPConn) error {
	p.mu.Lock()
	if p.paused {
		p.mu.Unlock()
		return nil
	}
	now := time.Now()
	p.sent[p.pulse.Pings%outstanding] = now
	p.pulse.Pings++
	p.mu.Unlock()
	text, err := json.Marshal(pingMessage{ClusterID: p.opts.ClusterID, Type: ping, Time: now})
	if err != nil {
		return err
	}
	_, err = socket.WriteToUDPAddrPort(text, p.opts.Far)
	return err
}

// hear takes answers until the socket closes.
func (p *Pinger) hear(socket *net.UDPConn) {
	buffer := make([]byte, messageSize)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = socket.Close() // the next ping finds it closed and opens another
			return
		}
		var answer pingMessage
		if from.Addr().Unmap() != p.opts.Far.Addr() || json.Unmarshal(buffer[:n], &answer) != nil {
			continue
		}
		switch {
		case answer.Type == pong:
			p.answered(answer.Time, time.Now())
		case answer.Type == bye && p.opts.Left != nil:
			p.opts.Left()
		}
	}
}

// answered takes note of an answer to a ping, if it is one to a ping of ours, and the first.
func (p *Pinger) answered(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.sent {
		asked := p.sent[i] // knows the monotonic clock, as what came back does not
		if asked.IsZero() || !asked.Equal(sent) {
			continue
		}
		p.sent[i] = time.Time{}
		p.pulse.Pongs++
		rtt := now.Sub(asked)
		if asked.After(p.pulse.Sent) {
			p.pulse.Last, p.pulse.Sent, p.pulse.RTT = now, asked, rtt
		}
		if p.opts.Heard != nil {
			p.opts.Heard(rtt)
		}
		return
	}
}
