package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// rest is how long a socket that fails is left alone.
const rest = 100 * time.Millisecond

const (
	// answersAgain is for how long a question is answered once more when the answer changes: longer than anybody waits between two.
	answersAgain = time.Second
	// askersMost bounds how many are remembered for that; whoever is not asks again.
	askersMost = 4096
)

// responder answers pings and probes; it sends nothing unasked.
type responder struct {
	directory string
	began     time.Time
	lastPing  atomic.Int64 // unix nanoseconds
}

func newResponder(directory string) *responder {
	return &responder{directory: directory, began: time.Now()}
}

// asker is the last question of somebody.
type asker struct {
	text []byte
	at   time.Time
}

// servePings answers the peer's pings on an address, heard through one link, until ctx ends.
func (r *responder) servePings(ctx context.Context, address, link string) error {
	return serve(ctx, address, link, func(text []byte, from netip.AddrPort, reply reply) {
		if answer, err := answerPing(text); err == nil {
			r.lastPing.Store(time.Now().UnixNano())
			reply(answer, from)
		}
	})
}

// serveProbes answers who asks what this replica is, until ctx ends. When the agent tells of a change, everybody who asked a moment ago is
// answered again: the routes of a whole cluster wait for it.
func (r *responder) serveProbes(ctx context.Context, address string) error {
	askers := map[netip.AddrPort]asker{}
	return serve(ctx, address, "", func(text []byte, from netip.AddrPort, reply reply) {
		told, at, err := Announced(r.directory)
		if err != nil {
			return // as long as the agent's file can't be read, nothing is known
		}
		now := time.Now()
		say := func(question []byte, to netip.AddrPort) bool {
			text, err := answerProbe(question, answer(told, at, r.began, time.Unix(0, r.lastPing.Load()), now))
			if err == nil {
				reply(text, to)
			}
			return err == nil
		}
		if len(text) > 0 {
			if !say(text, from) {
				return
			}
			if len(askers) >= askersMost {
				maps.DeleteFunc(askers, func(_ netip.AddrPort, a asker) bool { return now.Sub(a.at) > answersAgain })
			}
			if len(askers) < askersMost {
				askers[from] = asker{bytes.Clone(text), now}
			}
			return
		}
		if !from.Addr().Unmap().IsLoopback() {
			return
		}
		maps.DeleteFunc(askers, func(_ netip.AddrPort, a asker) bool { return now.Sub(a.at) > answersAgain })
		for to, question := range askers {
			say(question.text, to)
		}
	})
}

// tellOfChange has the responder on a port of this pod look at what was announced.
func tellOfChange(port uint16) error {
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)))
	if err != nil {
		return fmt.Errorf("telling of a change: %w", err)
	}
	defer socket.Close() //nolint:errcheck // nothing is read from it
	if _, err := socket.Write(nil); err != nil {
		return fmt.Errorf("telling of a change: %w", err)
	}
	return nil
}

// reply sends a datagram. Who does not get it asks again.
type reply func(text []byte, to netip.AddrPort)

// serve hands each datagram to a function, with what it may reply through.
func serve(ctx context.Context, address, link string, heard func(text []byte, from netip.AddrPort, reply reply)) error {
	socket, err := listen(ctx, address, link)
	if err != nil {
		return fmt.Errorf("listening on UDP %s: %w", address, err)
	}
	defer closeWith(ctx, socket)()
	send := func(text []byte, to netip.AddrPort) { _, _ = socket.WriteToUDPAddrPort(text, to) }
	buffer := make([]byte, messageSize)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listening on UDP %s: %w", address, err)
		case err != nil: // the link is away for a moment: what is here must outlive that
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
			continue
		}
		heard(buffer[:n], from, send)
	}
}
