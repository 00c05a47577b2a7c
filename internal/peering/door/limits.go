package door

import (
	"io"
	"log"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// maxOpen is how many connections are open at a time.
	maxOpen = 128
	// maxSources is how many sources are told apart.
	maxSources = 4096
	// prefix6 is what one subscriber has of IPv6: another address in it is no other source.
	prefix6 = 64
)

// limits is a rate for each source and one for all. It forgets sources that have been quiet, and where there are more than it remembers, the
// rest counts as one.
type limits struct {
	every rate.Limit
	burst int
	all   *rate.Limiter

	mu      sync.Mutex
	sources map[netip.Addr]*rate.Limiter
	others  *rate.Limiter
}

func newLimits(perSecond float64, burst int, allPerSecond float64, allBurst int) *limits {
	return &limits{
		every: rate.Limit(perSecond), burst: burst, all: rate.NewLimiter(rate.Limit(allPerSecond), allBurst),
		sources: map[netip.Addr]*rate.Limiter{}, others: rate.NewLimiter(rate.Limit(perSecond), burst),
	}
}

// allow tells whether one more is fine. A source that has had its share takes nothing from the others'.
func (l *limits) allow(remote string) bool { return l.of(sourceOf(remote)).Allow() && l.all.Allow() }

func (l *limits) of(source netip.Addr) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.sources[source]; known != nil {
		return known
	}
	if len(l.sources) >= maxSources {
		for other, limiter := range l.sources {
			if limiter.Tokens() >= float64(l.burst) {
				delete(l.sources, other)
			}
		}
	}
	if len(l.sources) >= maxSources {
		return l.others
	}
	fresh := rate.NewLimiter(l.every, l.burst)
	l.sources[source] = fresh
	return fresh
}

// sourceOf is who is behind the address of a connection; the zero value for one that can't be read.
func sourceOf(remote string) netip.Addr {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	address := parsed.Addr().Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(prefix6); err == nil {
			return prefix.Addr()
		}
	}
	return address
}

// bounded closes connections that are too many before anything is read from them: a TLS handshake costs us more than them.
type bounded struct {
	net.Listener
	limits *limits
	open   chan struct{}
}

// Accept waits for a connection that is within the bounds.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.limits.allow(conn.RemoteAddr().String()) {
			select {
			case b.open <- struct{}{}:
				return &counted{Conn: conn, open: b.open}, nil
			default:
			}
		}
		_ = conn.Close()
	}
}

// counted is a connection that gives its place back when it is closed.
type counted struct {
	net.Conn
	open chan struct{}
	once sync.Once
}

// Close ends the connection.
func (c *counted) Close() error {
	c.once.Do(func() { <-c.open })
	return c.Conn.Close()
}

// quiet is the log of the HTTP server: whoever connects could write to it.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
