package metrics

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the reference page")

// TestReferenceOfMetrics: the page lists every metric as it is defined.
func TestReferenceOfMetrics(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Page(), string(have)); diff != "" {
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
