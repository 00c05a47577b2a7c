package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"liqo.io/liqo/internal/remote"
)

// TestTotalsFollowRates: a client that divides the difference of two totals by the time between them, as a metrics server does, gets the provider's rates.
func TestTotalsFollowRates(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	key := containerKey{web, "c"}
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(after time.Duration, cores, bytes float64) []sample {
		return []sample{{pod: web, container: "c", at: t0.Add(after), window: 15 * time.Second, cores: cores, bytes: bytes}}
	}
	u := usage{}
	u.take(of(0, 0, 0), t0)
	if c, n := u.containers[key], u.node; c.seconds == 0 || c.bytes == 0 || n.seconds == 0 || n.bytes == 0 {
		t.Errorf("an idle container looks like one of which nothing is known: %+v, %+v", c, n)
	}
	before, nodeBefore := *u.containers[key], u.node
	u.take(of(15*time.Second, 0.2, 1000), t0)
	for what, got := range map[string][2]reading{"container": {before, *u.containers[key]}, "node": {nodeBefore, u.node}} {
		if rate := (got[1].seconds - got[0].seconds) / got[1].at.Sub(got[0].at).Seconds(); rate < 0.199 || rate > 0.201 || got[1].bytes != 1000 {
			t.Errorf("%s: %f cores, %f bytes", what, rate, got[1].bytes)
		}
	}
	same := *u.containers[key]
	u.take(of(15*time.Second, 0.2, 1000), t0)
	if *u.containers[key] != same {
		t.Error("the same sample counts twice")
	}
	total := u.node.seconds
	u.take(nil, t0.Add(time.Minute))
	if len(u.containers) != 0 || u.node.seconds != total || !u.node.at.Equal(t0.Add(time.Minute)) || u.node.cores != 0 {
		t.Errorf("without pods: %+v", u)
	}
}

func TestResourceUsageOfPods(t *testing.T) {
	asked, broken, partial := atomic.Int32{}, atomic.Bool{}, atomic.Bool{}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		want := "/apis/metrics.k8s.io/v1beta1/namespaces/shop-rome/pods?labelSelector=offloading.liqo.io%2Fnodename%3Dmilan"
		if r.URL.String() != want || r.Header.Get("Authorization") != "Bearer ours" {
			t.Errorf("%s, want %s; %v", r.URL, want, r.Header)
		}
		if broken.Load() {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		second := ""
		if partial.Load() {
			second = `,{"name":"d","usage":{"cpu":"200m"}}`
		}
		_, _ = io.WriteString(w, `{"items":[
			{"metadata":{"name":"web"},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"200m","memory":"4Ki"}}`+second+`]},
			{"metadata":{"name":"of-another-node"},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"7","memory":"1Gi"}}]}]}`)
	}))
	defer provider.Close()
	var logged strings.Builder
	s, err := NewServer(remote.IdentityOf(&rest.Config{Host: provider.URL, BearerToken: "ours"}), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC))
	s.stats.clock = clock.PassiveClock(now)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %s, %v", path, resp.Status, body, err)
		}
		return string(body)
	}
	const at = 1767225600000
	text := get("/metrics/resource")
	for _, want := range []string{
		fmt.Sprintf(`container_cpu_usage_seconds_total{container="c",namespace="shop",pod="web"} 3.001 %d`, at),
		fmt.Sprintf(`container_memory_working_set_bytes{container="c",namespace="shop",pod="web"} 4096 %d`, at),
		fmt.Sprintf("node_cpu_usage_seconds_total 3.001 %d", at),
		fmt.Sprintf("node_memory_working_set_bytes 4096 %d", at),
		"resource_scrape_error 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "of-another-node") {
		t.Errorf("pods of others are told:\n%s", text)
	}
	var told summary
	if err := json.Unmarshal([]byte(get("/stats/summary")), &told); err != nil {
		t.Fatal(err)
	}
	if told.Node.NodeName != "milan" || told.Node.CPU == nil || told.Node.Memory == nil || told.Node.Memory.WorkingSetBytes != 4096 {
		t.Errorf("node: %+v", told.Node)
	}
	if len(told.Pods) != 1 || told.Pods[0].PodRef.Name != "web" || told.Pods[0].CPU.UsageNanoCores != 200_000_000 || told.Pods[0].Containers[0].Memory.WorkingSetBytes != 4096 {
		t.Errorf("%+v", told)
	}
	if asked.Load() != 1 {
		t.Errorf("the provider was asked %d times for two answers", asked.Load())
	}
	broken.Store(true)
	for range 3 {
		now.SetTime(now.Now().Add(time.Minute))
		if text := get("/metrics/resource"); !strings.Contains(text, "resource_scrape_error 1\n") || strings.Contains(text, `pod="web"`) || strings.Contains(text, "node_") {
			t.Errorf("a provider that tells nothing:\n%s", text)
		}
		if text := get("/stats/summary"); strings.TrimSpace(text) != `{"node":{"nodeName":"milan"},"pods":[]}` {
			t.Errorf("a provider that tells nothing: %s", text)
		}
	}
	if n := strings.Count(logged.String(), "Failed to read the resource usage"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, &logged)
	}
	broken.Store(false)
	partial.Store(true)
	now.SetTime(now.Now().Add(time.Minute))
	if text := get("/metrics/resource"); !strings.Contains(text, "resource_scrape_error 1\n") || !strings.Contains(text, `container="c"`) || strings.Contains(text, "node_") {
		t.Errorf("a provider that has not measured one of two containers:\n%s", text)
	}
}

