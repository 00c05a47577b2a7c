package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// rest is how long a socket that fails is left alone.
const rest = 100 * time.Millisecond

// responder answers pings and probes; it sends nothing unasked.
type responder struct {
	directory string
	lastPing  atomic.Int64 // unix nanoseconds
}

func newResponder(directory string) *responder { return &responder{directory: directory} }

// servePings answers the peer's pings on an address, heard through one link, until ctx ends.
func (r *responder) servePings(ctx context.Context, address, link string) error {
	return serve(ctx, address, link, func(text []byte) ([]byte, error) {
		answer, err := answerPing(text)
		if err == nil {
			r.lastPing.Store(time.Now().UnixNano())
		}
		return answer, err
	})
}

// serveProbes answers who asks what this replica is, until ctx ends.
func (r *responder) serveProbes(ctx context.Context, address string) error {
	return serve(ctx, address, "", func(text []byte) ([]byte, error) {
		told, at, err := Announced(r.directory)
		if err != nil {
			return nil, err
		}
		return answerProbe(text, answer(told, at, time.Unix(0, r.lastPing.Load()), time.Now()))
	})
}

// serve answers each datagram with what answer makes of it. One that it makes an error of is not answered: it came from somebody else.
func serve(ctx context.Context, address, link string, answer func([]byte) ([]byte, error)) error {
	socket, err := listen(ctx, address, link)
	if err != nil {
		return fmt.Errorf("listening on UDP %s: %w", address, err)
	}
	defer closeWith(ctx, socket)()
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
		if reply, err := answer(buffer[:n]); err == nil {
			_, _ = socket.WriteToUDPAddrPort(reply, from) // who asked asks again
		}
	}
}
