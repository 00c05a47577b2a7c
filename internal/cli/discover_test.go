package cli

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/discovery"
)

// TestDiscoveredClustersAreShown as a table that says what they are worth, and for programs.
func TestDiscoveredClustersAreShown(t *testing.T) {
	clusters := []discovery.Cluster{{ID: "milan", URLs: []string{"https://198.51.100.7:443"}}}
	for format, want := range map[string]string{"": "milan        https://198.51.100.7:443   -", "json": `"id": "milan"`, "yaml": "id: milan"} {
		streams, _, out, said := genericiooptions.NewTestIOStreams()
		if err := printClusters(session.New(streams), clusters, "example.org", &discoverOptions{output: cmdline.Output{Format: format}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || (format == "") != strings.Contains(said.String()+out.String(), "These records are not verified") {
			t.Errorf("%q: %s%s", format, out, said)
		}
	}
}

// TestDiscoverRefusesWhatIsNoDomain before it asks anybody.
func TestDiscoverRefusesWhatIsNoDomain(t *testing.T) {
	for _, line := range []string{
		"discover https://example.org", "discover example.org -o xml", "discover local --server 192.0.2.53", "discover", "discover a b",
		"generate dns-records a..b", "generate dns-records example.org --ttl 0s",
	} {
		if code, _, said := run(t, strings.Fields(line)...); code != 1 || !strings.Contains(said, "ERRO") {
			t.Errorf("%s: code %d, %s", line, code, said)
		}
	}
}

// dnsServer starts a DNS server with these records, and returns its address. With none it says that no name exists.
func dnsServer(t *testing.T, records []discovery.Record) string {
	t.Helper()
	packets, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	go func() {
		buffer := make([]byte, discovery.MaxMessage)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			query, err := discovery.Parse(buffer[:n])
			if err != nil {
				continue
			}
			answer := discovery.Message{ID: query.ID, Response: true, Questions: query.Questions}
			for _, record := range records {
				if record.Name == query.Questions[0].Name && record.Type == query.Questions[0].Type {
					answer.Answers = append(answer.Answers, record)
				}
			}
			if data, err := answer.Pack(); err == nil {
				_, _ = packets.WriteTo(data, from)
			}
		}
	}()
	return packets.LocalAddr().String()
}

// TestDiscover queries the server of the flag: the command prints the clusters with their fingerprints, says if there is none, warns of incomplete records, and
// names a server that does not respond.
func TestDiscover(t *testing.T) {
	const domain = "clusters.example.org"
	fingerprint := "SHA256:" + strings.Repeat("A", 43)
	milan := discovery.Advertisement{
		ID: "milan", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.7")}, Port: 443, TTL: 90, Fingerprint: fingerprint,
	}
	records := milan.Records(domain)
	incomplete := slices.DeleteFunc(slices.Clone(records), func(r discovery.Record) bool { return r.Type == discovery.A })
	for name, row := range map[string]struct {
		server, flags string
		code          int
		out, said     string
	}{
		"a cluster":          {dnsServer(t, records), "", 0, "milan        https://198.51.100.7:443   " + fingerprint, "These records are not verified"},
		"for a program":      {dnsServer(t, records), " -o json", 0, `"id": "milan"`, ""},
		"none":               {dnsServer(t, nil), "", 0, "", "No cluster is announced in " + domain},
		"none for a program": {dnsServer(t, nil), " -o json", 0, "[]", ""},
		"without an address": {dnsServer(t, incomplete), "", 0, "", "no address"},
		"nothing listens":    {"127.0.0.1:1", " --timeout 5s", 1, "", "127.0.0.1:1"},
	} {
		code, out, said := run(t, strings.Fields("discover "+domain+" --server "+row.server+row.flags)...)
		if code != row.code || !strings.Contains(out, row.out) || !strings.Contains(said, row.said) {
			t.Errorf("%s: code %d, printed %q and %q, want %q and %q", name, code, out, said, row.out, row.said)
		}
	}
}
