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

	"liqo.io/liqo/internal/trigger"
)

// outstanding is the number of latest pings whose answers count. The pinger ignores answers to older pings.
const outstanding = 32

// PingStats is the result of the pings to the peer through the tunnel.
type PingStats struct {
	// Last is the arrival time of the latest answer. Sent is the time at which the answered ping was sent. Both are zero before the first answer.
	Last, Sent time.Time
	// RTT is the round-trip time of that ping.
	RTT time.Duration
	// Pings counts the pings sent, Pongs those answered.
	Pings, Pongs uint64
}

// Silence returns the time since the latest answer. It returns 0 if there is no answer yet, or if the latest answer arrived later than now.
func (p PingStats) Silence(now time.Time) time.Duration {
	if p.Last.IsZero() {
		return 0
	}
	return max(now.Sub(p.Last), 0)
}

// PingerOptions are the options of a Pinger.
type PingerOptions struct {
	// ClusterID is the ID of this cluster. Pings contain it as information for the peer.
	ClusterID string
	// Far is the address and port of the peer's ping responder. Address and Local are the local address and port, and Link is the
	// link to send through. Without Address or Link, the kernel chooses.
	Far     netip.AddrPort
	Address netip.Addr
	Local   uint16
	Link    string
	// Interval is the time between two pings.
	Interval time.Duration
	// OnPong is called with the round-trip time of each answer. OnShutdownNotice is called when the peer's replica announces that it is about
	// to end. Both may be nil.
	OnPong           func(rtt time.Duration)
	OnShutdownNotice func()
}

// Pinger pings the other side of the tunnel.
type Pinger struct {
	opts PingerOptions
	now  trigger.Trigger

	mu     sync.Mutex
	paused bool
	socket *net.UDPConn // nil while no socket is open
	stats  PingStats
	sent   [outstanding]time.Time // send times; ping number n is at n modulo outstanding
}

// NewPinger returns a Pinger that has not sent any ping.
func NewPinger(opts PingerOptions) *Pinger { return &Pinger{opts: opts, now: trigger.New()} }

// PingNow sends a ping at once, in addition to the regular ones, for example because the tunnel may just have come up. It never blocks.
func (p *Pinger) PingNow() { p.now.Fire() }

// Pause stops the pings for good.
func (p *Pinger) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
}

// Leave notifies the other side that this replica is about to end, so that the peer need not detect it by a timeout.
func (p *Pinger) Leave() error {
	text, err := json.Marshal(pingMessage{ClusterID: p.opts.ClusterID, Type: bye, Time: time.Now()})
	if err != nil {
		return err
	}
	p.mu.Lock()
	socket := p.socket
	p.mu.Unlock()
	if socket == nil {
		return nil // no socket, so the peer is unreachable
	}
	if _, err := socket.WriteToUDPAddrPort(text, netip.AddrPortFrom(p.opts.Far.Addr(), p.opts.Local)); err != nil {
		return fmt.Errorf("notifying the peer of the shutdown: %w", err)
	}
	return nil
}

// PingStats returns the latest results.
func (p *Pinger) PingStats() PingStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Run sends pings until ctx ends. Without a link, address or route there are no answers; Run returns no error for that.
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
				go p.receive(opened)
			}
		}
		if socket != nil {
			// A socket bound to a link that was recreated is useless.
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

// local returns the local address to listen on, as package net expects it.
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
	p.sent[p.stats.Pings%outstanding] = now
	p.stats.Pings++
	p.mu.Unlock()
	text, err := json.Marshal(pingMessage{ClusterID: p.opts.ClusterID, Type: ping, Time: now})
	if err != nil {
		return err
	}
	_, err = socket.WriteToUDPAddrPort(text, p.opts.Far)
	return err
}

// receive handles answers until the socket is closed.
func (p *Pinger) receive(socket *net.UDPConn) {
	buffer := make([]byte, messageSize)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = socket.Close() // the next ping finds the socket closed and opens another one
			return
		}
		var answer pingMessage
		if from.Addr().Unmap() != p.opts.Far.Addr() || json.Unmarshal(buffer[:n], &answer) != nil {
			continue
		}
		switch {
		case answer.Type == pong:
			p.answered(answer.Time, time.Now())
		case answer.Type == bye && p.opts.OnShutdownNotice != nil:
			p.opts.OnShutdownNotice()
		}
	}
}

// answered records the first answer to one of the recent pings; it ignores all other answers.
func (p *Pinger) answered(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.sent {
		asked := p.sent[i] // has a monotonic clock reading, unlike the time in the answer
		if asked.IsZero() || !asked.Equal(sent) {
			continue
		}
		p.sent[i] = time.Time{}
		p.stats.Pongs++
		rtt := now.Sub(asked)
		if asked.After(p.stats.Sent) {
			p.stats.Last, p.stats.Sent, p.stats.RTT = now, asked, rtt
		}
		if p.opts.OnPong != nil {
			p.opts.OnPong(rtt)
		}
		return
	}
}
