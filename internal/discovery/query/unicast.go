// Package query queries DNS servers for the records that announce clusters.
package query

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"liqo.io/liqo/internal/discovery"
)

const (
	// queryTimeout is the timeout for the response of one server to one query.
	queryTimeout = 2 * time.Second
	// dnsPort is the port of DNS servers.
	dnsPort = "53"
)

// Servers queries DNS servers for clusters. As in resolvers, the answer of the first server that responds is used.
type Servers struct {
	// Addresses of the servers: host:port.
	Addresses []string
}

// SystemServers returns the DNS servers that this system is configured with.
func SystemServers(ctx context.Context) ([]string, error) {
	var found []string
	// The resolver of the standard library reads the configuration of every operating system, but does not export it. So let it dial, and record the
	// servers that it dials.
	resolver := net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		if !slices.Contains(found, address) {
			found = append(found, address)
		}
		return nil, errors.New("only the address is wanted")
	}}
	_, _ = resolver.LookupTXT(ctx, "liqo.invalid.") // it can't succeed
	if len(found) == 0 {
		return nil, errors.New("this system has no DNS server in its configuration: name one")
	}
	return found, nil
}

// ServerAddress adds the port of DNS servers to an address without a port.
func ServerAddress(text string) string {
	if _, _, err := net.SplitHostPort(text); err == nil {
		return text
	}
	return net.JoinHostPort(text, dnsPort)
}

// Found is the result of a search for clusters.
type Found struct {
	// Clusters are the clusters that can be used, sorted by ID.
	Clusters []discovery.Cluster
	// Problems has an error for each refused announcement and each failed lookup.
	Problems []error
	// Partial means that a lookup failed, so that Clusters may be incomplete.
	Partial bool
}

// Discover returns the clusters that a domain lists, as discovery.Assemble does. own are the ranges of this cluster. It fails if the list itself
// can't be read. The services of the list are looked up at the same time, so that a service whose name servers don't respond does not delay the
// others.
func (s *Servers) Discover(ctx context.Context, domain string, own []netip.Prefix) (Found, error) {
	records, err := s.ask(ctx, discovery.ServiceName(domain), discovery.PTR)
	if err != nil {
		return Found{}, err
	}
	instances := discovery.Instances(domain, records)
	services := make([]lookup, len(instances))
	var all sync.WaitGroup
	for i, instance := range instances {
		all.Go(func() { services[i].service(ctx, s, instance) })
	}
	all.Wait()
	var found Found
	for i := range services {
		records, found.Problems = append(records, services[i].records...), append(found.Problems, services[i].failed...)
	}
	found.Partial = len(found.Problems) > 0
	clusters, refused := discovery.Assemble(domain, records, own)
	found.Clusters, found.Problems = clusters, append(found.Problems, refused...)
	return found, nil
}

// lookup holds the records that were found for a service, and the errors of the lookups that failed.
type lookup struct {
	records []discovery.Record
	failed  []error
}

// service looks up a service and its host.
func (l *lookup) service(ctx context.Context, s *Servers, instance string) {
	l.ask(ctx, s, instance, discovery.SRV, discovery.TXT)
	if host := discovery.Host(instance, l.records); host != "" {
		l.ask(ctx, s, host, discovery.A, discovery.AAAA)
	}
}

// ask looks up the records of a name. It stops at the first failure, because the other records of the name are on the same servers.
func (l *lookup) ask(ctx context.Context, s *Servers, name string, kinds ...discovery.Type) {
	for _, kind := range kinds {
		found, err := s.ask(ctx, name, kind)
		if err != nil {
			l.failed = append(l.failed, err)
			return
		}
		l.records = append(l.records, found...)
	}
}

// ask returns the records of a name from the first server that answers.
func (s *Servers) ask(ctx context.Context, name string, kind discovery.Type) ([]discovery.Record, error) {
	var failed []error
	for _, server := range s.Addresses {
		records, err := askServer(ctx, server, name, kind)
		if err == nil {
			return records, nil
		}
		failed = append(failed, fmt.Errorf("querying DNS server %s for %s: %w", server, name, withoutAddresses(err)))
		if ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 0 {
		return nil, fmt.Errorf("querying %s: there is no DNS server", name)
	}
	return nil, errors.Join(failed...)
}

// withoutAddresses returns a network error without its addresses. They include the local port, which differs at each attempt, so a caller that logs
// an error only when it changes would log it at each attempt.
func withoutAddresses(err error) error {
	if failed, is := errors.AsType[*net.OpError](err); is {
		return failed.Err
	}
	return err
}

// askServer sends the query by UDP, and by TCP if the response does not fit.
func askServer(ctx context.Context, server, name string, kind discovery.Type) ([]discovery.Record, error) {
	var random [2]byte
	if _, err := io.ReadFull(rand.Reader, random[:]); err != nil {
		return nil, fmt.Errorf("reading random bytes: %w", err)
	}
	id := binary.BigEndian.Uint16(random[:])
	question, err := discovery.Query(id, name, kind, false)
	if err != nil {
		return nil, err
	}
	for _, network := range []string{"udp", "tcp"} {
		message, err := exchange(ctx, network, server, question, id)
		if err != nil {
			return nil, err
		}
		if message.Truncated {
			continue
		}
		records, err := message.AnswersTo(id, name, kind)
		for i := range records {
			records[i].TTL = max(records[i].TTL, 1) // TTL 0 means that the record must not be cached, but it is valid now
		}
		return records, err
	}
	return nil, errors.New("the response is truncated")
}

// exchange sends a query and returns the first message with its ID that the server sends back in time.
func exchange(ctx context.Context, network, server string, question []byte, id uint16) (*discovery.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "tcp" {
		return overTCP(conn, question)
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	buffer := make([]byte, discovery.MaxMessage+1)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		// A message that can't be read, or has another ID, may be forged. So keep waiting for the real answer.
		if message, err := discovery.Parse(buffer[:n]); err == nil && message.Response && message.ID == id {
			return message, nil
		}
	}
}

// overTCP exchanges messages with their length in front (RFC 1035, section 4.2.2).
func overTCP(conn net.Conn, question []byte) (*discovery.Message, error) {
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(question))) //nolint:gosec // a query is short
	if _, err := conn.Write(append(framed, question...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(size[:]))
	if length > discovery.MaxMessage {
		return nil, fmt.Errorf("the response has %d bytes, at most %d are read", length, discovery.MaxMessage)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(conn, data); err != nil {
		return nil, err
	}
	return discovery.Parse(data)
}
