package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// tunnels counts the open tunnels, limits their number, and closes them.
type tunnels struct {
	perSource, total int

	mu     sync.Mutex
	open   map[netip.Addr]int
	count  int
	ending bool
	begun  map[*tunnel]struct{}
	idle   chan struct{} // closed when the last tunnel ends; nil unless wait is running
}

// tunnel is a reserved tunnel. It counts against the limits until it is released.
type tunnel struct {
	of     *tunnels
	source netip.Addr
	sides  []net.Conn
}

// reserve reserves a tunnel for the source, or refuses.
func (t *tunnels) reserve(source netip.Addr) (*tunnel, *refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ending:
		return nil, refuse(http.StatusServiceUnavailable, "this proxy is shutting down: try again, another replica may be running")
	case t.open[source] >= t.perSource:
		return nil, refuse(http.StatusTooManyRequests, "%s has %d open connections, the maximum of one address", source, t.perSource)
	case t.count >= t.total:
		return nil, refuse(http.StatusTooManyRequests, "%d connections are open, the maximum of this proxy", t.total)
	}
	t.open[source]++
	t.count++
	return &tunnel{of: t, source: source}, nil
}

// begin registers the connections that have to be closed at the end of the grace period. It returns false if the shutdown has
// already started.
func (u *tunnel) begin(sides ...net.Conn) bool {
	t := u.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return false
	}
	u.sides = sides
	t.begun[u] = struct{}{}
	return true
}

func (u *tunnel) release() {
	t := u.of
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.begun, u)
	t.count--
	if t.open[u.source]--; t.open[u.source] == 0 {
		delete(t.open, u.source)
	}
	if t.idle != nil && t.count == 0 {
		close(t.idle)
		t.idle = nil
	}
}

// stop makes reserve refuse all further tunnels.
func (t *tunnels) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
}

// wait returns when all open tunnels have ended. If ctx ends first, it closes them. Call stop before wait.
func (t *tunnels) wait(ctx context.Context) {
	t.mu.Lock()
	idle := make(chan struct{})
	if t.count == 0 {
		close(idle)
	} else {
		t.idle = idle
	}
	t.mu.Unlock()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	t.mu.Lock()
	for u := range t.begun {
		for _, side := range u.sides {
			shut(side)
		}
	}
	t.mu.Unlock()
	<-idle
}
