package peering

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Offer is what a provider gives to a ResourceSlice of the default class.
type Offer struct {
	// Enabled tells whether the default class is answered at all.
	Enabled bool
	// Defaults are granted for resources that the request does not name.
	Defaults corev1.ResourceList
	// NodeLabels describe the provider; they end up on the virtual node.
	NodeLabels map[string]string
	// Classes of storage, ingress and load balancers that reflected objects may use.
	StorageClasses      []authv1beta1.StorageType
	IngressClasses      []authv1beta1.IngressType
	LoadBalancerClasses []authv1beta1.LoadBalancerType
}

// CheckSlice tells why the identity that a replicated ResourceSlice asks for must be refused; nil means that it may have exactly
// ResourceSliceSubject. tenant is the one of the slice's namespace, own this cluster's ID.
func CheckSlice(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant, own string) error {
	spec := &slice.Spec
	if spec.ConsumerClusterID != tenant.Spec.ClusterID {
		return fmt.Errorf("spec.consumerClusterID is %q, but this namespace belongs to %q", spec.ConsumerClusterID, tenant.Spec.ClusterID)
	}
	if spec.ProviderClusterID != own {
		return fmt.Errorf("spec.providerClusterID is %q, but this cluster is %q", spec.ProviderClusterID, own)
	}
	key := tenant.Spec.PublicKey
	if tenant.Spec.AuthzPolicy == authv1beta1.TolerateNoHandshake {
		key = nil
	} else if len(key) == 0 {
		return errors.New("the Tenant has no public key to compare the request's with")
	}
	return inField("spec.csr", CheckRequest(spec.CSR, ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID), key))
}

// SetAuthentication records the verdict on the identity: accepted with params, or denied for a reason.
func SetAuthentication(status *authv1beta1.ResourceSliceStatus, params *authv1beta1.AuthParams, denied error, now metav1.Time) {
	condition := authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted,
		Reason: authv1beta1.ReasonAuthenticationAccepted, Message: "the identity is signed",
	}
	if denied != nil {
		params = nil
		condition.Status, condition.Reason, condition.Message = authv1beta1.ResourceSliceDenied, authv1beta1.ReasonAuthenticationDenied, denied.Error()
	}
	status.AuthParams = params
	setCondition(status, condition, now)
}

// DecideResources records the verdict on the resources of a replicated ResourceSlice in its status.
//
// An active Tenant gets the defaults overridden by its request: status.resources is built anew from these two, so what left the request
// leaves the status. A cordon keeps what was granted before and grants no change; with nothing granted before it denies. A drained Tenant is
// always denied. Classes other than the default are left to whoever answers them, except that nobody overrules a drain.
func DecideResources(slice *authv1beta1.ResourceSlice, grants Grants, offer Offer, now metav1.Time) {
	status := &slice.Status
	standard := slice.Spec.Class == "" || slice.Spec.Class == authv1beta1.ResourceSliceClassDefault
	accepted := ConditionOf(status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	cordoned := !grants.More || slice.Annotations[authv1beta1.AnnotationCordon] == api.True || slice.Annotations[authv1beta1.AnnotationCordonTenant] == api.True
	switch {
	case !grants.Access:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant is drained", now)
	case !standard:
		return
	case !offer.Enabled:
		deny(status, authv1beta1.ReasonDefaultClassDisabled, "this cluster does not answer the default class of ResourceSlices", now)
	case cordoned && !accepted:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant or this ResourceSlice is cordoned", now)
	case cordoned:
		message := "the resources stay granted; a cordon refuses further ones"
		if !equality.Semantic.DeepEqual(status.Resources, granted(slice.Spec.Resources, offer.Defaults)) {
			message = "the resources granted before stay; the changed request is not granted because of a cordon"
		}
		accept(status, message, now)
	default:
		status.Resources = granted(slice.Spec.Resources, offer.Defaults)
		status.NodeLabels = maps.Clone(offer.NodeLabels)
		status.StorageClasses = slices.Clone(offer.StorageClasses)
		status.IngressClasses = slices.Clone(offer.IngressClasses)
		status.LoadBalancerClasses = slices.Clone(offer.LoadBalancerClasses)
		accept(status, "the resources are granted", now)
	}
}

// granted is the request over the defaults. Negative quantities are granted as nothing.
func granted(request, defaults corev1.ResourceList) corev1.ResourceList {
	all := make(corev1.ResourceList, len(request)+len(defaults))
	for _, list := range []corev1.ResourceList{defaults, request} {
		for name, quantity := range list {
			quantity = quantity.DeepCopy()
			if quantity.Sign() < 0 {
				quantity.Set(0)
			}
			all[name] = quantity
		}
	}
	return all
}

func deny(status *authv1beta1.ResourceSliceStatus, reason, message string, now metav1.Time) {
	status.Resources = nil
	setCondition(status, authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceDenied, Reason: reason, Message: message,
	}, now)
}

func accept(status *authv1beta1.ResourceSliceStatus, message string, now metav1.Time) {
	setCondition(status, authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted,
		Reason: authv1beta1.ReasonResourcesAccepted, Message: message,
	}, now)
}

// ConditionOf is the verdict of one type in the status, empty when there is none.
func ConditionOf(status *authv1beta1.ResourceSliceStatus, kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return status.Conditions[i].Status
		}
	}
	return ""
}

// setCondition replaces the condition of that type; the time of transition stays while the verdict does.
func setCondition(status *authv1beta1.ResourceSliceStatus, condition authv1beta1.ResourceSliceCondition, now metav1.Time) {
	condition.LastTransitionTime = now
	for i := range status.Conditions {
		if present := &status.Conditions[i]; present.Type == condition.Type {
			if present.Status == condition.Status {
				condition.LastTransitionTime = present.LastTransitionTime
			}
			*present = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
