package monitoring

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"

	charts "liqo.io/liqo/charts/liqo"
)

// alerts returns the alerts of the chart by name, after a check of the rules by Prometheus' own parser.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule
		}
	}
	return all
}

// state is an alert rule with the start of each of its active alerts, by the labels of the alert.
type state struct {
	rulefmt.Rule
	since map[uint64]time.Time
}

// firing evaluates the rule at a minute; it must be called for all earlier minutes first, and returns the annotations of the alerts that fire, as Prometheus
// does: an alert is active while the expression has a result with its labels, and fires once it was active for the time of the rule.
func (s *state) firing(t *testing.T, in *database, minute int) []map[string]string {
	t.Helper()
	if s.KeepFiringFor != 0 {
		t.Fatalf("%s: keep_firing_for is not evaluated here", s.Alert)
	}
	now := start.Add(time.Duration(minute) * time.Minute)
	results, err := in.query(t.Context(), s.Expr, now)
	if err != nil {
		t.Fatalf("%s in minute %d: %v", s.Alert, minute, err)
	}
	var all []map[string]string
	active := map[uint64]time.Time{}
	for _, result := range results {
		alert := labels.NewBuilder(result.Metric).Del(model.MetricNameLabel).Labels().Hash()
		if _, twice := active[alert]; twice {
			t.Fatalf("%s in minute %d: two alerts have the labels %s", s.Alert, minute, result.Metric)
		}
		active[alert] = now
		if since, before := s.since[alert]; before {
			active[alert] = since
		}
		if now.Sub(active[alert]) >= time.Duration(s.For) {
			all = append(all, s.annotations(t, result, now))
		}
	}
	s.since = active
	return all
}

// annotations fills the templates of the rule.
func (s *state) annotations(t *testing.T, result promql.Sample, now time.Time) map[string]string {
	t.Helper()
	data := template.AlertTemplateData(result.Metric.Map(), nil, "", result)
	filled := map[string]string{}
	for name, text := range s.Annotations {
		text = "{{$labels := .Labels}}{{$value := .Value}}" + text
		expander := template.NewTemplateExpander(t.Context(), text, name, data, model.TimeFromUnix(now.Unix()), nil, nil, nil)
		expanded, err := expander.Expand()
		if err != nil {
			t.Errorf("%s, %s: %v", s.Alert, name, err)
		}
		filled[name] = expanded
	}
	return filled
}

