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

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/excerpt"
)

const (
	// StatsAge is the maximum age of cached metrics. The provider's metrics server measures at most every 15 s.
	StatsAge = 5 * time.Second
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
	// age is the maximum age of cached metrics.
	age time.Duration

	mu     sync.Mutex
	asked  time.Time
	usage  usage
	failed string
	// local and samples are reused for each request: a node may have thousands of pods, and is scraped every few seconds.
	local   map[types.NamespacedName]*corev1.Pod
	samples []sample
}

// podMetrics contains the fields that we read of a metrics.k8s.io/v1beta1 PodMetrics.
type podMetrics struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Timestamp  metav1.Time        `json:"timestamp"`
	Window     metav1.Duration    `json:"window"`
	Containers []containerMetrics `json:"containers"`
}

type containerMetrics struct {
	Name  string `json:"name"`
	Usage struct {
		CPU    amount `json:"cpu"`
		Memory amount `json:"memory"`
	} `json:"usage"`
}

// amount is a resource.Quantity that may be missing.
type amount struct {
	known bool
	value float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var quantity resource.Quantity
	if err := quantity.UnmarshalJSON(text); err != nil {
		return err
	}
	a.known, a.value = true, quantity.AsApproximateFloat64()
	return nil
}

// read calls render with the current usage, the local pods by name, and whether the provider failed to report some of the usage. It holds a lock
// during the call, so render must not keep u or pods.
func (s *stats) read(ctx context.Context, render func(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool)) {
	// Later requests use the provider's response too, so the request to the provider must not be cancelled with the first client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statsTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local == nil {
		s.local = map[types.NamespacedName]*corev1.Pod{}
	}
	defer clear(s.local) // it must not keep pods that were deleted
	pods, namespaces := s.local, map[string]bool{}
	for _, obj := range s.pods.Local(s.kind) {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
			namespaces[pod.Namespace] = true
		}
	}
	if now := s.clock.Now(); s.asked.IsZero() || now.Sub(s.asked) >= s.age {
		samples := s.samples[:0]
		var failed error
		for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
			before := len(samples)
			var err error
			samples, err = s.ask(ctx, namespace, pods, samples)
			if len(samples)-before > 4*len(pods) { // few nodes have so many containers
				samples = firsts(samples, before)
			}
			failed = errors.Join(failed, err)
		}
		s.report(errors.Join(failed, unmeasured(samples)))
		s.usage.take(samples, now)
		if s.samples = samples; cap(samples) > 4*(len(samples)+leastSamples) { // the provider listed containers repeatedly
			s.samples = nil
		}
		// The time is taken after the response. If the provider times out, all requests that wait for the lock share this attempt instead of making
		// one each.
		s.asked = s.clock.Now()
	}
	render(&s.usage, pods, s.failed != "")
}

// leastSamples is the number of samples whose memory is always reused for the next reading.
const leastSamples = 1024

// firsts removes from samples[from:] all but the first sample of each container, since a provider may list a container several times.
func firsts(samples []sample, from int) []sample {
	seen := make(map[containerKey]bool, len(samples)-from)
	rest := slices.DeleteFunc(samples[from:], func(s sample) bool {
		key := containerKey{s.pod, s.container}
		defer func() { seen[key] = true }()
		return seen[key]
	})
	return samples[:from+len(rest)]
}

// mostErrorText is the maximum length, in bytes, of a logged error, which may contain text from the provider.
const mostErrorText = 1024

// report logs the first failure to read metrics, each new error message, and the recovery.
func (s *stats) report(err error) {
	text := ""
	if err != nil {
		text = excerpt.Of(err.Error(), mostErrorText)
	}
	if text != s.failed {
		if s.failed = text; text != "" {
			s.log.Warn("Failed to read the resource usage of pods from the provider", "error", text)
		} else {
			s.log.Info("Reading the resource usage of pods from the provider succeeds again")
		}
	}
}

