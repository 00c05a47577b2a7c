package sharing

import (
	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
)

// QuotaOf returns the spec of the Quota that limits the user of a replicated ResourceSlice; nil as long as nothing is granted. The Quota
// has the name of that user.
func QuotaOf(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant, enforcement offloadingv1beta1.LimitsEnforcement) *offloadingv1beta1.QuotaSpec {
	grants := peering.GrantsOf(tenant)
	if !grants.Access ||
		peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceAuthentication) != authv1beta1.ResourceSliceAccepted ||
		peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources) != authv1beta1.ResourceSliceAccepted {
		return nil
	}
	cordoned := cordoned(slice, grants)
	resources := slice.Status.Resources.DeepCopy()
	if resources == nil {
		resources = corev1.ResourceList{} // a grant of no resources needs a Quota too
	}
	return &offloadingv1beta1.QuotaSpec{
		User:              peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID).User,
		LimitsEnforcement: enforcement,
		Resources:         resources,
		Cordoned:          &cordoned,
	}
}
