// Package dashboard computes what the page of `liqoctl dashboard` shows. Documents turns the whole state of the clusters into documents, and
// Diff says which of them have changed. The package reads no cluster and serves no page: packages watch and server do.
package dashboard

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/doctor"
)

// Cluster is the state of one cluster whose kubeconfig was given.
type Cluster struct {
	ID, Version string
	// Server is the URL of the API server. Namespace is the namespace of the installation.
	Server, Namespace string
	// Failure is why the state is not up to date. It is empty while the API server responds.
	Failure string
	// Complete means that every kind was listed once.
	Complete bool

	Peers        []corev1beta1.ForeignCluster
	Connections  []networkingv1beta1.Connection
	VirtualNodes []offloadingv1beta1.VirtualNode
	Offloadings  []offloadingv1beta1.NamespaceOffloading
	Maps         []offloadingv1beta1.NamespaceMap
	Nodes        []corev1.Node
	Pods         []corev1.Pod
	Events       []corev1.Event
	Claims       []corev1.PersistentVolumeClaim
	// Volumes has the volumes of Liqo only.
	Volumes []corev1.PersistentVolume
	Classes []storagev1.StorageClass
	// Usage has what the pods on each virtual node use, by the name of the node. It has no entry for a node that is not measured.
	Usage map[string]corev1.ResourceList
}

// State holds all inputs of the page.
type State struct {
	// Now is the time for which the page is computed: older figures are not the current ones.
	Now time.Time
	// Clusters has the local cluster first.
	Clusters []Cluster
	// Findings are those of the last diagnosis. Diagnosed is false before the first one.
	Findings  []doctor.Finding
	Diagnosed bool
	// History has the measurements of each tunnel since the program started.
	History map[Tunnel]History
}

// Tunnel identifies the end of a tunnel in one cluster.
type Tunnel struct {
	// Cluster is the cluster that reports about the tunnel, Peer the cluster at its other end.
	Cluster, Peer string
}

// cluster returns the state of the cluster with the given ID, or nil if its kubeconfig was not given.
func (s *State) cluster(id string) *Cluster {
	for i := range s.Clusters {
		if s.Clusters[i].ID == id {
			return &s.Clusters[i]
		}
	}
	return nil
}

// byAge returns objects in the order of api.CompareAge, in which the first one counts if several contradict each other.
func byAge[T any, P interface {
	*T
	metav1.Object
}](objects []T) []P {
	out := make([]P, 0, len(objects))
	for i := range objects {
		out = append(out, &objects[i])
	}
	slices.SortFunc(out, func(a, b P) int { return api.CompareAge(a, b) })
	return out
}

// Health is the health of a cluster, a peering, a node or another object. The page has a color and a symbol for each value.
type Health string

// The values of Health, the best first. None means that the object has no health.
const (
	None    Health = "none"
	Good    Health = "ok"
	Warning Health = "warn"
	Bad     Health = "fail"
)

// worse returns the worse of two healths.
func worse(a, b Health) Health {
	rank := map[Health]int{None: 0, Good: 1, Warning: 2, Bad: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// healthOfPhase returns the health of a phase of a peering.
func healthOfPhase(phase corev1beta1.Phase) Health {
	switch phase {
	case corev1beta1.PhaseEstablished:
		return Good
	case corev1beta1.PhasePending, corev1beta1.PhaseDisconnecting:
		return Warning
	case corev1beta1.PhaseError:
		return Bad
	default:
		return None
	}
}

// healthOfLevel returns the health that a finding of a level means.
func healthOfLevel(level doctor.Level) Health {
	switch level {
	case doctor.Fail:
		return Bad
	case doctor.Warn:
		return Warning
	default:
		return Good
	}
}
