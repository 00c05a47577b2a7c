package sharing

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// Offer is what a provider grants to a ResourceSlice of the default class, apart from its share of resources.
type Offer struct {
	// Enabled means that this provider grants resources to the default class.
	Enabled bool
	// NodeLabels describe the provider. The consumer puts them on the virtual node.
	NodeLabels map[string]string
	// StorageClasses, IngressClasses and LoadBalancerClasses are the classes that reflected objects may use.
	StorageClasses      []authv1beta1.StorageType
	IngressClasses      []authv1beta1.IngressType
	LoadBalancerClasses []authv1beta1.LoadBalancerType
}

// CheckSlice returns nil if a replicated ResourceSlice may have the identity that it requests: exactly ResourceSliceSubject. Otherwise the
// error says why not. tenant is the Tenant of the namespace of the ResourceSlice, own the ID of this cluster.
func CheckSlice(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant, own string) error {
	spec := &slice.Spec
	if spec.ConsumerClusterID != tenant.Spec.ClusterID {
		return fmt.Errorf("spec.consumerClusterID is %q, but this namespace belongs to %q", spec.ConsumerClusterID, tenant.Spec.ClusterID)
	}
	if spec.ProviderClusterID != own {
		return fmt.Errorf("spec.providerClusterID is %q, but the provider is %q", spec.ProviderClusterID, own)
	}
	key := tenant.Spec.PublicKey
	if tenant.Spec.AuthzPolicy == authv1beta1.TolerateNoHandshake {
		key = nil
	} else if len(key) == 0 {
		return errors.New("the Tenant has no public key with which to compare that of the request")
	}
	return peering.InField("spec.csr", peering.CheckRequest(spec.CSR, peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID), key))
}

// TooMany is the error for a ResourceSlice beyond the number that its consumer may have; such a ResourceSlice gets no identity. Its text
// names the limit.
type TooMany string

func (t TooMany) Error() string { return string(t) }

// SetAuthentication records the verdict on the identity: accepted with params, or denied with the error as message.
//
// A ResourceSlice without an accepted identity is also denied its resources, whatever its class. So when the identity is accepted after a denial,
// SetAuthentication removes the verdict on the resources. Then DecideResources, or the controller of the class, decides again.
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
	} else if peering.ConditionOf(status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceDenied {
		withdraw(status, "")
	}
	status.AuthParams = params
	setCondition(status, condition, now)
}

// DecideResources records the verdict on the resources of a replicated ResourceSlice in its status.
//
// For an active Tenant, status.resources becomes the share, so that a resource no longer requested disappears from the status. If the
// Tenant or the ResourceSlice is cordoned, the resources granted before stay, as far as this cluster still has them, and a changed request
// is not granted. A cordoned ResourceSlice that was granted nothing before is denied. For a drained Tenant, and for a ResourceSlice that is
// refused, the verdict is always a denial, whatever the class. Apart from that, classes other than the default are left to their own
// controllers. When a refusal ends, such a ResourceSlice has no verdict until the controller of its class decides (see SetAuthentication).
func DecideResources(slice *authv1beta1.ResourceSlice, grants peering.Grants, offer Offer, share Share, now metav1.Time) {
	status := &slice.Status
	accepted := peering.ConditionOf(status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	switch {
	case !grants.Access:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant is drained", now)
	case share.Refused != "":
		deny(status, authv1beta1.ReasonResourcesDenied, share.Refused, now)
	case !standardClass(slice):
		withdraw(status, authv1beta1.ReasonDefaultClassDisabled) // a verdict from the time when the ResourceSlice was of the default class
	case !offer.Enabled:
		deny(status, authv1beta1.ReasonDefaultClassDisabled, "the provider does not answer the default class of ResourceSlices", now)
	case cordoned(slice, grants) && !accepted:
		deny(status, authv1beta1.ReasonResourcesDenied, "the tenant or this ResourceSlice is cordoned", now)
	case cordoned(slice, grants):
		message := "the granted resources stay; more are refused because of a cordon"
		for name, quantity := range slice.Spec.Resources {
			if before := status.Resources[name]; quantity.Cmp(before) > 0 {
				message = "the resources granted before stay; the changed request is not granted because of a cordon"
			}
		}
		status.Resources, status.InterruptedNodes = share.Resources, share.Interrupted
		accept(status, message, now)
	default:
		status.Resources, status.InterruptedNodes = share.Resources, share.Interrupted
		status.NodeLabels = grantedLabels(share, offer)
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

// grantedLabels returns the labels of a virtual node of this cluster: its platform, and the labels that its administrator chose.
func grantedLabels(share Share, offer Offer) map[string]string {
	labels := make(map[string]string, len(share.Platform)+len(offer.NodeLabels))
	maps.Copy(labels, share.Platform)
	maps.Copy(labels, offer.NodeLabels)
	if len(labels) == 0 {
		return nil
	}
	return labels
}

func deny(status *authv1beta1.ResourceSliceStatus, reason, message string, now metav1.Time) {
	status.Resources, status.InterruptedNodes = nil, nil
	setCondition(status, authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceDenied, Reason: reason, Message: message,
	}, now)
}

// WithAccessDenied returns a ResourceSlice of this cluster whose conditions show that its provider denies this cluster all access. It returns nil if they already
// do, or if the provider has not decided yet. Everything else in the status stays: what the provider granted is valid again when it grants access.
func WithAccessDenied(slice *authv1beta1.ResourceSlice, now metav1.Time) *authv1beta1.ResourceSlice {
	denied := slice.DeepCopy()
	for _, c := range slice.Status.Conditions {
		c.Status, c.Reason = authv1beta1.ResourceSliceDenied, reasons.AccessRevoked
		c.Message = fmt.Sprintf("cluster %s denies cluster %s all access: condition %s of ForeignCluster %[1]s says why, and what to do",
			slice.Spec.ProviderClusterID, slice.Spec.ConsumerClusterID, corev1beta1.AuthIdentityControlPlaneStatus)
		setCondition(&denied.Status, c, now)
	}
	if equality.Semantic.DeepEqual(slice.Status, denied.Status) {
		return nil
	}
	return denied
}

// withdraw removes the verdict on the resources if its reason is reason, or whatever its reason if reason is empty.
func withdraw(status *authv1beta1.ResourceSliceStatus, reason string) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceResources && (reason == "" || c.Reason == reason)
	})
}

func accept(status *authv1beta1.ResourceSliceStatus, message string, now metav1.Time) {
	setCondition(status, authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted,
		Reason: authv1beta1.ReasonResourcesAccepted, Message: message,
	}, now)
}

// setCondition replaces the condition of that type. The transition time stays as long as the verdict does.
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
