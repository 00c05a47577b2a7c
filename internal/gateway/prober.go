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

// ProberOptions are the options of a Prober.
type ProberOptions struct {
	// Port is the UDP port on which replicas answer.
	Port uint16
	// Interval is the time between two probes of the same replica.
	Interval time.Duration
	// Changed is called after each answer that differs from the previous one. It may be nil.
	Changed func()
}

// Prober probes replicas of gateways for their state.
type Prober struct {
	opts ProberOptions

	mu       sync.Mutex
	replicas map[netip.Addr]*asked
}

// asked holds the last answer of a replica and the nonce of the latest probe sent to it.
type asked struct {
	result network.ProbeResult
	nonce  uint64
}

// NewProber returns a Prober without any replica to probe.
func NewProber(opts ProberOptions) *Prober {
	return &Prober{opts: opts, replicas: map[netip.Addr]*asked{}}
}

// SetReplicas sets the replicas to probe. Answers of replicas that were already probed are kept.
func (p *Prober) SetReplicas(replicas []netip.Addr) {
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

// Results returns the last answer of each probed replica.
func (p *Prober) Results() map[netip.Addr]network.ProbeResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[netip.Addr]network.ProbeResult, len(p.replicas))
	for replica, known := range p.replicas {
		out[replica] = known.result
	}
	return out
}

// Run sends probes until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	socket, err := listen(ctx, ":0", "")
	if err != nil {
		return fmt.Errorf("opening a socket to probe replicas of gateways: %w", err)
	}
	defer closeWith(ctx, socket)()
	go p.receive(socket)
	tick := time.NewTicker(p.opts.Interval)
	defer tick.Stop()
	for {
		for replica, text := range p.questions() {
			_, _ = socket.WriteToUDPAddrPort(text, netip.AddrPortFrom(replica, p.opts.Port)) // an unreachable replica does not answer
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// questions creates a new probe for each replica. From then on, the prober ignores answers to older probes.
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

func (p *Prober) receive(socket *net.UDPConn) {
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

// answered records an answer and reports whether it differs from the previous one. It ignores answers to anything but the latest
// probe. A replica may answer the latest probe again when its state changes.
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
	before := known.result
	known.result = network.ProbeResult{Answer: answer.Answer, At: now}
	// If the replica entered its state after the previous answer, it had left that state in between, even if the state is the same.
	return before.At.IsZero() || before.State != answer.State || answer.For < now.Sub(before.At)
}