// TestUnmeasuredContainersAreLeftOut: a container with a missing or invalid value is left out, and so are the sums that it belongs to.
func TestUnmeasuredContainersAreLeftOut(t *testing.T) {
	for text, want := range map[string]int{
		`{"cpu":"200m","memory":"4Ki"}`: 1, `{"cpu":"0","memory":"0"}`: 1,
		`{"cpu":"200m"}`: 0, `{"memory":"4Ki"}`: 0, `null`: 0, `{"cpu":"-1","memory":"4Ki"}`: 0, `{"cpu":"1","memory":"-4Ki"}`: 0,
	} {
		pod := types.NamespacedName{Namespace: "shop", Name: "web"}
		local := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "measured"}}}}
		list := `{"items":[{"metadata":{"name":"web"},"containers":[{"name":"c","usage":` + text + `},{"name":"invented","usage":{"cpu":"1","memory":"1"}}]}]}`
		samples, err := readSamples(strings.NewReader(list), "shop", map[types.NamespacedName]*corev1.Pod{pod: local}, nil)
		if err != nil || len(samples) != 1 {
			t.Fatalf("%+v, %v: want the container that the pod has", samples, err)
		}
		samples = append(samples, sample{pod: pod, container: "measured", cores: 1, bytes: 1})
		err = unmeasured(samples)
		if (err == nil) != (want == 1) || err != nil && (!strings.Contains(err.Error(), `"c"`) || !strings.Contains(err.Error(), "shop/web")) {
			t.Errorf("%s: error %v", text, err)
		}
		u := usage{}
		u.take(samples, time.Now())
		if u.containers[containerKey{pod, "measured"}] == nil || len(u.containers) != want+1 {
			t.Errorf("%s: containers %+v, want %d", text, u.containers, want+1)
		}
		told := summarize("milan", &u, nil)
		if len(told.Pods) != 1 || len(told.Pods[0].Containers) != want+1 || (told.Pods[0].CPU == nil) != (want == 0) || (told.Pods[0].Memory == nil) != (want == 0) {
			t.Errorf("%s: %+v", text, told)
		}
	}
}

