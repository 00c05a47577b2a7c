package peering

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Offer is what a provider gives to a ResourceSlice of the default class.
type Offer struct {
	// Enabled tells whether the default class is answered at all.
	Enabled bool
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
		return fmt.Errorf("spec.providerClusterID is %q, but the cluster that it came to is %q", spec.ProviderClusterID, own)
	}
	key := tenant.Spec.PublicKey
	if tenant.Spec.AuthzPolicy == authv1beta1.TolerateNoHandshake {
		key = nil
	} else if len(key) == 0 {
		return errors.New("the Tenant has no public key to compare the request's with")
	}
	return inField("spec.csr", CheckRequest(spec.CSR, ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID), key))
}

// TooMany denies an identity to a ResourceSlice that is one more than its consumer gets; the text tells which bound that is.
type TooMany string

func (t TooMany) Error() string { return string(t) }

// SetAuthentication records the verdict on the identity: accepted with params, or denied for a reason.
func SetAuthentication(status *authv1beta1.ResourceSliceStatus, params *authv1beta1.AuthParams, denied error, now metav1.Time) {
	condition := authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted,
		Reason: authv1beta1.ReasonAuthenticationAccepted, Message: "the identity is signed",
	}
	if denied != nil {
		params = nil
		condition.Status, condition.Reason, condition.Message = authv1beta1.ResourceSliceDenied, authv1beta1.ReasonAuthenticationDenied, denied.Error()
		if errors.As(denied, new(TooMany)) {
			condition.Reason = authv1beta1.ReasonTooMany
		}
	}
	status.AuthParams = params
	setCondition(status, condition, now)
}

// DecideResources records the verdict on the resources of a replicated ResourceSlice in its status.
//
// An active Tenant gets its share: status.resources is the share and nothing else, so what left the request leaves the status. A cordon keeps what
// was granted before, as far as it is still there, and grants no change; with nothing granted before it denies. A drained Tenant is always denied.
// Classes other than the default are left to whoever answers them, except that nobody overrules a drain.
func DecideResources(slice *authv1beta1.ResourceSlice, grants Grants, offer Offer, share Share, now metav1.Time) {
	status := &slice.Status
	accepted := ConditionOf(status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	switch {
	case !grants.Access:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant is drained", now)
	case !standardClass(slice):
		return
	case !offer.Enabled:
		deny(status, authv1beta1.ReasonDefaultClassDisabled, "the provider does not answer the default class of ResourceSlices", now)
	case share.Refused != "":
		deny(status, authv1beta1.ReasonResourcesDenied, share.Refused, now)
	case cordoned(slice, grants) && !accepted:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant or this ResourceSlice is cordoned", now)
	case cordoned(slice, grants):
		message := "the resources stay granted; a cordon refuses further ones"
		for name, quantity := range slice.Spec.Resources {
			if before := status.Resources[name]; quantity.Cmp(before) > 0 {
				message = "the resources granted before stay; the changed request is not granted because of a cordon"
			}
		}
		status.Resources = share.Resources
		accept(status, message, now)
	default:
		status.Resources = share.Resources
		status.NodeLabels = maps.Clone(offer.NodeLabels)
		status.StorageClasses = slices.Clone(offer.StorageClasses)
		status.IngressClasses = slices.Clone(offer.IngressClasses)
		status.LoadBalancerClasses = slices.Clone(offer.LoadBalancerClasses)
		message := "the resources are granted"
		if share.Cut != "" {
			message = "granted in part: " + share.Cut
		}
		accept(status, message, now)
	}
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
