package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

const (
	// statsAge is the maximum age of cached metrics. The provider's metrics server measures at most every 15 s.
	statsAge = 5 * time.Second
	// statsTimeout limits all requests to the provider that serve one request.
	statsTimeout = 8 * time.Second
	// statsLimit is the maximum size, in bytes, of the provider's response for one namespace.
	statsLimit = 32 << 20
)

// stats serves the resource usage of a virtual node's pods in the formats of a kubelet. It reads the usage from the provider's metrics API.
type stats struct {
	pods  Pods
	kind  string
	node  string
	base  *url.URL
	http  http.Client
	log   *slog.Logger
	clock clock.PassiveClock

	mu     sync.Mutex
	asked  time.Time
	usage  usage
	failed string
}

// podMetrics contains the fields that we read of a metrics.k8s.io/v1beta1 PodMetricsList.
type podMetrics struct {
	Items []struct {
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Timestamp  metav1.Time       `json:"timestamp"`
		Window     metav1.Duration   `json:"window"`
		Containers []struct {
			Name  string                       `json:"name"`
			Usage map[string]resource.Quantity `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// look calls tell with the current usage, the local pods by name, and whether the provider failed to report some of the usage. It holds a lock during
// the call, so tell must not keep u.
func (s *stats) look(ctx context.Context, tell func(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool)) {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	pods, namespaces := map[types.NamespacedName]*corev1.Pod{}, map[string]bool{}
	for _, obj := range s.pods.Local(s.kind) {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
			namespaces[pod.Namespace] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); s.asked.IsZero() || now.Sub(s.asked) >= statsAge {
		var samples []sample
		var failed error
		for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
			of, err := s.ask(ctx, namespace)
			failed = errors.Join(failed, err)
			samples = append(samples, slices.DeleteFunc(of, func(one sample) bool { return pods[one.pod] == nil })...)
		}
		s.asked = now
		s.report(errors.Join(failed, unmeasured(samples)))
		s.usage.take(samples, now)
	}
	tell(&s.usage, pods, s.failed != "")
}

// report logs the first failure to read metrics, each new error message, and the recovery.
func (s *stats) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.failed {
		if s.failed = text; text != "" {
			s.log.Warn("Failed to read the resource usage of pods from the provider", "error", text)
		} else {
			s.log.Info("Read the resource usage of pods from the provider again")
		}
	}
}

// ask returns the usage of the containers of this node's pods in one local namespace.
func (s *stats) ask(ctx context.Context, namespace string) ([]sample, error) {
	remote, mapped := s.pods.RemoteNamespace(namespace)
	if !mapped {
		return nil, nil
	}
	at := s.base.JoinPath("apis", "metrics.k8s.io", "v1beta1", "namespaces", remote, "pods")
	at.RawQuery = url.Values{"labelSelector": {offv1.LabelNodeName + "=" + s.node}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking for the metrics of namespace %s: %w", remote, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for the metrics of namespace %s: %w", remote, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, statsLimit))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the metrics of namespace %s: %w", remote, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("asking for the metrics of namespace %s: %s (does the provider run a metrics server?)", remote, resp.Status)
	}
	var list podMetrics
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading the metrics of namespace %s: %w", remote, err)
	}
	return list.samples(namespace), nil
}

// samples returns the samples in a response about the pods of a local namespace. A container without a valid value for CPU or memory is unmeasured: zeros in
// its place would claim that the container uses nothing.
func (m *podMetrics) samples(namespace string) []sample {
	var out []sample
	for i := range m.Items {
		item := &m.Items[i]
		for _, c := range item.Containers {
			cpu, hasCPU := c.Usage[string(corev1.ResourceCPU)]
			memory, hasMemory := c.Usage[string(corev1.ResourceMemory)]
			out = append(out, sample{
				pod: types.NamespacedName{Namespace: namespace, Name: item.Metadata.Name}, container: c.Name,
				unmeasured: !hasCPU || !hasMemory || cpu.Sign() < 0 || memory.Sign() < 0,
				at:         item.Timestamp.Time, window: item.Window.Duration,
				cores: cpu.AsApproximateFloat64(), bytes: memory.AsApproximateFloat64(),
			})
		}
	}
	return out
}

// unmeasured returns an error that names the first unmeasured container; nil if there is none.
func unmeasured(samples []sample) error {
	i := slices.IndexFunc(samples, func(s sample) bool { return s.unmeasured })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("the metrics of container %.63q of pod %s lack cpu or memory, or one of them is negative (see the metrics server of the provider)",
		samples[i].container, samples[i].pod)
}

// resource serves a kubelet's /metrics/resource, in the text format of Prometheus.
func (s *stats) resource(w http.ResponseWriter, r *http.Request) {
	var out bytes.Buffer
	s.look(r.Context(), func(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
		writeResource(&out, u, pods, failed)
	})
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(out.Bytes())
}

// writeResource writes the metrics, sorted by name. The usage of the node is the sum over its pods, so it is unknown, and left out, if the provider failed
// to report some of them. A pod that its metrics API does not list at all is no failure: it lists a new pod only after the next measurement.
func writeResource(out io.Writer, u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
	keys := slices.SortedFunc(maps.Keys(u.containers), func(a, b containerKey) int {
		return cmp.Or(cmp.Compare(a.pod.String(), b.pod.String()), cmp.Compare(a.container, b.container))
	})
	family := func(name, kind, help string, lines func(line func(labels string, value float64, at time.Time))) {
		_, _ = fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		lines(func(labels string, value float64, at time.Time) {
			stamp := ""
			if !at.IsZero() {
				stamp = " " + strconv.FormatInt(at.UnixMilli(), 10)
			}
			_, _ = fmt.Fprintf(out, "%s%s %s%s\n", name, labels, strconv.FormatFloat(value, 'g', -1, 64), stamp)
		})
	}
	each := func(value func(*reading) float64) func(func(string, float64, time.Time)) {
		return func(line func(string, float64, time.Time)) {
			for _, key := range keys {
				r := u.containers[key]
				line(fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", key.container, key.pod.Namespace, key.pod.Name), value(r), r.at)
			}
		}
	}
	one := func(value float64, at time.Time) func(func(string, float64, time.Time)) {
		return func(line func(string, float64, time.Time)) { line("", value, at) }
	}
	family("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds", each(func(r *reading) float64 { return r.seconds }))
	family("container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes", each(func(r *reading) float64 { return r.bytes }))
	family("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds", func(line func(string, float64, time.Time)) {
		for _, key := range keys {
			if start := started(pods[key.pod], key.container); !start.IsZero() {
				line(fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", key.container, key.pod.Namespace, key.pod.Name), float64(start.Unix()), time.Time{})
			}
		}
	})
	trouble := 1.0
	if !failed {
		trouble = 0
		family("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds", one(u.node.seconds, u.node.at))
		family("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes", one(u.node.bytes, u.node.at))
	}
	family("resource_scrape_error", "gauge", "1 if there was an error while getting container metrics, 0 otherwise", one(trouble, time.Time{}))
}

// started returns when a container of a Pod was started, the zero time if it is not running.
func started(pod *corev1.Pod, container string) time.Time {
	if pod == nil {
		return time.Time{}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.Name == container && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return time.Time{}
}
