package enrollment

import (
	"io"
	"log"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// maxOpen is the maximum number of open connections, and maxOpenOfSource the maximum for one source. A connection may last as long as readTimeout
	// before the service knows whether its client has a token, so one source must not be able to take all of them. Behind the address translation of
	// a node, many clients are one source.
	maxOpen         = 512
	maxOpenOfSource = 64
	// maxSources is the maximum number of sources with a rate limit of their own.
	maxSources = 4096
	// prefix6 is the length of the IPv6 prefix that one subscriber has: all addresses in it count as one source.
	prefix6 = 64
)

// limits has a rate limit for each source, and one for all sources together. It forgets sources that have been idle. If more than
// maxSources are active, the rest share one limit.
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

// allow reports whether one more request or connection of a source is within the limits. A request beyond the limit of its source does not count
// against the limit for all sources.
func (l *limits) allow(source netip.Addr) bool { return l.of(source).Allow() && l.all.Allow() }

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

// sourceOf returns the source of a connection: its IPv4 address, or its IPv6 prefix. It returns the zero value for an address that can't be
// parsed.
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

// bounded is a listener that closes excess connections before anything is read from them: a TLS handshake is more expensive for the server
// than for the client.
type bounded struct {
	net.Listener
	limits *limits
	// ofSource is the maximum number of open connections of one source, and most the maximum of all sources together.
	ofSource, most int

	mu   sync.Mutex
	open map[netip.Addr]int
	all  int
}

func newBounded(listener net.Listener, limits *limits, ofSource, most int) *bounded {
	return &bounded{Listener: listener, limits: limits, ofSource: ofSource, most: most, open: map[netip.Addr]int{}}
}

// Accept waits for a connection within the limits and returns it.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// A source with too many open connections does not use up the rate of all sources.
		if source := sourceOf(conn.RemoteAddr().String()); b.enter(source) {
			if b.limits.allow(source) {
				return &counted{Conn: conn, leave: func() { b.leave(source) }}, nil
			}
			b.leave(source)
		}
		_ = conn.Close()
	}
}

// enter counts a connection of a source and reports whether there is room for it.
func (b *bounded) enter(source netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= b.most || b.open[source] >= b.ofSource {
		return false
	}
	b.all++
	b.open[source]++
	return true
}

func (b *bounded) leave(source netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.open[source]--; b.open[source] == 0 {
		delete(b.open, source)
	}
}

// counted is a connection that is no longer counted once it is closed.
type counted struct {
	net.Conn
	leave func()
	once  sync.Once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// quiet returns a logger for the HTTP server that discards everything: otherwise any client could fill the log.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
