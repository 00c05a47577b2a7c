package discovery

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"liqo.io/liqo/internal/address"
)

const domain = "clusters.example.org"

var print43 = "SHA256:" + strings.Repeat("k", 43)

func milan() *Advertisement {
	return &Advertisement{
		ID: "milan", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("198.51.100.7")}, Port: 443, Fingerprint: print43, TTL: 90,
	}
}

var addressesEqual = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// TestAnnouncedClustersAreFound: the records of a cluster can be read back, from the bytes of a message and from the lines of a zone file.
func TestAnnouncedClustersAreFound(t *testing.T) {
	records := milan().Records(domain)
	data, err := (&Message{ID: 7, Response: true, Answers: records}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	message, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(records, message.Answers, addressesEqual); diff != "" {
		t.Errorf("records (-sent +read):\n%s", diff)
	}
	clusters, problems := Assemble(domain+".", message.Answers, nil)
	want := []Cluster{{ID: "milan", URLs: []string{"https://198.51.100.7:443", "https://[2001:db8::7]:443"}, Fingerprint: print43, TTL: 90 * time.Second}}
	if diff := cmp.Diff(want, clusters); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v (-want +got):\n%s", problems, diff)
	}
	zone := `_liqo_auth._tcp.clusters.example.org. 90 IN PTR milan._liqo_auth._tcp.clusters.example.org.
milan._liqo_auth._tcp.clusters.example.org. 90 IN SRV 0 0 443 liqo-auth-milan.clusters.example.org.
milan._liqo_auth._tcp.clusters.example.org. 90 IN TXT "txtvers=1" "id=milan" "fp=` + print43 + `"
liqo-auth-milan.clusters.example.org. 90 IN AAAA 2001:db8::7
liqo-auth-milan.clusters.example.org. 90 IN A 198.51.100.7
`
	if diff := cmp.Diff(zone, ZoneText(records)); diff != "" {
		t.Errorf("zone (-want +got):\n%s", diff)
	}
	host := milan()
	host.Host = "lb.example.net"
	if got := host.Records(domain); len(got) != 3 || got[1].Target != "lb.example.net." {
		t.Errorf("with a host name: %+v", got)
	}
}

// TestHostileRecordsAreRefused: records that can't belong to another cluster, or that make false claims, result in no cluster, and the problem
// contains the reason.
func TestHostileRecordsAreRefused(t *testing.T) {
	at := func(kind Type, change func(*Record)) func([]Record) []Record {
		return func(records []Record) []Record {
			for i := range records {
				if records[i].Type == kind {
					change(&records[i])
				}
			}
			return records
		}
	}
	address := func(text string) func([]Record) []Record {
		return func(records []Record) []Record {
			records = records[:3]
			return append(records, Record{Name: records[1].Target, Type: A, TTL: 90, Address: netip.MustParseAddr(text)})
		}
	}
	text := func(items ...string) func([]Record) []Record { return at(TXT, func(r *Record) { r.Text = items }) }
	for name, row := range map[string]struct {
		change func([]Record) []Record
		words  string
	}{
		"loopback":                  {address("127.0.0.1"), "127.0.0.1"},
		"loopback of IPv6":          {address("::1"), "::1"},
		"loopback in disguise":      {address("::ffff:127.0.0.1"), "127.0.0.1"},
		"nowhere":                   {address("0.0.0.0"), "0.0.0.0"},
		"this network":              {address("0.1.2.3"), "0.1.2.3"},
		"link-local":                {address("169.254.7.7"), "link-local"},
		"metadata":                  {address("169.254.169.254"), "metadata"},
		"metadata in disguise":      {address("::ffff:169.254.169.254"), "metadata"},
		"metadata of another cloud": {address("100.100.100.200"), "metadata"},
		"metadata of IPv6":          {address("fd00:ec2::254"), "metadata"},
		"link-local of IPv6":        {address("fe80::1"), "link-local"},
		"multicast":                 {address("224.0.0.251"), "no address of a single machine"},
		"broadcast":                 {address("255.255.255.255"), "no address of a single machine"},
		"a Service of this cluster": {address("10.96.0.1"), "10.96.0.0/12"},
		"no address":                {func(r []Record) []Record { return r[:3] }, "no address"},
		"no SRV record":             {func(r []Record) []Record { return slices.Delete(r, 1, 2) }, "no SRV record"},
		"no TXT record":             {func(r []Record) []Record { return slices.Delete(r, 2, 3) }, "0 TXT records"},
		"two TXT records": {func(r []Record) []Record {
			return append(r, Record{Name: r[2].Name, Type: TXT, TTL: 90, Text: []string{"id=rome"}})
		}, "2 TXT records"},
		"port 0":                      {at(SRV, func(r *Record) { r.Port = 0 }), "no service"},
		"no service":                  {at(SRV, func(r *Record) { r.Target = "." }), "no service"},
		"a service that is withdrawn": {at(SRV, func(r *Record) { r.TTL = 0 }), "no SRV record"},
		"no cluster ID":               {text("txtvers=1"), "cluster ID"},
		"a cluster ID with a path":    {text("txtvers=1", "id=../../etc"), "../../etc"},
		"control characters":          {text("txtvers=1", "id=mi\x1b[31mlan"), `\x1b`},
		"a long cluster ID":           {text("txtvers=1", "id="+strings.Repeat("a", 64)), "DNS label"},
		"another version":             {text("txtvers=9", "id=milan"), "version"},
		"a false fingerprint":         {text("txtvers=1", "id=milan", "fp=none"), "fingerprint"},
		"a huge text":                 {text(slices.Repeat([]string{"txtvers=1", "id=milan", strings.Repeat("x", 255)}, 9)...), "1300"},
	} {
		clusters, problems := Assemble(domain, row.change(milan().Records(domain)), []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")})
		if len(clusters) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), row.words) {
			t.Errorf("%s: clusters %+v, problems %v, want one with %q", name, clusters, problems, row.words)
		}
		if len(problems) == 1 && strings.ContainsAny(problems[0].Error(), "\x1b\n\r") {
			t.Errorf("%s: the problem has control characters: %q", name, problems[0])
		}
	}
}

