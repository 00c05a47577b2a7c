package node

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// summary is the response of a kubelet's /stats/summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1), with the fields that a virtual node can provide.
type summary struct {
	Node nodeSummary  `json:"node"`
	Pods []podSummary `json:"pods"`
}

// nodeSummary has no CPU and no Memory if the provider failed to report the usage of some pods: the sum over all pods is then unknown.
type nodeSummary struct {
	NodeName string         `json:"nodeName"`
	CPU      *cpuSummary    `json:"cpu,omitempty"`
	Memory   *memorySummary `json:"memory,omitempty"`
}

// podSummary has no CPU and no Memory if the usage of one of its containers is unknown. A kubelet leaves out what it has not measured, too.
type podSummary struct {
	PodRef     podReference       `json:"podRef"`
	StartTime  *metav1.Time       `json:"startTime,omitempty"`
	Containers []containerSummary `json:"containers"`
	CPU        *cpuSummary        `json:"cpu,omitempty"`
	Memory     *memorySummary     `json:"memory,omitempty"`
}

type podReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

type containerSummary struct {
	Name      string        `json:"name"`
	StartTime *metav1.Time  `json:"startTime,omitempty"`
	CPU       cpuSummary    `json:"cpu"`
	Memory    memorySummary `json:"memory"`
}

type cpuSummary struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       uint64      `json:"usageNanoCores"`
	UsageCoreNanoSeconds uint64      `json:"usageCoreNanoSeconds"`
}

type memorySummary struct {
	Time            metav1.Time `json:"time"`
	WorkingSetBytes uint64      `json:"workingSetBytes"`
}

func (r *reading) cpu() cpuSummary {
	return cpuSummary{Time: metav1.NewTime(r.at), UsageNanoCores: nano(r.cores), UsageCoreNanoSeconds: nano(r.seconds)}
}

func (r *reading) memory() memorySummary {
	return memorySummary{Time: metav1.NewTime(r.at), WorkingSetBytes: uint64(r.bytes)}
}

func nano(x float64) uint64 { return uint64(math.Round(x * 1e9)) }

// summary serves a kubelet's /stats/summary.
func (s *stats) summary(w http.ResponseWriter, r *http.Request) {
	var out summary
	s.read(r.Context(), func(u *usage, pods map[types.NamespacedName]*corev1.Pod, failed bool) {
		out = summarize(s.node, u, pods)
		if !failed {
			cpu, memory := u.node.cpu(), u.node.memory()
			out.Node.CPU, out.Node.Memory = &cpu, &memory
		}
	})
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil {
		s.log.Debug("Failed to respond with statistics", "error", err)
	}
}

// summarize sums up the usage of the containers of each pod whose containers are all measured. It does not set the usage of the node.
func summarize(node string, u *usage, pods map[types.NamespacedName]*corev1.Pod) summary {
	out := summary{Node: nodeSummary{NodeName: node}, Pods: []podSummary{}}
	containers := map[types.NamespacedName][]containerSummary{}
	for key, r := range u.containers {
		containers[key.pod] = append(containers[key.pod], containerSummary{
			Name: key.container, StartTime: when(started(pods[key.pod], key.container)), CPU: r.cpu(), Memory: r.memory(),
		})
	}
	for key, total := range u.perPod() {
		p := podSummary{PodRef: podReference{Name: key.Name, Namespace: key.Namespace}, Containers: containers[key]}
		if !u.partial[key] {
			p.CPU, p.Memory = new(total.cpu()), new(total.memory())
		}
		if pod := pods[key]; pod != nil {
			p.PodRef.UID, p.StartTime = string(pod.UID), pod.Status.StartTime
		}
		slices.SortFunc(p.Containers, func(a, b containerSummary) int { return cmp.Compare(a.Name, b.Name) })
		out.Pods = append(out.Pods, p)
	}
	slices.SortFunc(out.Pods, func(a, b podSummary) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	return out
}

// when converts t to a metav1.Time, nil for the zero time.
func when(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
