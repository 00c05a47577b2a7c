package node

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sample is a container's usage as reported by the provider's metrics API: the average over a time window. The field at is the end of the window.
type sample struct {
	pod       types.NamespacedName // namespace and name in this cluster
	container string
	// unmeasured means that the usage is unknown and the values below are invalid.
	unmeasured bool
	at         time.Time
	window     time.Duration
	// cores is the CPU usage, bytes the memory of the working set.
	cores, bytes float64
}

// reading is the usage as a kubelet reports it. seconds is the CPU time consumed since an arbitrary start, so only differences matter; cores is the
// current CPU usage; bytes is the current memory usage.
type reading struct {
	at      time.Time
	seconds float64
	cores   float64
	bytes   float64
}

// Minimum values that are reported instead of a known zero: clients that scrape a kubelet interpret zero as a missing value. An unknown value has no
// sample and is not reported at all.
const (
	leastSeconds = 1e-3
	leastBytes   = 1
)

// add records a newer sample and returns the CPU seconds since the previous one. The same sample or an older one changes nothing.
func (r *reading) add(s *sample) float64 {
	past := s.window
	if !r.at.IsZero() {
		past = s.at.Sub(r.at)
	} else {
		r.seconds = leastSeconds
	}
	if past <= 0 && !r.at.IsZero() {
		return 0
	}
	used := s.cores * max(past, 0).Seconds()
	r.at, r.cores, r.bytes = s.at, s.cores, max(s.bytes, leastBytes)
	r.seconds += used
	return used
}

// containerKey identifies a container.
type containerKey struct {
	pod       types.NamespacedName
	container string
}

// usage is the known usage of a node and its containers. The provider reports rates and a kubelet reports totals, so usage adds the rates up.
type usage struct {
	node       reading
	containers map[containerKey]*reading
	// keys are the sorted keys of containers.
	keys []containerKey
	// listed are the containers of the last samples.
	listed map[containerKey]bool
	// partial are the pods with an unmeasured container: the sum over the other containers is not the usage of such a pod.
	partial map[types.NamespacedName]bool
}

// take replaces the usage by the samples of one moment. It drops containers without a sample and unmeasured ones; their CPU time remains in the total
// of the node. Of several samples of a container it takes the first one, since a provider may list a container several times.
func (u *usage) take(samples []sample, now time.Time) {
	if u.containers == nil {
		u.containers, u.listed, u.partial = map[containerKey]*reading{}, map[containerKey]bool{}, map[types.NamespacedName]bool{}
	}
	clear(u.listed)
	clear(u.partial)
	if u.node.seconds == 0 {
		u.node.seconds = leastSeconds
	}
	latest, changed := u.node.at, false
	u.node.cores, u.node.bytes = 0, 0
	for i := range samples {
		s := &samples[i]
		if s.unmeasured {
			u.partial[s.pod] = true
			continue
		}
		key := containerKey{s.pod, s.container}
		if u.listed[key] {
			continue
		}
		u.listed[key] = true
		r := u.containers[key]
		if r == nil {
			r = &reading{}
			u.containers[key] = r
			changed = true
		}
		u.node.seconds += r.add(s)
		u.node.cores += s.cores
		u.node.bytes += s.bytes
		if s.at.After(latest) {
			latest = s.at
		}
	}
	for key := range u.containers {
		if !u.listed[key] {
			delete(u.containers, key)
			changed = true
		}
	}
	if changed {
		u.keys = slices.AppendSeq(u.keys[:0], maps.Keys(u.containers))
		slices.SortFunc(u.keys, func(a, b containerKey) int {
			return cmp.Or(comparePods(a.pod, b.pod), cmp.Compare(a.container, b.container))
		})
	}
	if len(samples) == 0 {
		latest = now
	}
	u.node.at, u.node.bytes = latest, max(u.node.bytes, leastBytes)
}

// perPod returns the sum over the measured containers of each pod. For a partial pod, it is less than the usage of the pod.
func (u *usage) perPod() map[types.NamespacedName]*reading {
	totals := map[types.NamespacedName]*reading{}
	for key, r := range u.containers {
		total := totals[key.pod]
		if total == nil {
			total = &reading{}
			totals[key.pod] = total
		}
		total.include(r)
	}
	return totals
}

// include adds another reading to the sum.
func (r *reading) include(other *reading) {
	r.seconds, r.cores, r.bytes = r.seconds+other.seconds, r.cores+other.cores, r.bytes+other.bytes
	if other.at.After(r.at) {
		r.at = other.at
	}
}