// TestAlertsUseDefinedMetrics: the alerts use only defined metrics, with labels that these metrics have.
func TestAlertsUseDefinedMetrics(t *testing.T) {
	for name, rule := range alerts(t) {
		for _, problem := range problems(rule.Expr) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestHealthyFederationFiresNoAlert evaluates all alerts together with all metrics.
func TestHealthyFederationFiresNoAlert(t *testing.T) {
	all := load(t, federation()...)
	for name, alert := range alerts(t) {
		rule := state{Rule: alert}
		for minute := range length {
			if found := rule.firing(t, all, minute); len(found) > 0 {
				t.Errorf("%s fires in minute %d: %v", name, minute, found)
				break
			}
		}
	}
}

// during returns the samples of a series: a usual value, another one from minute 5 on for some minutes, and the usual one again. While the value
// is "_", the series does not exist.
func during(minutes int, usual, other string) string {
	line, before := []string{}, "_"
	for minute := range 5 + minutes + 30 {
		value := usual
		if minute >= 5 && minute < 5+minutes {
			value = other
		}
		if value == "_" && before != "_" {
			line = append(line, "stale")
		} else {
			line = append(line, value)
		}
		before = value
	}
	return strings.Join(line, " ")
}

// gaps matches traces of a missing label value or a failed template in the text of an annotation.
var gaps = regexp.MustCompile(`  | \.|<`)

// TestAlertsFireAndResolve: each alert fires once when its condition has held for long enough, whatever number of replicas reports it, and ends with its
// condition. The fault of each row starts in minute 5.
func TestAlertsFireAndResolve(t *testing.T) {
	const peer = `cluster_id="milan",instance="a",pod="a"`
	const sameFromB = `cluster_id="milan",instance="b",pod="b"`
	condition := func(from, status string) string {
		return `liqo_peer_condition{` + from + `,condition="NetworkConnectionStatus",status="` + status + `"} `
	}
	certificate := `{kind="Identity",object_namespace="liqo-tenant-milan",object_name="milan",` + peer + `} `
	quota := `{quota="pool",resource="cpu",` + peer + `} `
	reflection := `liqo_virtual_kubelet_reflection_error_counter{node_name="milan-node",namespace="shop",reflector_resource="pods",` + peer + `} `
	tests := map[string]struct {
		series []string
		// from is the first minute in which the alert fires, until the first minute in which it no longer fires.
		from, until int
		summary     string
	}{
		"LiqoControllerManagerDown": {
			[]string{`liqo_build_info{program="controller-manager",version="v1",go_version="go1"} ` + during(10, "1", "_")},
			10, 15, "No controller manager of Liqo serves metrics.",
		},
		"LiqoTunnelDown": {
			[]string{
				condition(peer, "Established") + during(10, "1", "_"), condition(peer, "Error") + during(10, "_", "1"),
				condition(sameFromB, "Established") + during(10, "1", "_"), condition(sameFromB, "Error") + during(10, "_", "1"),
			},
			7, 15, "The tunnel to cluster milan is down.",
		},
		"LiqoGatewayReplicaLost": {
			[]string{
				`liqo_gateway_replicas{gateway="milan",` + peer + `} ` + during(10, "2", "2"),
				`liqo_gateway_available_replicas{gateway="milan",` + peer + `} ` + during(10, "2", "1"),
				`liqo_gateway_replicas{gateway="milan",` + sameFromB + `} ` + during(10, "2", "2"),
				`liqo_gateway_available_replicas{gateway="milan",` + sameFromB + `} ` + during(10, "2", "1"),
			},
			10, 15, "The gateway to cluster milan lacks 1 replicas.",
		},
		"LiqoRoundTripHigh": { // the average of five minutes is too high from minute 7 until minute 26
			[]string{
				`liqo_peer_latency_us{driver="wireguard",` + peer + `} ` + during(20, "1000", "400000"),
				`liqo_peer_is_connected{driver="wireguard",` + peer + `} ` + during(20, "1", "1"),
				// A standby replica: its last measurement is outdated and must be ignored.
				`liqo_peer_latency_us{driver="wireguard",` + sameFromB + `} ` + during(20, "400000", "400000"),
				`liqo_peer_is_connected{driver="wireguard",` + sameFromB + `} ` + during(20, "0", "0"),
			},
			12, 27, "Round trips to cluster milan take 400000 microseconds.",
		},
		"LiqoReflectionErrors": { // 60 errors per minute until minute 34. The window of ten minutes contains errors until minute 42
			[]string{reflection + "0x4 60+60x29 1800x30"},
			15, 43, "Writes of virtual node milan-node keep failing.",
		},
		"LiqoCertificateExpiring": {
			[]string{
				"liqo_certificate_expiry_seconds" + certificate + during(30, "500", "200"),
				"liqo_certificate_lifetime_seconds" + certificate + during(30, "1000", "1000"),
			},
			20, 35, "The certificate or token of Identity milan was not renewed in time.",
		},
		"LiqoQuotaExhausted": {
			[]string{"liqo_quota_used" + quota + during(30, "1", "4"), "liqo_quota_granted" + quota + during(30, "4", "4")},
			20, 35, "Consumer milan uses 100% of its quota of cpu.",
		},
		"LiqoProviderUnreachable": {
			[]string{
				`liqo_peer_api_server_reachable{job="controller-manager",` + peer + `} ` + during(10, "1", "0"),
				`liqo_peer_api_server_reachable{job="virtual-kubelet",` + sameFromB + `} ` + during(10, "1", "1"),
			},
			7, 15, "The API server of provider milan does not respond.",
		},
		"LiqoVirtualNodeNotReady": {
			[]string{
				`liqo_virtual_node_ready{node_name="milan-node",` + peer + `} ` + during(10, "1", "0"),
				`liqo_virtual_node_ready{node_name="milan-node",` + sameFromB + `} ` + during(10, "1", "0"),
			},
			10, 15, "Virtual node milan-node of provider milan is not Ready.",
		},
		"LiqoVersionsDiffer": {
			[]string{
				`liqo_build_info{program="gateway",version="v1",go_version="go1"} ` + during(70, "1", "1"),
				`liqo_build_info{program="fabric",version="v2",go_version="go1"} ` + during(70, "_", "1"),
			},
			65, 75, "Programs of 2 versions of Liqo run at the same time.",
		},
	}
	all := alerts(t)
	for name := range all {
		if _, tested := tests[name]; !tested {
			t.Errorf("no row provokes %s: add one", name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data, rule := load(t, test.series...), state{Rule: all[name]}
			for minute := range test.until + 5 {
				found := rule.firing(t, data, minute)
				want := minute >= test.from && minute < test.until
				if want != (len(found) == 1) || len(found) > 1 {
					t.Errorf("minute %d: %v", minute, found)
				}
				if minute != test.from || len(found) != 1 {
					continue
				}
				if got := found[0]["summary"]; got != test.summary {
					t.Errorf("%q, want %q", got, test.summary)
				}
				for annotation, text := range found[0] {
					if gaps.MatchString(text) {
						t.Errorf("%s lacks a value: %q", annotation, text)
					}
				}
			}
		})
	}
}
