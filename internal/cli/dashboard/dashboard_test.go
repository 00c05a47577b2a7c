package dashboard

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
)

// TestUsageOfNodes: the usage of virtual nodes is read from the response of a metrics server.
func TestUsageOfNodes(t *testing.T) {
	got, err := usageOf([]byte(`{"kind":"NodeMetricsList","items":[{"metadata":{"name":"milan"},"usage":{"cpu":"250m","memory":"1Gi"}}]}`))
	if cpu := got["milan"]["cpu"]; err != nil || len(got) != 1 || cpu.String() != "250m" {
		t.Errorf("%v, %v; want 250m of cpu on milan", got, err)
	}
	if _, err := usageOf([]byte("no metrics")); err == nil {
		t.Error("a response that is no list of metrics is accepted")
	}
}

// TestLogsAndMetricsOfPodsAreBounded: a pod whose last line has no end, or that serves metrics without one, does not fill the memory of the
// administrator's machine.
func TestLogsAndMetricsOfPodsAreBounded(t *testing.T) {
	most := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n, err := 0, error(nil); n < most && err == nil; n += 1 << 10 {
			_, err = w.Write(bytes.Repeat([]byte("x"), min(1<<10, most-n)))
		}
	}))
	defer server.Close()
	kinds := session.Scheme()
	c := &session.Cluster{ID: "milan", WithWatch: fake.NewClientBuilder().WithScheme(kinds).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(kinds)).Build(), Config: &rest.Config{Host: server.URL}}
	watched, err := watchedCluster(c, false)
	if err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]struct {
		limit int
		read  func() ([]byte, error)
	}{
		"the last line": {workload.MaxLine, func() ([]byte, error) { return workload.LastLine(t.Context(), c, "ns", "pod", "sender") }},
		"metrics":       {maxMetrics, func() ([]byte, error) { return watched.Metrics(t.Context(), "ns", "pod", 80) }},
	} {
		for _, row := range []struct{ sent, want int }{{read.limit, read.limit}, {read.limit + 1, 0}, {10 * read.limit, 0}} {
			most = row.sent
			if text, err := read.read(); len(text) != row.want || (err == nil) != (row.want > 0) {
				t.Errorf("%s: of %d bytes: %d, %v", what, row.sent, len(text), err)
			}
		}
	}
}
