package node

import (
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
	// statsLimit is the maximum size, in bytes, of the provider's response for one namespace. It suffices for 20,000 pods.
	statsLimit = 8 << 20
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

// podMetrics contains the fields that we read of a metrics.k8s.io/v1beta1 PodMetrics.
type podMetrics struct {
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Timestamp  metav1.Time       `json:"timestamp"`
	Window     metav1.Duration   `json:"window"`
	Containers []struct {
		Name  string                       `json:"name"`
		Usage map[string]resource.Quantity `json:"usage"`
	} `json:"containers"`
}

// look calls tell with the current usage, the local pods by name, and whether the provider failed to report some of the usage. It holds a lock during
// the call, so tell must not keep u.
func (s *stats) look(ctx context.Context, tell func(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool)) {
	// The answer of the provider serves the next requests, too: it must not end with the client that happens to be the first one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statsTimeout)
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
			of, err := s.ask(ctx, namespace, pods)
			failed = errors.Join(failed, err)
			samples = append(samples, of...)
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
func (s *stats) ask(ctx context.Context, namespace string, pods map[types.NamespacedName]*corev1.Pod) ([]sample, error) {
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
	samples, err := readSamples(body, namespace, pods)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of namespace %s: %w", remote, err)
	}
	return samples, nil
}

// readSamples returns the samples of the given pods in a PodMetricsList about a local namespace. It decodes one item at a time, and takes only containers that
// the pods have, so that an untrusted provider decides neither how much memory that costs nor how many series there are.
func readSamples(list []byte, namespace string, pods map[types.NamespacedName]*corev1.Pod) ([]sample, error) {
	var raw struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, fmt.Errorf("decoding a PodMetricsList: %w", err)
	}
	var out []sample
	for _, text := range raw.Items {
		var item podMetrics
		if err := json.Unmarshal(text, &item); err != nil {
			return nil, fmt.Errorf("decoding a PodMetrics: %w", err)
		}
		name := types.NamespacedName{Namespace: namespace, Name: item.Metadata.Name}
		if pod := pods[name]; pod != nil {
			out = append(out, slices.DeleteFunc(item.samples(name), func(s sample) bool { return !hasContainer(&pod.Spec, s.container) })...)
		}
	}
	return out, nil
}

// hasContainer reports whether a pod has a container of that name, of any kind.
func hasContainer(spec *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// samples returns the samples about a pod. A container without a valid value for CPU or memory is unmeasured: zeros in its place would claim that the
// container uses nothing.
func (m *podMetrics) samples(pod types.NamespacedName) []sample {
	var out []sample
	for _, c := range m.Containers {
		cpu, hasCPU := c.Usage[string(corev1.ResourceCPU)]
		memory, hasMemory := c.Usage[string(corev1.ResourceMemory)]
		out = append(out, sample{
			pod: pod, container: c.Name,
			unmeasured: !hasCPU || !hasMemory || cpu.Sign() < 0 || memory.Sign() < 0,
			at:         m.Timestamp.Time, window: m.Window.Duration,
			cores: cpu.AsApproximateFloat64(), bytes: memory.AsApproximateFloat64(),
		})
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
