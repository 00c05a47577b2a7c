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

// family begins a metric, to which the next samples belong.
func (e *exposition) family(name, kind, help string) {
	e.name = name
	fmt.Fprintf(&e.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes a value. at is the time of its measurement; the zero time stands for the time of the response.
func (e *exposition) sample(labels string, value float64, at time.Time) {
	e.text.WriteString(e.name + labels + " " + strconv.FormatFloat(value, 'g', -1, 64))
	if !at.IsZero() {
		e.text.WriteString(" " + strconv.FormatInt(at.UnixMilli(), 10))
	}
	e.text.WriteByte('\n')
}

// escaped is what a label value has of the format's own characters. Go's quotes would also escape others, which Prometheus does not understand.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labels returns labels in the format of a sample, from names and values in turn.
func labels(pairs ...string) string {
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, pairs[i]+`="`+escaped.Replace(pairs[i+1])+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
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
		for _, c := range statuses(pod) {
			switch {
			case c.State.Running != nil:
				states["running"]++
			case c.State.Terminated != nil:
				states["exited"]++
			}
		}
	}
	var out exposition
	out.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.")
	out.sample(labels("node", s.node), 1, time.Time{})
	out.family("kubelet_running_pods", "gauge", "Number of pods of this node that run in the provider")
	out.sample("", float64(running), time.Time{})
	out.family("kubelet_running_containers", "gauge", "Number of containers of this node's pods, by state")
	for _, state := range slices.Sorted(maps.Keys(states)) {
		out.sample(labels("container_state", state), float64(states[state]), time.Time{})
	}
	out.respond(w)
}

// resource serves a kubelet's /metrics/resource.
func (s *stats) resource(w http.ResponseWriter, r *http.Request) {
	var out exposition
	s.look(r.Context(), out.resource)
	out.respond(w)
}

// resource writes the usage of containers, pods and the node, sorted by name. The usage of the node is the sum over its pods, so it is unknown, and left
// out, if the provider failed to report some of them; and so is that of a pod with an unmeasured container. A pod that the provider's metrics API does not
// list at all is no failure: it lists a new pod only after the next measurement.
func (e *exposition) resource(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
	containers := e.containers(u, pods, func(key containerKey) string {
		return labels("container", key.container, "namespace", key.pod.Namespace, "pod", key.pod.Name)
	})
	containers("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds", cpuSeconds)
	containers("container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes", memoryBytes)
	containers("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds", nil)
	totals := u.perPod()
	perPod := func(name, kind, help string, value func(*reading) float64) {
		e.family(name, kind, help)
		for _, pod := range slices.SortedFunc(maps.Keys(totals), comparePods) {
			if !u.partial[pod] {
				e.sample(labels("namespace", pod.Namespace, "pod", pod.Name), value(totals[pod]), totals[pod].at)
			}
		}
	}
	perPod("pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod in core-seconds", cpuSeconds)
	perPod("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes", memoryBytes)
	if !failed {
		e.family("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds")
		e.sample("", u.node.seconds, u.node.at)
		e.family("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes")
		e.sample("", u.node.bytes, u.node.at)
	}
	e.failure("resource_scrape_error", failed)
}

// cadvisor serves a kubelet's /metrics/cadvisor, with the metrics that the provider reports.
func (s *stats) cadvisor(w http.ResponseWriter, r *http.Request) {
	var out exposition
	s.look(r.Context(), out.cadvisor)
	out.respond(w)
}

// cadvisor writes the usage of containers with the labels that cAdvisor gives them, from the status of their pods.
func (e *exposition) cadvisor(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
	containers := e.containers(u, pods, func(key containerKey) string {
		c, _ := statusOf(pods[key.pod], key.container)
		_, id, _ := strings.Cut(c.ContainerID, "://")
		return labels("container", key.container, "image", c.Image, "name", id, "namespace", key.pod.Namespace, "pod", key.pod.Name)
	})
	containers("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", cpuSeconds)
	containers("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", memoryBytes)
	containers("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", nil)
	e.failure("container_scrape_error", failed)
}

func cpuSeconds(r *reading) float64 { return r.seconds }

func memoryBytes(r *reading) float64 { return r.bytes }

// containers returns a function that writes a metric of the measured containers, sorted by name: the value of their reading or, if value is nil, their start.
func (e *exposition) containers(
	u *usage, pods map[types.NamespacedName]*corev1.Pod, labelsOf func(containerKey) string,
) func(name, kind, help string, value func(*reading) float64) {
	keys := slices.SortedFunc(maps.Keys(u.containers), func(a, b containerKey) int {
		return cmp.Or(comparePods(a.pod, b.pod), cmp.Compare(a.container, b.container))
	})
	return func(name, kind, help string, value func(*reading) float64) {
		e.family(name, kind, help)
		for _, key := range keys {
			if start := started(pods[key.pod], key.container); value != nil {
				e.sample(labelsOf(key), value(u.containers[key]), u.containers[key].at)
			} else if !start.IsZero() {
				e.sample(labelsOf(key), float64(start.Unix()), time.Time{})
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
	e.sample("", value, time.Time{})
}

func comparePods(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// statuses returns the statuses of all containers of a Pod, of any kind.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// statusOf returns the status of a container of a Pod, false if there is none.
func statusOf(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	if pod == nil {
		return corev1.ContainerStatus{}, false
	}
	all := statuses(pod)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if i < 0 {
		return corev1.ContainerStatus{}, false
	}
	return all[i], true
}

// started returns when a container of a Pod was started, the zero time if it is not running.
func started(pod *corev1.Pod, container string) time.Time {
	if c, ok := statusOf(pod, container); ok && c.State.Running != nil {
		return c.State.Running.StartedAt.Time
	}
	return time.Time{}
}