// ask appends the usage of the containers of this node's pods in one local namespace to out. If it fails, it appends nothing.
func (s *stats) ask(ctx context.Context, namespace string, pods map[types.NamespacedName]*corev1.Pod, out []sample) ([]sample, error) {
	remote, mapped := s.pods.RemoteNamespace(namespace)
	if !mapped {
		return out, nil
	}
	at := s.base.JoinPath("apis", "metrics.k8s.io", "v1beta1", "namespaces", remote, "pods")
	at.RawQuery = url.Values{"labelSelector": {offloadingv1beta1.LabelNodeName + "=" + s.node}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return out, fmt.Errorf("requesting the metrics of namespace %s: %w", remote, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("requesting the metrics of namespace %s: %w", remote, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("requesting the metrics of namespace %s: %s (does the provider run a metrics server?)", remote, resp.Status)
	}
	body := io.LimitReader(resp.Body, statsLimit)
	samples, err := readSamples(body, namespace, pods, out)
	_, _ = io.Copy(io.Discard, body) // a connection is reused only if the response was read to its end
	if err != nil {
		return out, fmt.Errorf("reading the metrics of namespace %s: %w", remote, err)
	}
	return samples, nil
}

// readSamples reads a PodMetricsList and appends the samples of those pods that are in pods to out. namespace is the local namespace of these pods. It decodes
// one item at a time, while it arrives, and takes only containers that the pods have, so that an untrusted provider controls neither the memory usage nor the
// number of series.
func readSamples(list io.Reader, namespace string, pods map[types.NamespacedName]*corev1.Pod, out []sample) ([]sample, error) {
	decoder := json.NewDecoder(list)
	if is, err := opens(decoder, '{'); err != nil || !is {
		return out, err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("decoding a PodMetricsList: %w", err)
		}
		if key != "items" {
			if err := decoder.Decode(&json.RawMessage{}); err != nil {
				return nil, fmt.Errorf("decoding a PodMetricsList: %w", err)
			}
			continue
		}
		is, err := opens(decoder, '[')
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		if out, err = readItems(decoder, namespace, pods, out); err != nil {
			return nil, err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("decoding a PodMetricsList: %w", err)
	}
	return out, nil
}

// opens reads the token that opens an object or a list; false if there is null instead.
func opens(decoder *json.Decoder, delimiter json.Delim) (bool, error) {
	token, err := decoder.Token()
	if err == nil && token != nil && token != delimiter {
		err = fmt.Errorf("decoding a PodMetricsList: %v is not %v", token, delimiter)
	}
	return token != nil, err
}

// readItems appends the samples of the items of a list, and reads the list up to its end.
func readItems(decoder *json.Decoder, namespace string, pods map[types.NamespacedName]*corev1.Pod, out []sample) ([]sample, error) {
	var item podMetrics
	for decoder.More() {
		containers := item.Containers[:cap(item.Containers)]
		clear(containers) // otherwise an item without a field would keep the value of the previous item
		item = podMetrics{Containers: containers[:0]}
		if err := decoder.Decode(&item); err != nil {
			return nil, fmt.Errorf("decoding a PodMetrics: %w", err)
		}
		name := types.NamespacedName{Namespace: namespace, Name: item.Metadata.Name}
		if pod := pods[name]; pod != nil {
			out = item.samples(name, &pod.Spec, out)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("decoding a PodMetricsList: %w", err)
	}
	return out, nil
}

// hasContainer reports whether a pod has a container of that name, of any kind.
func hasContainer(spec *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// samples appends the samples about the containers that a pod has. A container without a valid value for CPU or memory is unmeasured: zeros in its
// place would claim that the container uses nothing.
func (m *podMetrics) samples(pod types.NamespacedName, spec *corev1.PodSpec, out []sample) []sample {
	for i := range m.Containers {
		c := &m.Containers[i]
		if !hasContainer(spec, c.Name) {
			continue
		}
		cpu, memory := c.Usage.CPU, c.Usage.Memory
		out = append(out, sample{
			pod: pod, container: c.Name,
			unmeasured: !cpu.known || !memory.known || cpu.value < 0 || memory.value < 0,
			at:         m.Timestamp.Time, window: m.Window.Duration,
			cores: cpu.value, bytes: memory.value,
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