// TestOneOfTwoClaimsIsFalse: services that claim the same cluster with different addresses are left out, all of them; the same claim twice is one
// cluster.
func TestOneOfTwoClaimsIsFalse(t *testing.T) {
	second := func(address string) []Record {
		other := milan()
		other.Addresses = []netip.Addr{netip.MustParseAddr(address)}
		records := other.Records(domain)
		for i := range records {
			records[i].Name = strings.Replace(records[i].Name, "milan", "other", 1)
			records[i].Target = strings.Replace(records[i].Target, "milan", "other", 1)
		}
		return records
	}
	honest := milan()
	honest.Addresses = honest.Addresses[1:]
	if clusters, problems := Assemble(domain, append(honest.Records(domain), second("203.0.113.66")...), nil); len(clusters) > 0 || len(problems) != 1 {
		t.Errorf("two claims: %+v, %v", clusters, problems)
	}
	if clusters, problems := Assemble(domain, append(honest.Records(domain), second("198.51.100.7")...), nil); len(clusters) != 1 || len(problems) > 0 {
		t.Errorf("one claim twice: %+v, %v", clusters, problems)
	}
}

// TestRecordsOfOthersAreIgnored: records of other services and other names change nothing, and the order of the records does not matter.
func TestRecordsOfOthersAreIgnored(t *testing.T) {
	want, _ := Assemble(domain, milan().Records(domain), nil)
	records := append(milan().Records(domain),
		Record{Name: ServiceName(domain), Type: PTR, TTL: 90, Target: "evil.example.net."},
		Record{Name: "_printer._tcp.clusters.example.org.", Type: PTR, TTL: 90, Target: "a._printer._tcp.clusters.example.org."},
		Record{Name: "evil.example.net.", Type: A, TTL: 90, Address: netip.MustParseAddr("203.0.113.66")},
		Record{Name: "milan." + ServiceName(domain), Type: SRV, TTL: 90, Priority: 10, Port: 1, Target: "evil.example.net."},
	)
	for range len(records) {
		records = append(records[1:], records[0])
		got, problems := Assemble(domain, records, nil)
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Fatalf("problems %v (-want +got):\n%s", problems, diff)
		}
	}
}

// TestOnlyAnswersToTheQuestionCount: a response to another question, or with records of other names, has no effect.
func TestOnlyAnswersToTheQuestionCount(t *testing.T) {
	const name = "liqo-auth-milan.clusters.example.org."
	good := netip.MustParseAddr("198.51.100.7")
	answer := func(change func(*Message)) *Message {
		m := &Message{ID: 7, Response: true, Questions: []Question{{Name: name, Type: A}}, Answers: []Record{
			{Name: name, Type: CNAME, TTL: 9, Target: "lb.example.net."}, {Name: "lb.example.net.", Type: A, TTL: 9, Address: good},
			{Name: "evil.example.net.", Type: A, TTL: 9, Address: netip.MustParseAddr("203.0.113.66")},
		}}
		change(m)
		return m
	}
	records, err := answer(func(*Message) {}).AnswersTo(7, name, A)
	if err != nil || len(records) != 1 || records[0].Address != good || records[0].Name != name {
		t.Errorf("%+v, %v", records, err)
	}
	for what, change := range map[string]func(*Message){
		"another ID":       func(m *Message) { m.ID = 8 },
		"a query":          func(m *Message) { m.Response = false },
		"another question": func(m *Message) { m.Questions[0].Name = "evil.example.net." },
		"another type":     func(m *Message) { m.Questions[0].Type = TXT },
		"no question":      func(m *Message) { m.Questions = nil },
		"an error":         func(m *Message) { m.Failure = "ServerFailure" },
	} {
		if records, err := answer(change).AnswersTo(7, name, A); err == nil {
			t.Errorf("%s: %+v", what, records)
		}
	}
	if records, err := answer(func(m *Message) { m.Failure = "NameError" }).AnswersTo(7, name, A); err != nil || len(records) > 0 {
		t.Errorf("no such name: %+v, %v", records, err)
	}
}

