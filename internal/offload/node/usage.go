package node

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sample is what a container used, as the provider's metrics API tells it: on average over a window that ends at a time.
type sample struct {
	pod       types.NamespacedName // here
	container string
	at        time.Time
	window    time.Duration
	// cores and bytes of the working set.
	cores, bytes float64
}

// reading is what a kubelet tells of something: the CPU it has used since some time, of which only differences count, and the memory it uses.
type reading struct {
	at      time.Time
	seconds float64
	cores   float64
	bytes   float64
}

// Nothing is told as a little: who scrapes a kubelet takes a zero for a number that is missing.
const (
	leastSeconds = 1e-3
	leastBytes   = 1
)

// add takes a later sample into account; the same one again, or an earlier one, changes nothing. It returns the CPU seconds since the one before.
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

// containerKey is one container.
type containerKey struct {
	pod       types.NamespacedName
	container string
}

// usage is what is known of a node and the containers on it. The provider tells rates, and a kubelet totals: they are added up here.
type usage struct {
	node       reading
	containers map[containerKey]*reading
}

// take replaces what is known by the samples of one moment. A container that is not among them is forgotten; what it used stays with the node.
func (u *usage) take(samples []sample, now time.Time) {
	old := u.containers
	u.containers = make(map[containerKey]*reading, len(samples))
	if u.node.seconds == 0 {
		u.node.seconds = leastSeconds
	}
	latest := u.node.at
	u.node.cores, u.node.bytes = 0, 0
	for i := range samples {
		s := &samples[i]
		key := containerKey{s.pod, s.container}
		r := old[key]
		if r == nil {
			r = &reading{}
		}
		u.node.seconds += r.add(s)
		u.node.cores += s.cores
		u.node.bytes += s.bytes
		if s.at.After(latest) {
			latest = s.at
		}
		u.containers[key] = r
	}
	if len(samples) == 0 {
		latest = now
	}
	u.node.at, u.node.bytes = latest, max(u.node.bytes, leastBytes)
}
