package query

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/discovery"
)

const domain = "clusters.example.org"

// server is a DNS server with these records. It does not respond to queries for the silent name. before is called with each other query, and may send
// something first.
type server struct {
	records  []discovery.Record
	truncate bool
	silent   string
	before   func(reply func([]byte), query *discovery.Message)
}

func (s *server) answer(query *discovery.Message, tcp bool) []byte {
	q := query.Questions[0]
	m := discovery.Message{ID: query.ID, Response: true, Questions: query.Questions}
	for _, record := range s.records {
		if record.Name == q.Name && (record.Type == q.Type || record.Type == discovery.CNAME) {
			m.Answers = append(m.Answers, record)
		}
	}
	// Add additional records, as many servers do, and records of another name.
	m.Additionals = []discovery.Record{{Name: "liqo-auth-milan." + domain + ".", Type: discovery.A, TTL: 9, Address: netip.MustParseAddr("203.0.113.66")}}
	if s.truncate && !tcp {
		m.Answers, m.Truncated = nil, true
	}
	data, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return data
}

// serve starts the server by UDP and TCP, and returns its address.
func (s *server) serve(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = listener.Close(), packets.Close() })
	go func() {
		buffer := make([]byte, discovery.MaxMessage)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			query, err := discovery.Parse(buffer[:n])
			if err != nil || query.Questions[0].Name == s.silent {
				continue
			}
			reply := func(data []byte) { _, _ = packets.WriteTo(data, from) }
			if s.before != nil {
				s.before(reply, query)
			}
			reply(s.answer(query, false))
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.overTCP(conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

func (s *server) overTCP(conn net.Conn) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	data := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		return
	}
	query, err := discovery.Parse(data)
	if err != nil {
		return
	}
	answer := s.answer(query, true)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)) //nolint:gosec // it is short
}

func records() []discovery.Record {
	milan := discovery.Advertisement{ID: "milan", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.7")}, Port: 443, TTL: 90}
	return milan.Records(domain)
}

var want = []discovery.Cluster{{ID: "milan", URLs: []string{"https://198.51.100.7:443"}, TTL: 90 * time.Second}}

// TestClustersOfADomain: clusters are found by PTR, SRV, TXT and address records, by TCP if the response is too large for UDP, and even if one server
// is down. Forged messages before the answer, and records of other names, have no effect.
func TestClustersOfADomain(t *testing.T) {
	aliased := records()
	aliased[3].Name = "lb.example.net."
	aliased = append(aliased, discovery.Record{Name: "liqo-auth-milan." + domain + ".", Type: discovery.CNAME, TTL: 9, Target: "lb.example.net."})
	forged := func(reply func([]byte), query *discovery.Message) {
		m := discovery.Message{ID: query.ID + 1, Response: true, Questions: query.Questions, Answers: []discovery.Record{
			{Name: query.Questions[0].Name, Type: discovery.A, TTL: 90, Address: netip.MustParseAddr("203.0.113.66")},
		}}
		data, err := m.Pack()
		if err != nil {
			panic(err)
		}
		reply([]byte("no message"))
		reply(data)
	}
	for name, s := range map[string]*server{
		"by UDP": {records: records()}, "by TCP": {records: records(), truncate: true}, "after forged messages": {records: records(), before: forged},
	} {
		address := s.serve(t)
		found, err := (&Servers{Addresses: []string{"127.0.0.1:1", address}}).Discover(t.Context(), domain, nil)
		if diff := cmp.Diff(Found{Clusters: want}, found); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	// A server that follows aliases by itself sends the whole chain.
	s := &server{records: aliased}
	address := s.serve(t)
	found, err := (&Servers{Addresses: []string{address}}).Discover(t.Context(), domain, nil)
	if err != nil || found.Partial || len(found.Clusters) > 0 || len(found.Problems) != 1 || !strings.Contains(found.Problems[0].Error(), "no address") {
		t.Errorf("an alias that leads nowhere: %+v, %v", found, err)
	}
}

// TestASilentHostDelaysNobody: clusters are found although the name servers of other clusters in the list don't respond, and the result is marked as
// incomplete.
func TestASilentHostDelaysNobody(t *testing.T) {
	all := records()
	for _, id := range []string{"alba", "zara"} { // before and after milan
		silent := discovery.Advertisement{ID: id, Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.8")}, Port: 443, TTL: 90}
		all = append(all, silent.Records(domain)...)
	}
	service := discovery.ServiceName(domain)
	for _, silent := range []string{"alba." + service, "zara." + service, "liqo-auth-alba." + domain + ".", "liqo-auth-zara." + domain + "."} {
		t.Run(silent, func(t *testing.T) {
			t.Parallel()
			s := &server{records: all, silent: silent}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // all others have to respond within it, also on a busy machine
			defer cancel()
			found, err := (&Servers{Addresses: []string{s.serve(t)}}).Discover(ctx, domain, nil)
			milan := slices.ContainsFunc(found.Clusters, func(c discovery.Cluster) bool { return c.ID == "milan" })
			if err != nil || !found.Partial || !milan || len(found.Clusters) != 2 {
				t.Errorf("found %+v, %v", found, err)
			}
			if len(found.Problems) == 0 || !strings.Contains(errors.Join(found.Problems...).Error(), silent) {
				t.Errorf("no problem names it: %v", found.Problems)
			}
		})
	}
}

// TestNobodyAnswers: the error contains the server and the name, and the timeout is respected.
func TestNobodyAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&Servers{Addresses: []string{"192.0.2.1:53"}}).Discover(ctx, domain, nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "192.0.2.1:53") || !strings.Contains(err.Error(), domain) {
		t.Errorf("%v", err)
	}
	_, err = (&Servers{Addresses: []string{"127.0.0.1:1"}}).Discover(t.Context(), domain, nil)
	if want := "querying DNS server 127.0.0.1:1 for " + discovery.ServiceName(domain) + ": read: connection refused"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := (&Servers{}).Discover(t.Context(), domain, nil); err == nil {
		t.Error("no server")
	}
	empty := (&server{}).serve(t)
	found, err := (&Servers{Addresses: []string{empty}}).Discover(t.Context(), domain, nil)
	if err != nil || found.Partial || len(found.Clusters)+len(found.Problems) > 0 {
		t.Errorf("an empty domain: %+v, %v", found, err)
	}
}

// TestServerAddresses get the port of DNS.
func TestServerAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353", "2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]:9": "[2001:db8::1]:9",
	} {
		if got := ServerAddress(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
