package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"
)

// queryTimeout is the limit for one DNS query. A query without a response is sent once more, because a packet can get lost.
const queryTimeout = time.Second

// lookup returns the IPv4 addresses of a name, from the DNS server with the given address. A name that does not exist has none.
func lookup(ctx context.Context, server, name string) (found []string, err error) {
	resolver := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}}
	for range 2 {
		var addresses []net.IP
		limited, cancel := context.WithTimeout(ctx, queryTimeout)
		addresses, err = resolver.LookupIP(limited, "ip4", name+".")
		cancel()
		var unknown *net.DNSError
		if errors.As(err, &unknown) && unknown.IsNotFound {
			return nil, nil
		}
		if err == nil {
			for _, address := range addresses {
				found = append(found, address.String())
			}
			slices.Sort(found)
			return found, nil
		}
	}
	return nil, err
}

// askPeer returns the addresses that another cluster reports for each host. The edge DNS knows the address of that cluster's DNS server.
func askPeer(ctx context.Context, edge, server string, hosts []string) map[string][]string {
	found := map[string][]string{}
	if len(hosts) == 0 {
		return found
	}
	servers, err := lookup(ctx, edge, server)
	if err != nil {
		slog.Warn("The edge DNS does not answer", "address", edge, "name", server, "error", err)
	}
	for _, host := range hosts {
		for _, address := range servers {
			targets, err := lookup(ctx, address, localPrefix+host)
			if err != nil { // It answers no other host either.
				slog.Warn("The DNS server of another cluster does not answer", "name", server, "address", address, "error", err)
				return map[string][]string{}
			}
			if len(targets) > 0 {
				found[host] = targets
				break
			}
		}
	}
	return found
}
