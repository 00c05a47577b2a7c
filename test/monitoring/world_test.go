package monitoring

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/metrics"
)

// start is the time of the first sample of all series. Samples follow each minute.
var start = time.Unix(0, 0).UTC()

// length is the number of minutes for which the healthy federation has samples.
const length = 120

// values are the values of each label in the healthy federation. A metric has one series for each combination of the values of its labels.
var values = map[string][]string{
	"cluster_id": {"milan", "oslo"}, "node_name": {"milan"}, "driver": {"wireguard"}, "implementation": {"kernel"}, "gateway": {"milan"},
	"program": {metrics.ControllerManager, metrics.VirtualKubelet, metrics.Gateway, metrics.Fabric, metrics.Proxy}, "version": {"v1"}, "go_version": {"go1"},
	"condition": {"APIServerStatus", "NetworkConnectionStatus", "OffloadingNodeStatus"}, "status": {"Established"},
	"kind": {"Identity"}, "object_namespace": {"liqo-tenant-milan"}, "object_name": {"milan"}, "quota": {"pool-rome"}, "resource": {"cpu", "memory"},
	"namespace": {"shop"}, "reflector_resource": {"pods", "services"}, "phase": {"Running", "Pending"}, "result": {"success", "error"}, "method": {"GET"}, "direction": {"outgoing", "incoming"},
}

// healthy holds the samples of metrics with unusual healthy values. Other gauges are 1, and other counters grow steadily.
var healthy = map[string]string{
	metrics.PeerLatency.Name:         "1200",
	metrics.PeerHandshakeAge.Name:    "60",
	metrics.CertificateExpiry.Name:   "5000",
	metrics.CertificateLifetime.Name: "10000",
	metrics.QuotaGranted.Name:        "4",
	metrics.ReflectionErrors.Name:    "7",
}

// federation returns the series of a healthy federation: each metric of each program, scraped from two pods.
func federation() []string {
	var all []string
	for _, d := range metrics.All() {
		for _, pod := range []string{"a", "b"} {
			sets := []string{fmt.Sprintf(`instance=%q,pod=%q`, pod, pod)}
			for _, label := range d.Labels {
				var more []string
				for _, set := range sets {
					for _, value := range values[label] {
						more = append(more, fmt.Sprintf(`%s,%s=%q`, set, label, value))
					}
				}
				sets = more
			}
			for _, set := range sets {
				all = append(all, samples(d, set)...)
			}
		}
	}
	return all
}

func samples(d *metrics.Definition, set string) []string {
	line := func(suffix, labels, first string, growth int) string {
		return fmt.Sprintf("%s%s{%s} %s+%dx%d", d.Name, suffix, labels, first, growth, length)
	}
	first, changed := healthy[d.Name]
	switch {
	case d.Type == metrics.Histogram:
		lines := []string{line("_bucket", set+`,le="+Inf"`, "0", 10), line("_count", set, "0", 10), line("_sum", set, "0", 10)}
		for _, bound := range d.Buckets {
			lines = append(lines, line("_bucket", fmt.Sprintf(`%s,le="%g"`, set, bound), "0", 10))
		}
		return lines
	case changed:
		return []string{line("", set, first, 0)}
	case d.Type == metrics.Counter:
		return []string{line("", set, "0", 10)}
	}
	return []string{line("", set, "1", 0)}
}

// TestFederationHasAllLabels: each label of each metric has a value in the healthy federation.
func TestFederationHasAllLabels(t *testing.T) {
	for _, d := range metrics.All() {
		for _, label := range d.Labels {
			if len(values[label]) == 0 {
				t.Errorf("%s: label %s has no value here: add one", d.Name, label)
			}
		}
	}
	if !slices.ContainsFunc(federation(), func(line string) bool { return strings.HasPrefix(line, metrics.BuildInfo.Name+"{") }) {
		t.Errorf("there is no series of %s", metrics.BuildInfo.Name)
	}
}
