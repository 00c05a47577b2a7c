package node

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// exposition is a response in the text format of Prometheus.
type exposition struct {
	text bytes.Buffer
	// name is the metric whose samples are being written.
	name string
}

// family starts a metric. The next samples belong to it.
func (e *exposition) family(name, kind, help string) {
	e.name = name
	fmt.Fprintf(&e.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes a value. The argument at is the time of its measurement; the zero time stands for the time of the response. labels alternates names and values.
func (e *exposition) sample(value float64, at time.Time, labels ...string) {
	line := append(e.text.AvailableBuffer(), e.name...)
	for i := 0; i+1 < len(labels); i += 2 {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		line = append(append(append(line, separator), labels[i]...), `="`...)
		if text := labels[i+1]; strings.ContainsAny(text, "\\\n\"") {
			line = append(line, escaped.Replace(text)...)
		} else {
			line = append(line, text...)
		}
		line = append(line, '"')
	}
	if len(labels) > 0 {
		line = append(line, '}')
	}
	line = strconv.AppendFloat(append(line, ' '), value, 'g', -1, 64)
	if !at.IsZero() {
		line = strconv.AppendInt(append(line, ' '), at.UnixMilli(), 10)
	}
	e.text.Write(append(line, '\n'))
}

// escaped escapes the characters that have a meaning in the format. Go's quoting would also escape others, which Prometheus does not understand.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// expositions pools the memory of responses that were sent. A response about a thousand pods takes half a megabyte, and the next response follows
// soon.
var expositions = sync.Pool{New: func() any { return &exposition{} }}

// largestKept is the size of the largest response whose memory is reused.
const largestKept = 4 << 20

func newExposition() *exposition { return expositions.Get().(*exposition) }

// release allows the next response to use the memory of this one.
func (e *exposition) release() {
	if e.text.Cap() <= largestKept {
		e.text.Reset()
		expositions.Put(e)
	}
}

func (e *exposition) respond(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(e.text.Bytes())
}

// kubelet serves a kubelet's /metrics, with the metrics that a virtual node can provide. It sends no request to the provider.
func (s *stats) kubelet(w http.ResponseWriter, _ *http.Request) {
	running, states := 0, map[string]int{"running": 0, "exited": 0}
	for _, obj := range s.pods.Local(s.kind) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		if pod.Status.Phase == corev1.PodRunning {
			running++
		}
		for _, all := range statuses(pod) {
			for i := range all {
				switch {
				case all[i].State.Running != nil:
					states["running"]++
				case all[i].State.Terminated != nil:
					states["exited"]++
				}
			}
		}
	}
	out := newExposition()
	defer out.release()
	out.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.")
	out.sample(1, time.Time{}, "node", s.node)
	out.family("kubelet_running_pods", "gauge", "Number of pods of this node that run in the provider")
	out.sample(float64(running), time.Time{})
	out.family("kubelet_running_containers", "gauge", "Number of containers of this node's pods, by state")
	for _, state := range slices.Sorted(maps.Keys(states)) {
		out.sample(float64(states[state]), time.Time{}, "container_state", state)
	}
	out.respond(w)
}

// resource serves a kubelet's /metrics/resource.
func (s *stats) resource(w http.ResponseWriter, r *http.Request) {
	out := newExposition()
	defer out.release()
	s.read(r.Context(), out.resource)
	out.respond(w)
}

// resource writes the usage of containers, pods and the node, sorted by name. The usage of the node is the sum over its pods. It is left out if the
// provider failed to report some of them. The usage of a pod is left out if one of its containers is unmeasured. A pod that the provider's metrics
// API does not list is no failure: the API lists a new pod only after the next measurement.
func (e *exposition) resource(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
	containers := e.containers(u, pods, func(out []string, key containerKey) []string {
		return append(out, "container", key.container, "namespace", key.pod.Namespace, "pod", key.pod.Name)
	})
	containers("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds", cpuSeconds)
	containers("container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes", memoryBytes)
	containers("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds", nil)
	perPod := func(name, kind, help string, value func(*reading) float64) {
		e.family(name, kind, help)
		for i := 0; i < len(u.keys); {
			pod, total := u.keys[i].pod, reading{}
			for ; i < len(u.keys) && u.keys[i].pod == pod; i++ {
				total.include(u.containers[u.keys[i]])
			}
			if !u.partial[pod] {
				e.sample(value(&total), total.at, "namespace", pod.Namespace, "pod", pod.Name)
			}
		}
	}
	perPod("pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod in core-seconds", cpuSeconds)
	perPod("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes", memoryBytes)
	if !failed {
		e.family("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds")
		e.sample(u.node.seconds, u.node.at)
		e.family("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes")
		e.sample(u.node.bytes, u.node.at)
	}
	e.failure("resource_scrape_error", failed)
}

// cadvisor serves a kubelet's /metrics/cadvisor, with the metrics that the provider reports.
func (s *stats) cadvisor(w http.ResponseWriter, r *http.Request) {
	out := newExposition()
	defer out.release()
	s.read(r.Context(), out.cadvisor)
	out.respond(w)
}

// cadvisor writes the usage of containers with the labels that cAdvisor gives them, from the status of their pods.
func (e *exposition) cadvisor(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
	identity := func(out []string, key containerKey) []string {
		image, id := "", ""
		if c := statusOf(pods[key.pod], key.container); c != nil {
			image = c.Image
			_, id, _ = strings.Cut(c.ContainerID, "://")
		}
		return append(out, "image", image, "name", id, "namespace", key.pod.Namespace, "pod", key.pod.Name)
	}
	perCPU := e.containers(u, pods, func(out []string, key containerKey) []string {
		return identity(append(out, "container", key.container, "cpu", "total"), key)
	})
	containers := e.containers(u, pods, func(out []string, key containerKey) []string {
		return identity(append(out, "container", key.container), key)
	})
	perCPU("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", cpuSeconds)
	containers("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", memoryBytes)
	containers("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", nil)
	e.failure("container_scrape_error", failed)
}

func cpuSeconds(r *reading) float64 { return r.seconds }

func memoryBytes(r *reading) float64 { return r.bytes }

// containers returns a function that writes one metric, with a sample for each measured container. value computes a sample from the reading of the
// container. If value is nil, the sample is the start time of the container. labelsOf appends the labels of a container.
func (e *exposition) containers(
	u *usage, pods map[types.NamespacedName]*corev1.Pod, labelsOf func([]string, containerKey) []string,
) func(name, kind, help string, value func(*reading) float64) {
	labels := make([]string, 0, 12)
	return func(name, kind, help string, value func(*reading) float64) {
		e.family(name, kind, help)
		for _, key := range u.keys {
			if value != nil {
				e.sample(value(u.containers[key]), u.containers[key].at, labelsOf(labels, key)...)
			} else if start := started(pods[key.pod], key.container); !start.IsZero() {
				e.sample(float64(start.Unix()), time.Time{}, labelsOf(labels, key)...)
			}
		}
	}
}

// failure writes whether the provider failed to report the usage of some containers.
func (e *exposition) failure(name string, failed bool) {
	value := 0.0
	if failed {
		value = 1
	}
	e.family(name, "gauge", "1 if there was an error while getting container metrics, 0 otherwise")
	e.sample(value, time.Time{})
}

func comparePods(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// statuses returns the statuses of all containers of a Pod, by kind.
func statuses(pod *corev1.Pod) [3][]corev1.ContainerStatus {
	return [...][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses}
}

// statusOf returns the status of a container of a Pod, nil if there is none.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	if pod == nil {
		return nil
	}
	for _, all := range statuses(pod) {
		for i := range all {
			if all[i].Name == container {
				return &all[i]
			}
		}
	}
	return nil
}

// started returns when a container of a Pod was started, the zero time if it is not running.
func started(pod *corev1.Pod, container string) time.Time {
	if c := statusOf(pod, container); c != nil && c.State.Running != nil {
		return c.State.Running.StartedAt.Time
	}
	return time.Time{}
}
