package gateway

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// resolveAgain is how often host names are looked up anew.
const resolveAgain = 30 * time.Second

// resolveTimeout bounds one look-up.
const resolveTimeout = 5 * time.Second

// Resolver turns the addresses of an endpoint, IP addresses and host names, into what can be dialed. What was found stays until something
// else is found: an unanswered question is no answer.
type Resolver struct {
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	changed func()
	wake    chan struct{}

	mu    sync.Mutex
	hosts []string
	found map[string][]netip.Addr
}

// NewResolver returns a Resolver that knows nothing; changed is told when something else is found.
func NewResolver(changed func()) *Resolver {
	return &Resolver{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		changed: changed, wake: make(chan struct{}, 1), found: map[string][]netip.Addr{},
	}
}

// Endpoints returns what these hosts are known as, in their order, and looks up those that are not known yet.
func (r *Resolver) Endpoints(hosts []string, port uint16) []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(hosts, r.hosts) {
		r.hosts = slices.Clone(hosts)
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	var endpoints []netip.AddrPort
	for _, host := range hosts {
		addresses := r.found[host]
		if ip, err := netip.ParseAddr(strings.TrimSpace(host)); err == nil {
			addresses = []netip.Addr{ip}
		}
		for _, a := range addresses {
			if e := netip.AddrPortFrom(a.Unmap(), port); !slices.Contains(endpoints, e) {
				endpoints = append(endpoints, e)
			}
		}
	}
	return endpoints
}

// Run looks host names up until ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	tick := time.NewTicker(resolveAgain)
	defer tick.Stop()
	for {
		r.resolve(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-tick.C:
		}
	}
}

func (r *Resolver) resolve(ctx context.Context) {
	r.mu.Lock()
	hosts := slices.Clone(r.hosts)
	r.mu.Unlock()
	for _, host := range hosts {
		if _, err := netip.ParseAddr(strings.TrimSpace(host)); err == nil {
			continue
		}
		asking, stop := context.WithTimeout(ctx, resolveTimeout)
		addresses, err := r.lookup(asking, host)
		stop()
		if err != nil || len(addresses) == 0 {
			continue
		}
		for i, a := range addresses {
			addresses[i] = a.Unmap()
		}
		slices.SortFunc(addresses, func(a, b netip.Addr) int { // a tunnel over IPv4 carries more
			if a.Is4() != b.Is4() {
				return map[bool]int{true: -1, false: 1}[a.Is4()]
			}
			return a.Compare(b)
		})
		r.mu.Lock()
		same := slices.Equal(r.found[host], addresses)
		r.found[host] = addresses
		r.mu.Unlock()
		if !same {
			r.changed()
		}
	}
}
