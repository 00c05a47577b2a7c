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

// rest is the pause after a failed read from a socket.
const rest = 100 * time.Millisecond

const (
	// answersAgain is the time after a probe during which the responder also sends each change of the state to the client that probed. It is longer than the
	// interval at which any client probes.
	answersAgain = time.Second
	// askersMost is the maximum number of clients that the responder remembers. Further clients learn of a new state only through the answer to their next
	// probe.
	askersMost = 4096
)

// responder answers pings and probes. It sends nothing to clients that did not ask.
type responder struct {
	directory string
	began     time.Time
	lastPing  atomic.Int64 // Unix time in nanoseconds
}

func newResponder(directory string) *responder {
	return &responder{directory: directory, began: time.Now()}
}

// asker is the last probe of a client.
type asker struct {
	text []byte
	at   time.Time
}

// servePings answers the peer's pings on an address until ctx ends. It receives them through one link only.
func (r *responder) servePings(ctx context.Context, address, link string) error {
	return serve(ctx, address, link, func(text []byte, from netip.AddrPort, reply reply) {
		if answer, err := answerPing(text); err == nil {
			r.lastPing.Store(time.Now().UnixNano())
			reply(answer, from)
		}
	})
}

// serveProbes answers probes about the state of this replica until ctx ends. When the agent signals a change (see notifyResponder),
// it also answers all recent probes again, because the routes of a whole cluster depend on the new state.
func (r *responder) serveProbes(ctx context.Context, address string) error {
	askers := map[netip.AddrPort]asker{}
	return serve(ctx, address, "", func(text []byte, from netip.AddrPort, reply reply) {
		reported, at, err := PublishedStatus(r.directory)
		if err != nil {
			return // while the agent's file is unreadable, the state is unknown
		}
		now := time.Now()
		say := func(question []byte, to netip.AddrPort) bool {
			text, err := answerProbe(question, answer(reported, at, r.began, time.Unix(0, r.lastPing.Load()), now))
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

// notifyResponder makes the responder on a port of this pod re-read the announced state. It sends an empty datagram from the
// loopback address.
func notifyResponder(port uint16) error {
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)))
	if err != nil {
		return fmt.Errorf("notifying of a change: %w", err)
	}
	defer socket.Close() //nolint:errcheck // nothing is read from it
	if _, err := socket.Write(nil); err != nil {
		return fmt.Errorf("notifying of a change: %w", err)
	}
	return nil
}

// reply sends a datagram. A client that does not receive it repeats the request.
type reply func(text []byte, to netip.AddrPort)

// serve calls receive for each datagram received, with a function to send replies.
func serve(ctx context.Context, address, link string, receive func(text []byte, from netip.AddrPort, reply reply)) error {
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
		case err != nil: // the link may be missing for a moment, and the server must survive that
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
			continue
		}
		receive(buffer[:n], from, send)
	}
}
