package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the reference page")

// TestReferenceOfMetrics: the page lists every metric as it is defined.
func TestReferenceOfMetrics(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(), string(have)); diff != "" {
		t.Errorf("%s is not what the definitions say (go test ./internal/metrics -update writes it) (-want +have):\n%s", path, diff)
	}
}

// TestDefinitions: each definition is complete, unique and in the list.
func TestDefinitions(t *testing.T) {
	source, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	defined := regexp.MustCompile(`Name: "(liqo_[a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	listed := map[string]bool{}
	for _, d := range All() {
		if listed[d.Name] || d.Help == "" || d.Series == "" || len(d.Programs) == 0 {
			t.Errorf("%s is listed twice, or lacks its help text, its number of series or its programs", d.Name)
		}
		if (len(d.Buckets) > 0) != (d.Type == Histogram) || !slices.Contains([]Type{Counter, Gauge, Histogram}, d.Type) {
			t.Errorf("%s is a %s with %d buckets", d.Name, d.Type, len(d.Buckets))
		}
		listed[d.Name] = true
	}
	if len(defined) != len(listed) {
		t.Errorf("%d metrics are defined, and %d are in the list of All", len(defined), len(listed))
	}
}

// intro is the beginning of the reference page; ' stands for a backquote.
const intro = `# Metrics

This page is generated from the definitions in 'internal/metrics'.

'liqoctl install --enable-metrics' makes the programs serve Prometheus metrics under '/metrics', and the Prometheus Operator scrape them
([monitoring](../guide/monitoring.md)).

- Each pod serves its own metrics. With several replicas of the controller manager, each one reports the metrics about peers: aggregate them
  with 'max without (instance, pod)'. Of the metrics below, a standby replica of a virtual kubelet serves
  'liqo_build_info' only.
- Label 'cluster_id' is the cluster ID of the peer. It is empty for what belongs to no peer.
- The number of series depends on the numbers of peers, nodes, virtual nodes and offloaded namespaces, never on the number of pods.
- The controller manager also serves the metrics of controller-runtime: 'controller_runtime_*', 'workqueue_*' and 'rest_client_*'. All
  programs serve those of Go and of the process: 'go_*' and 'process_*'.
- Counters start again at 0 with their pod. Functions of Prometheus such as 'rate' and 'increase' take that into account.

`

// page returns the reference page of all metrics, in Markdown.
func page() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(intro, "'", "`"))
	b.WriteString("| metric | type | labels | series | served by | meaning |\n|---|---|---|---|---|---|\n")
	for _, d := range All() {
		labels := "none"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", d.Name, d.Type, labels, d.Series, strings.Join(d.Programs, ", "), d.Help)
	}
	return b.String()
}
