package monitoring

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"liqo.io/liqo/internal/metrics"
)

// targets are the labels that Prometheus and the Prometheus Operator add to every series.
var targets = []string{"instance", "job", "pod", "namespace", "service", "container", "endpoint", "exported_namespace"}

// known returns the labels that series of this name may have; false if no program serves such series.
func known(name string) ([]string, bool) {
	for _, d := range metrics.All() {
		switch suffix, ok := strings.CutPrefix(name, d.Name); {
		case !ok:
		case d.Type == metrics.Histogram && suffix == "_bucket":
			return slices.Concat(d.Labels, targets, []string{model.MetricNameLabel, model.BucketLabel}), true
		case d.Type == metrics.Histogram && (suffix == "_sum" || suffix == "_count"), d.Type != metrics.Histogram && suffix == "":
			return slices.Concat(d.Labels, targets, []string{model.MetricNameLabel}), true
		}
	}
	return nil, false
}

// problems returns the unknown metrics and labels in an expression, and its syntax errors.
func problems(expression string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	selectors := 0
	missing := func(what string, names []string, below ...parser.Node) {
		for _, name := range names {
			if !slices.ContainsFunc(below, func(n parser.Node) bool { return hasLabel(n, name) }) {
				found = append(found, fmt.Sprintf("%s: no metric in it has label %s", what, name))
			}
		}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
			of, ok := known(n.Name)
			if !ok {
				found = append(found, fmt.Sprintf("no program serves %q", n.Name))
				return nil
			}
			for _, m := range n.LabelMatchers {
				if !slices.Contains(of, m.Name) {
					found = append(found, fmt.Sprintf("%s has no label %s", n.Name, m.Name))
				}
			}
		case *parser.AggregateExpr:
			missing(n.String(), n.Grouping, n.Expr)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				missing(n.String(), n.VectorMatching.MatchingLabels, n.LHS, n.RHS)
				missing(n.String(), n.VectorMatching.Include, n.LHS, n.RHS)
			}
		}
		return nil
	})
	if selectors == 0 {
		found = append(found, "it uses no metric")
	}
	return found
}

func hasLabel(below parser.Node, label string) bool {
	found := false
	parser.Inspect(below, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			of, _ := known(selector.Name)
			found = found || slices.Contains(of, label)
		}
		return nil
	})
	return found
}

// TestProblemsAreFound: the check of expressions accepts metrics and labels that programs serve, and reports all others.
func TestProblemsAreFound(t *testing.T) {
	for expression, want := range map[string]string{
		`sum by (cluster_id) (rate(liqo_peer_receive_bytes_total[5m]))`:                                      "",
		`histogram_quantile(0.9, sum by (le, cluster_id) (rate(liqo_peer_latency_histogram_us_bucket[5m])))`: "",
		`rate(liqo_peer_latency_histogram_us_sum[5m]) / rate(liqo_peer_latency_histogram_us_count[5m])`:      "",
		`liqo_quota_used / on (cluster_id, quota) group_left (resource) liqo_quota_granted`:                  "",
		`max without (instance, pod) (liqo_virtual_node_ready{node_name="milan"})`:                           "",
		`sum by (cluster_id (liqo_peer_is_connected)`:                                                        "parse error",
		`liqo_peer_connected`:                                                    `no program serves "liqo_peer_connected"`,
		`liqo_peer_latency_histogram_us`:                                         `no program serves "liqo_peer_latency_histogram_us"`,
		`liqo_peer_latency_us_bucket`:                                            `no program serves "liqo_peer_latency_us_bucket"`,
		`{cluster_id="milan"}`:                                                   `no program serves ""`,
		`liqo_peer_is_connected{cluster="milan"}`:                                "liqo_peer_is_connected has no label cluster",
		`liqo_peer_is_connected{le="1"}`:                                         "liqo_peer_is_connected has no label le",
		`sum by (node) (liqo_virtual_node_pods)`:                                 "no metric in it has label node",
		`liqo_quota_used / ignoring (node_name) liqo_quota_granted`:              "no metric in it has label node_name",
		`liqo_quota_used / on (cluster_id) group_left (zone) liqo_quota_granted`: "no metric in it has label zone",
		`vector(1)`: "it uses no metric",
	} {
		got := strings.Join(problems(expression), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
