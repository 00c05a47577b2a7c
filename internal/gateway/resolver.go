package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/trigger"
)

// resolveAgain is the interval between two DNS lookups of the same host name.
const resolveAgain = 30 * time.Second

// resolveTimeout limits one lookup.
const resolveTimeout = 5 * time.Second

// maxResolved is the maximum number of addresses of one host name. The peer controls its DNS, and the gateway tries all addresses in turn, so
// with a long answer it would take long to reach the address that works. The gateway uses only the first maxResolved addresses: IPv4 before IPv6,
// then in ascending order. This order depends only on the addresses, so that a name server that rotates its answers causes no changes.
const maxResolved = 16

// Resolver resolves the addresses of an endpoint (IP addresses and host names) to addresses that can be dialed. A result stays
// until another one replaces it: a failed lookup changes nothing.
type Resolver struct {
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	changed func()
	wake    trigger.Trigger

	mu    sync.Mutex
	hosts []string
	found map[string]resolution
}

// resolution is the result of a lookup: the addresses to use, and the number of all addresses in the answer.
type resolution struct {
	addresses []netip.Addr
	total     int
}

// NewResolver returns a Resolver without any result. It calls changed whenever the result of a lookup changes.
func NewResolver(changed func()) *Resolver {
	return &Resolver{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		changed: changed, wake: trigger.New(), found: map[string]resolution{},
	}
}

// Endpoints returns the known addresses at which a peer is dialed, in the order of its hosts. A changed list of hosts starts a lookup in the
// background (see Run). Endpoints leaves out every address that must not be dialed (see network.Peer.CheckDialed), whether it is in the
// endpoint or the result of a lookup. It also leaves out the addresses of a host name beyond maxResolved. refused describes the first address
// that was left out. It is empty if there is none.
func (r *Resolver) Endpoints(peer *network.Peer) (endpoints []netip.AddrPort, refused string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(peer.Endpoints, r.hosts) {
		r.hosts = slices.Clone(peer.Endpoints)
		r.wake.Fire()
	}
	for _, host := range peer.Endpoints {
		for _, a := range r.addresses(host) {
			e := netip.AddrPortFrom(a, peer.Port)
			switch err := peer.CheckDialed(a); {
			case err != nil && refused == "":
				refused = fmt.Sprintf("address %q of its gateway is refused: %v", host, err)
			case err == nil && !slices.Contains(endpoints, e):
				endpoints = append(endpoints, e)
			}
		}
		if total := r.found[host].total; total > maxResolved && refused == "" {
			refused = fmt.Sprintf("address %q of its gateway resolves to %d addresses: only the first %d are tried; let it resolve to fewer", host, total, maxResolved)
		}
	}
	return endpoints, refused
}

// addresses returns the known addresses of a host: itself if it is an IP address, else the result of the last lookup.
func (r *Resolver) addresses(host string) []netip.Addr {
	if a, ok := network.LiteralAddress(host); ok {
		return []netip.Addr{a}
	}
	return r.found[host].addresses
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
		if _, ok := network.LiteralAddress(host); ok {
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
		addresses = slices.Compact(addresses)
		result := resolution{addresses: addresses[:min(len(addresses), maxResolved)], total: len(addresses)}
		r.mu.Lock()
		same := slices.Equal(r.found[host].addresses, result.addresses)
		r.found[host] = result
		r.mu.Unlock()
		if !same {
			r.changed()
		}
	}
}
