package cli

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/discovery"
)

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
	for _, line := range []string{
		"discover https://example.org", "discover example.org -o xml", "discover local --server 192.0.2.53", "discover", "discover a b",
		"generate dns-records a..b", "generate dns-records example.org --ttl 0s",
	} {
		if code, _, said := run(t, strings.Fields(line)...); code != 1 || !strings.Contains(said, "ERRO") {
			t.Errorf("%s: code %d, %s", line, code, said)
		}
	}
}
