package peering

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Facts are all that a ForeignCluster shows about one remote cluster.
type Facts struct {
	// TenantNamespace is the namespace here that is labelled for the cluster, empty when there is none.
	TenantNamespace string
	// Tenant of the cluster, nil when it consumes nothing here.
	Tenant *authv1beta1.Tenant
	// Identity of our control plane there, nil when we consume nothing there.
	Identity *authv1beta1.Identity
	// Asked are the ResourceSlices that we ask the cluster for, Granted the copies of those that it asks us for.
	Asked, Granted []authv1beta1.ResourceSlice
	// VirtualNodes that show the cluster.
	VirtualNodes []offloadingv1beta1.VirtualNode
	// Nodes of those VirtualNodes.
	Nodes []corev1.Node
	// Network are the objects of the network with the cluster.
	Network NetworkFacts
	// APIServer is what the probe of the remote API server says, nil when there is none, or when it says nothing yet.
	APIServer *Probe
}

// Probe is the outcome of looking at a remote API server.
type Probe struct {
	// Up tells whether it answers.
	Up bool
	// Message tells why not.
	Message string
	// Refused tells why a server that answers grants us nothing; empty when it does.
	Refused string
}

// Any tells whether the cluster is anything to us.
func (f *Facts) Any() bool {
	return f.Tenant != nil || f.Identity != nil || len(f.VirtualNodes) > 0 || f.Network.any()
}

// Again is after what time the facts may mean something else though nothing was heard: a gateway was silent for too long, a certificate was not
// renewed, or ended.
// 0 when they can't.
func (f *Facts) Again(now time.Time) time.Duration {
	again := f.Network.Silent(now)
	if f.Identity == nil {
		return again
	}
	certificate, err := Certificate(f.Identity.Spec.AuthParams.SignedCRT)
	if err != nil {
		return again
	}
	for _, moment := range []time.Time{lateAt(certificate), certificate.NotAfter} {
		if left := moment.Sub(now) + time.Second; left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	return again
}

// CompileForeignCluster builds the whole status from the facts. The previous status only gives the times of conditions that did not change, and what
// was known of the API server while the probe says nothing.
func CompileForeignCluster(f *Facts, previous *corev1beta1.ForeignClusterStatus, generation int64, now metav1.Time) corev1beta1.ForeignClusterStatus {
	status := corev1beta1.ForeignClusterStatus{
		Role:               role(f),
		ObservedGeneration: generation,
		TenantNamespace:    corev1beta1.TenantNamespaces{Local: f.TenantNamespace},
	}
	status.Modules.Authentication = authenticated(f, now)
	if f.Identity != nil {
		status.TenantNamespace.Remote = f.Identity.Spec.Namespace
		status.APIServerURL = f.Identity.Spec.AuthParams.APIServer
		if proxy := f.Identity.Spec.AuthParams.ProxyURL; proxy != nil {
			status.ForeignProxyURL = *proxy
		}
	}
	status.Modules.Offloading = offloaded(f)
	status.Modules.Networking = networking(&f.Network, &previous.Modules.Networking, now)
	switch {
	case f.APIServer != nil:
		status.Conditions = append(status.Conditions, answers(&status, f.APIServer))
	case f.Identity != nil: // what is known stands until there is news
		status.Conditions = slices.DeleteFunc(slices.Clone(previous.Conditions), func(c corev1beta1.Condition) bool { return c.Type != corev1beta1.APIServerStatus })
	}
	stamp(status.Conditions, previous.Conditions, now)
	stamp(status.Modules.Networking.Conditions, previous.Modules.Networking.Conditions, now)
	stamp(status.Modules.Authentication.Conditions, previous.Modules.Authentication.Conditions, now)
	stamp(status.Modules.Offloading.Conditions, previous.Modules.Offloading.Conditions, now)
	status.Peering = summary(f, &status)
	return status
}

// role of the other cluster: it consumes from us, provides to us, or both.
func role(f *Facts) corev1beta1.Role {
	provides := f.Identity != nil || len(f.VirtualNodes) > 0
	switch {
	case f.Tenant != nil && provides:
		return corev1beta1.RoleConsumerAndProvider
	case f.Tenant != nil:
		return corev1beta1.RoleConsumer
	case provides:
		return corev1beta1.RoleProvider
	default:
		return corev1beta1.RoleUnknown
	}
}

// stamp gives each condition the time since when it has its status.
func stamp(conditions, previous []corev1beta1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for j := range previous {
			if previous[j].Type == conditions[i].Type && previous[j].Status == conditions[i].Status {
				conditions[i].LastTransitionTime = previous[j].LastTransitionTime
			}
		}
	}
}