// TestListsOfUsage: unknown and missing fields of a list are no error. A truncated list, or a response that is no list, is an error.
func TestListsOfUsage(t *testing.T) {
	const both = `{"metadata":{"name":"web","labels":{"items":"x"}},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[
		{"name":"c","usage":{"cpu":"1","memory":"4Ki"}},{"name":"d","usage":{"cpu":"2","memory":"8Ki"}}]}`
	pod := types.NamespacedName{Namespace: "shop", Name: "web"}
	local := map[types.NamespacedName]*corev1.Pod{pod: {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "d"}}}}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	measured := []sample{
		{pod: pod, container: "c", at: at, window: 15 * time.Second, cores: 1, bytes: 4096},
		{pod: pod, container: "d", at: at, window: 15 * time.Second, cores: 2, bytes: 8192},
	}
	for list, want := range map[string][]sample{
		`null`: {}, `{}`: {}, `{"items":null}`: {}, `{"items":[]}`: {}, `{"items":[{}]}`: {},
		`{"kind":"PodMetricsList","metadata":{"items":[1]},"items":[` + both + `],"more":[{}]}`: measured,
		// A field of one item must not carry over to the next item.
		`{"items":[` + both + `,{"metadata":{"name":"web"},"containers":[{"name":"c"}]}]}`: append(slices.Clone(measured), sample{pod: pod, container: "c", unmeasured: true}),
	} {
		got, err := readSamples(strings.NewReader(list), "shop", local, nil)
		for i := range got {
			got[i].at = got[i].at.UTC()
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v", list, got, err)
		}
	}
	for _, list := range []string{``, `[]`, `{"items":{}}`, `{"items":[` + both, `{"items":[` + both + `]`, `{"items":[7]}`, `{"items":[{"containers":[{"usage":{"cpu":"much"}}]}]}`} {
		if got, err := readSamples(strings.NewReader(list), "shop", local, nil); err == nil {
			t.Errorf("%s: %+v without an error", list, got)
		}
	}
}

// TestContainersListedTwiceCountOnce: a provider lists a container twice, in one item or in two, and the node uses no more for that.
func TestContainersListedTwiceCountOnce(t *testing.T) {
	pod := types.NamespacedName{Namespace: "shop", Name: "web"}
	local := map[types.NamespacedName]*corev1.Pod{pod: {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}}
	const container = `{"name":"c","usage":{"cpu":"1","memory":"4Ki"}}`
	item := func(at, containers string) string {
		return `{"metadata":{"name":"web"},"timestamp":"2026-01-01T00:00:` + at + `Z","window":"15s","containers":[` + containers + `]}`
	}
	var once usage
	for _, list := range []string{
		item("00", container), item("00", container+","+container), item("00", container) + "," + item("00", container),
		item("00", container) + "," + item("07", container),
	} {
		samples, err := readSamples(strings.NewReader(`{"items":[`+list+`]}`), "shop", local, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := usage{}
		u.take(samples, time.Now())
		if once.containers == nil {
			once = u
		}
		if u.node != once.node || *u.containers[containerKey{pod, "c"}] != *once.containers[containerKey{pod, "c"}] {
			t.Errorf("%s: %+v, want %+v", list, u.node, once.node)
		}
	}
	if once.node.cores != 1 || once.node.bytes != 4096 {
		t.Errorf("listed once: %+v", once.node)
	}
}

// TestASharedReadOutlivesItsFirstClient: the client that caused the request to the provider disconnects, and the other clients still get the
// response.
func TestASharedReadOutlivesItsFirstClient(t *testing.T) {
	asked, respond := make(chan struct{}, 1), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-respond:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, `{"items":[
			{"metadata":{"name":"web"},"timestamp":"2026-01-01T00:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"200m","memory":"4Ki"}}]}]}`)
	}))
	defer provider.Close()
	s, err := NewServer(remote.IdentityOf(&rest.Config{Host: provider.URL}), onePod{}, "milan", "Pod", StatsAge, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics/resource", nil))
	}()
	<-asked
	leave()
	select {
	case <-done: // the request to the provider ended with its first client
	case <-time.After(200 * time.Millisecond):
	}
	close(respond)
	<-done
	other := httptest.NewRecorder()
	s.Handler().ServeHTTP(other, httptest.NewRequest(http.MethodGet, "/metrics/resource", nil))
	if text := other.Body.String(); !strings.Contains(text, "resource_scrape_error 0\n") || !strings.Contains(text, `pod="web"`) {
		t.Errorf("after the first client left:\n%s", text)
	}
}

func TestAuthorizationOfPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/metrics/resource": "metrics", "/metrics": "metrics", "/stats/summary": "stats", "/logs/": "log", "/checkpoint/a/b/c": "checkpoint",
		"/pods": "pods proxy", "/runningpods/": "pods proxy", "/healthz": "healthz proxy", "/healthz/ping": "healthz proxy", "/configz": "configz proxy",
		"/exec/a/b/c": "proxy", "/metricsandmore": "proxy", "/podsandmore": "proxy", "/run/metrics/": "proxy", "/containerLogs/a/b/c": "proxy",
	} {
		if got := strings.Join(subresources(path), " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
