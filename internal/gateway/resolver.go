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

// resolveAgain is the interval between two DNS lookups of the same host name.
const resolveAgain = 30 * time.Second

// resolveTimeout limits one lookup.
const resolveTimeout = 5 * time.Second

// Resolver resolves the addresses of an endpoint (IP addresses and host names) to addresses that can be dialed. A result stays
// until another one replaces it: a failed lookup changes nothing.
type Resolver struct {
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	changed func()
	wake    chan struct{}

	mu    sync.Mutex
	hosts []string
	found map[string][]netip.Addr
}

// NewResolver returns a Resolver without any result. It calls changed whenever the result of a lookup changes.
func NewResolver(changed func()) *Resolver {
	return &Resolver{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		changed: changed, wake: make(chan struct{}, 1), found: map[string][]netip.Addr{},
	}
}

// Endpoints returns the known addresses of the hosts, in the order of the hosts. A changed list of hosts starts a lookup in the
// background (see Run).
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

// Run resolves host names until ctx ends.
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
		slices.SortFunc(addresses, func(a, b netip.Addr) int { // IPv4 first: a tunnel over IPv4 has more room for payload
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