// TestMessagesAreBounded: messages and sections beyond the limits are refused, before they take memory.
func TestMessagesAreBounded(t *testing.T) {
	many := &Message{Response: true}
	for i := range maxRecords + 1 {
		many.Answers = append(many.Answers, Record{Name: "a.", Type: A, TTL: 1, Address: netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})})
	}
	data, err := many.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"many records": data, "many bytes": make([]byte, MaxMessage+1), "nothing": nil, "half a header": data[:7], "a cut record": data[:40],
	} {
		if message, err := Parse(data); err == nil {
			t.Errorf("%s: %+v", name, message)
		}
	}
}

// TestDomains are those of DNS, and nothing else.
func TestDomains(t *testing.T) {
	for text, good := range map[string]bool{
		"example.org": true, "Example.ORG.": true, "local": true, "a-b.example": true, "": false, ".": false, "a..b": false, "-a.org": false,
		"a b.org": false, "https://example.org": false, "198.51.100.7:53": false, strings.Repeat("a.", 120): false,
	} {
		if err := CheckDomain(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParse: no message breaks the reader, and whatever it reads obeys the limits: IDs are labels, no address is one of those that are refused.
func FuzzParse(f *testing.F) {
	for _, m := range []Message{
		{ID: 7, Response: true, Answers: milan().Records(domain)}, {Questions: []Question{{Name: ServiceName("local"), Type: PTR, Unicast: true}}},
		{Response: true, Flush: true, Additionals: milan().Records("local")},
	} {
		data, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if len(m.Answers)+len(m.Additionals) > maxRecords {
			t.Fatalf("%d records", len(m.Answers)+len(m.Additionals))
		}
		for _, of := range []string{domain, LocalDomain} {
			clusters, _ := Assemble(of, append(m.Answers, m.Additionals...), nil)
			for _, cluster := range clusters {
				if !label.MatchString(cluster.ID) || len(cluster.URLs) == 0 || cluster.TTL <= 0 {
					t.Fatalf("%+v", cluster)
				}
				for _, url := range cluster.URLs {
					at, err := netip.ParseAddrPort(strings.TrimPrefix(url, "https://"))
					if err != nil || address.Check(at.Addr(), nil) != nil {
						t.Fatalf("%s: %v", url, err)
					}
				}
			}
		}
	})
}

// FuzzAttributes: strings of a TXT record never break the reader, and it reads at most its limit.
func FuzzAttributes(f *testing.F) {
	f.Add([]byte("txtvers=1\x00id=milan\x00ID=rome\x00=x\x00\x00flag"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var items []string
		for item := range bytes.SplitSeq(data, []byte{0}) {
			items = append(items, string(item))
		}
		attributes, err := Attributes(items)
		if _, empty := attributes[""]; empty || err == nil && len(fmt.Sprint(attributes)) > 3*maxText {
			t.Fatalf("%d bytes in, %v", len(data), attributes)
		}
	})
}

// TestFirstAttributeCounts: if a key occurs several times, the first attribute counts, whatever the case of the key (RFC 6763).
func TestFirstAttributeCounts(t *testing.T) {
	got, err := Attributes([]string{"ID=milan", "id=rome", "=x", "flag"})
	if want := map[string]string{"id": "milan", "flag": ""}; err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestQueries: the queries are those of an ordinary resolver, or ask for a unicast response.
func TestQueries(t *testing.T) {
	for _, unicast := range []bool{false, true} {
		data, err := Query(7, ServiceName("local"), PTR, unicast)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(data); err != nil {
			t.Fatal(err)
		}
		if m.ID != 7 || m.RecursionDesired == unicast || len(m.Questions) != 1 || (m.Questions[0].Class&unicastResponse != 0) != unicast {
			t.Errorf("unicast %t: %+v", unicast, m)
		}
	}
	if _, err := Query(7, strings.Repeat("a.", 200), PTR, false); err == nil {
		t.Error("a name that is too long")
	}
}

// TestAdvertisedAddresses: the URL of the authentication service becomes the address, or the host name, and the port that others find.
func TestAdvertisedAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://198.51.100.7":        "443 liqo-auth-milan.example.org. 198.51.100.7",
		"https://198.51.100.7:30443":  "30443 liqo-auth-milan.example.org. 198.51.100.7",
		"https://[2001:db8::7]:30443": "30443 liqo-auth-milan.example.org. 2001:db8::7",
		"https://lb.example.net:8443": "8443 lb.example.net.",
	} {
		advertisement, err := Advertise("milan", address)
		if err != nil {
			t.Fatal(err)
		}
		text := ZoneText(advertisement.Records("example.org"))
		for word := range strings.FieldsSeq(want) {
			if !strings.Contains(text, " "+word) {
				t.Errorf("%s: no %q in\n%s", address, word, text)
			}
		}
	}
	if _, err := Advertise("milan", "https://127.0.0.1:30443"); err == nil {
		t.Error("nobody else reaches 127.0.0.1")
	}
}
