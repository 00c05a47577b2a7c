package cli

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/discovery"
)

// TestAdvertisedAddresses: the URL of the authentication service becomes the address, or the host name, and the port that others find.
func TestAdvertisedAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://198.51.100.7":        "443 liqo-auth-milan.example.org. 198.51.100.7",
		"https://198.51.100.7:30443":  "30443 liqo-auth-milan.example.org. 198.51.100.7",
		"https://[2001:db8::7]:30443": "30443 liqo-auth-milan.example.org. 2001:db8::7",
		"https://lb.example.net:8443": "8443 lb.example.net.",
	} {
		advertisement, err := advertise("milan", address)
		if err != nil {
			t.Fatal(err)
		}
		text := discovery.ZoneText(advertisement.Records("example.org"))
		for word := range strings.FieldsSeq(want) {
			if !strings.Contains(text, " "+word) {
				t.Errorf("%s: no %q in\n%s", address, word, text)
			}
		}
	}
	if _, err := advertise("milan", "https://127.0.0.1:30443"); err == nil {
		t.Error("nobody else reaches 127.0.0.1")
	}
}

// TestDiscoveredClustersAreShown as a table that says what they are worth, and for programs.
func TestDiscoveredClustersAreShown(t *testing.T) {
	clusters := []discovery.Cluster{{ID: "milan", URLs: []string{"https://198.51.100.7:443"}}}
	for format, want := range map[string]string{"": "milan        https://198.51.100.7:443   -", "json": `"id": "milan"`, "yaml": "id: milan"} {
		streams, _, out, said := genericiooptions.NewTestIOStreams()
		if err := newApp(streams).printClusters(clusters, "example.org", &discoverOptions{output: outputFlag{format}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || (format == "") != strings.Contains(said.String()+out.String(), "Nothing of this is verified") {
			t.Errorf("%q: %s%s", format, out, said)
		}
	}
}

// TestDiscoverRefusesWhatIsNoDomain before it asks anybody.
func TestDiscoverRefusesWhatIsNoDomain(t *testing.T) {
	for _, line := range []string{"discover https://example.org", "discover example.org -o xml", "generate dns-records a..b", "generate dns-records example.org --ttl 0s"} {
		if code, _, said := run(t, strings.Fields(line)...); code != 1 || !strings.Contains(said, "ERRO") {
			t.Errorf("%s: code %d, %s", line, code, said)
		}
	}
}
