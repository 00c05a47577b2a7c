package peering

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

// Facts holds everything about one remote cluster that its ForeignCluster shows.
type Facts struct {
	// TenantNamespaces are the namespaces in this cluster that are labelled as the tenant namespace of the remote cluster.
	TenantNamespaces []corev1.Namespace
	// Tenant is the Tenant of the remote cluster; nil when the remote cluster consumes nothing from this cluster.
	Tenant *authv1beta1.Tenant
	// Identity is the control-plane Identity of this cluster in the remote cluster; nil when this cluster consumes nothing there.
	Identity *authv1beta1.Identity
	// Asked are this cluster's ResourceSlices for the remote cluster. Granted are the copies of the remote cluster's ResourceSlices for this cluster,
	// whether granted yet or not.
	Asked, Granted []authv1beta1.ResourceSlice
	// VirtualNodes are the VirtualNodes backed by the remote cluster.
	VirtualNodes []offloadingv1beta1.VirtualNode
	// Nodes are the Nodes of those VirtualNodes.
	Nodes []corev1.Node
	// Network holds the objects of the network between the two clusters.
	Network NetworkFacts
	// APIServer is the outcome of the probe of the remote API server; nil when there is no probe, or no outcome yet.
	APIServer *Probe
	// Wish holds the request of the ForeignCluster; nil while the ForeignCluster does not exist.
	Wish *Wish
}

// Probe is the outcome of probing a remote API server.
type Probe struct {
	// Up reports whether the API server responds.
	Up bool
	// Message is the error of the probe when Up is false.
	Message string
	// Unauthorized means that Up is false because the API server rejects this cluster's credentials (401 Unauthorized).
	Unauthorized bool
	// Refused is the reason why an API server that responds denies this cluster all access; empty when it grants access.
	Refused string
	// Exceeded contains, by kind, a message if the remote cluster has more copies of this cluster's objects than this cluster reads.
	Exceeded map[string]string
}

// Any reports whether this cluster has any relation to the remote one: a Tenant, an Identity, a VirtualNode or a network.
func (f *Facts) Any() bool {
	return f.Tenant != nil || f.Identity != nil || len(f.VirtualNodes) > 0 || f.Network.any()
}

// Again returns the delay until the status must be compiled again although no object has changed: until a gateway has not reported for too
// long, until the renewal of a certificate becomes overdue, or until a certificate expires. Again returns 0 if none of these lies ahead.
func (f *Facts) Again(now time.Time) time.Duration {
	again := f.Network.Silent(now)
	if f.Identity == nil {
		return again
	}
	credential, err := CredentialOf(&f.Identity.Spec.AuthParams)
	if err != nil {
		return again
	}
	for _, moment := range []time.Time{credential.LateAt(), credential.Until} {
		if left := moment.Sub(now) + time.Second; left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	return again
}

// CompileForeignCluster compiles the whole status from the facts. It uses the previous status for three things only: the transition times of
// conditions that did not change, the condition of the API server while the probe has no outcome, and the latency shown for the tunnel. The argument
// plan is the result of PlanWish for the same facts.
func CompileForeignCluster(f *Facts, plan *Plan, previous *corev1beta1.ForeignClusterStatus, generation int64, now metav1.Time) corev1beta1.ForeignClusterStatus {
	status := corev1beta1.ForeignClusterStatus{
		Role:               role(f),
		ObservedGeneration: generation,
		TenantNamespace:    corev1beta1.TenantNamespaces{Local: f.tenantNamespace()},
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
	case f.Identity != nil: // the last known condition stays until the probe has an outcome
		status.Conditions = slices.DeleteFunc(slices.Clone(previous.Conditions), func(c corev1beta1.Condition) bool { return c.Type != corev1beta1.APIServerStatus })
	}
	if plan.Condition != nil {
		status.Conditions = append(status.Conditions, *plan.Condition)
	}
	stamp(status.Conditions, previous.Conditions, now)
	stamp(status.Modules.Networking.Conditions, previous.Modules.Networking.Conditions, now)
	stamp(status.Modules.Authentication.Conditions, previous.Modules.Authentication.Conditions, now)
	stamp(status.Modules.Offloading.Conditions, previous.Modules.Offloading.Conditions, now)
	status.Peering = summary(f, &status)
	return status
}

// tenantNamespace returns the name of the tenant namespace of the remote cluster; empty when there is none. Of several, it is the one that holds
// the Identity, else the Tenant, else the oldest Configuration. Without any of these, it is the oldest namespace.
func (f *Facts) tenantNamespace() string {
	var holders []string
	if f.Identity != nil {
		holders = append(holders, f.Identity.Namespace)
	}
	if f.Tenant != nil {
		holders = append(holders, f.Tenant.Namespace)
	}
	if configuration := eldest(f.Network.Configurations); configuration != nil {
		holders = append(holders, configuration.Namespace)
	}
	for _, holder := range holders {
		if InNamespaces(f.TenantNamespaces, holder) {
			return holder
		}
	}
	if namespace := eldest(f.TenantNamespaces); namespace != nil {
		return namespace.Name
	}
	return ""
}

// role returns the role of the remote cluster: it consumes from this cluster, provides to it, or both.
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

// stamp sets each condition's last transition time: the previous one if the status is unchanged, else now. A change of the reason to or from AccessRevoked
// counts as a changed status, because virtual nodes read from the time how long access has been revoked.
func stamp(conditions, previous []corev1beta1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for j := range previous {
			if previous[j].Type == conditions[i].Type && previous[j].Status == conditions[i].Status &&
				(previous[j].Reason == reasons.AccessRevoked) == (conditions[i].Reason == reasons.AccessRevoked) {
				conditions[i].LastTransitionTime = previous[j].LastTransitionTime
			}
		}
	}
}

// eldest returns the oldest object (api.CompareAge); nil when there is none. Where several objects exist although one is expected, Liqo uses the
// oldest.
func eldest[T any, P interface {
	*T
	metav1.Object
}](all []T) P {
	var first P
	for i := range all {
		if object := P(&all[i]); first == nil || api.CompareAge(object, first) < 0 {
			first = object
		}
	}
	return first
}
