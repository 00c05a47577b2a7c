// Package sharing decides what a provider grants to its consumers: the share of its free resources for each ResourceSlice, the verdict on a
// ResourceSlice and its identity, and the Quota that follows from it.
package sharing

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/internal/peering"
)

// Policy is the configuration by which the administrator of a provider controls sharing.
type Policy struct {
	// Percentage is the part of the free resources that all consumers get together. More than 100 means overcommitment.
	Percentage int
	// Threshold is a part of a share in percent. A share that would change by no more than this keeps its size. Otherwise every change of a
	// pod in this cluster could cause a write to every consumer.
	Threshold int
	// Defaults are the requests assumed for ResourceSlices that do not name these resources.
	Defaults corev1.ResourceList
	// Ceiling is the capacity that this cluster has once its autoscaler has added all nodes. It replaces the capacity of those resources of
	// which the cluster has less now.
	Ceiling corev1.ResourceList
	// SliceLimit is the maximum number of ResourceSlices per consumer; 0 means no limit.
	SliceLimit int
}

// Facts holds everything that determines the shares.
type Facts struct {
	// Nodes and Pods are those of this cluster. Of a pod only its node, its labels, its phase and the input of PodUse matter.
	Nodes []corev1.Node
	Pods  []corev1.Pod
	// Slices are the copies of the ResourceSlices of all consumers; their status has what was granted before.
	Slices []authv1beta1.ResourceSlice
	// Tenants are the Tenants of this cluster.
	Tenants []authv1beta1.Tenant
	// Offers limit what individual consumers get.
	Offers []sharingv1alpha1.ResourceOffer
}

// Share is the part of this cluster's resources that one ResourceSlice is granted.
type Share struct {
	// Resources are the resources for a ResourceSlice of the default class.
	Resources corev1.ResourceList
	// Cut is a message that says which requests are not granted in full, and why; empty when all are.
	Cut string
	// Platform are the labels with the architecture and the operating system of this cluster's nodes.
	Platform map[string]string
	// Interrupted are the nodes of this cluster that are about to be shut down or do not work.
	Interrupted []authv1beta1.InterruptedNode
	// Refused is why the ResourceSlice gets nothing at all, whatever its class; empty when it is not refused.
	Refused string
}

// Shares divides the free resources of this cluster among the ResourceSlices that request them. Each resource is divided by itself, by
// these rules:
//
//   - Free is the allocatable amount of the nodes that accept pods, minus the requests of those pods on them that belong to no
//     ResourceSlice.
//   - A percentage of the free amount is shared evenly among the consumers. If one requests less than an even part, the others get more.
//     The share of a consumer is divided among its ResourceSlices in the same way.
//   - A share is never below the current usage of its pods, as far as that usage is within the request. Pods started within a share
//     therefore change no share.
//   - A ResourceSlice requests the resources that it names, and the defaults of the policy for resources that it does not name. Of other
//     resources it requests as much as there is: of all resources if neither it nor the policy names any, otherwise of those that every pod
//     needs (everyPod).
//   - No more than the free amount is shared, unless the percentage is above 100.
//
// The result depends on the facts and the policy only, and has one entry for each ResourceSlice. If an amount can't be divided evenly among
// ResourceSlices with equal rights, the older ones get more.
func Shares(policy Policy, facts Facts) map[types.NamespacedName]Share {
	shares := make(map[types.NamespacedName]Share, len(facts.Slices))
	claims := claimsOf(policy, facts, shares)
	d := division{policy: policy, claims: claims, stock: stockOf(policy, facts, claims), caps: capsOf(facts.Offers)}
	for _, name := range d.names() {
		d.divide(name)
	}
	nodes, interrupted := platformOf(facts.Nodes), interruptedOf(facts.Nodes)
	for _, c := range claims {
		shares[c.key] = Share{Resources: c.share, Cut: c.explain(policy), Platform: nodes.labels(c.labels), Interrupted: interrupted}
	}
	return shares
}

// claim holds the request of one ResourceSlice, the current usage of its pods, and its computed share.
type claim struct {
	key      types.NamespacedName
	consumer string
	// creator is the value of the label LabelCreatorUser on the ResourceSlice's pods.
	creator string
	// asked holds the requested amounts of the resources that the ResourceSlice or the policy names. For a cordoned ResourceSlice it holds the
	// granted amounts. For resources that asked does not contain, the claim requests:
	//   - nothing, if exact is set;
	//   - all that this cluster has, if all is set, devices included;
	//   - otherwise all that this cluster has of the resources that every pod needs (everyPod), and nothing of others.
	asked      corev1.ResourceList
	exact, all bool
	// granted is what the ResourceSlice was granted before, and labels are the labels of its virtual node.
	granted corev1.ResourceList
	labels  map[string]string

	used  map[corev1.ResourceName]int64
	share corev1.ResourceList
	cuts  []cut
}

// claimsOf returns a claim for each ResourceSlice that gets a share, the oldest first. It adds an entry to shares for every ResourceSlice. The entry
// is empty, or contains the refusal of a ResourceSlice beyond the limit.
func claimsOf(policy Policy, facts Facts, shares map[types.NamespacedName]Share) []*claim {
	tenants := map[string]*authv1beta1.Tenant{}
	for i := range facts.Tenants {
		tenant := &facts.Tenants[i]
		if first := tenants[tenant.Namespace]; tenant.DeletionTimestamp.IsZero() && (first == nil || api.CompareAge(tenant, first) < 0) {
			tenants[tenant.Namespace] = tenant
		}
	}
	ordered := make([]*authv1beta1.ResourceSlice, len(facts.Slices))
	for i := range facts.Slices {
		ordered[i] = &facts.Slices[i]
	}
	slices.SortFunc(ordered, func(a, b *authv1beta1.ResourceSlice) int { return api.CompareAge(a, b) })
	var claims []*claim
	count := map[string]int{}
	for _, slice := range ordered {
		key := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}
		shares[key] = Share{}
		tenant := tenants[slice.Namespace]
		if tenant == nil || !slice.DeletionTimestamp.IsZero() {
			continue
		}
		if count[slice.Namespace]++; policy.SliceLimit > 0 && count[slice.Namespace] > policy.SliceLimit {
			shares[key] = Share{Refused: refusedByLimit(policy.SliceLimit)}
			continue
		}
		if c := claimOf(policy, slice, tenant); c != nil {
			c.key = key
			claims = append(claims, c)
		}
	}
	return claims
}

// claimOf returns the claim of a ResourceSlice; nil when it is not entitled to a share, or its class belongs to another controller.
func claimOf(policy Policy, slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) *claim {
	grants := peering.GrantsOf(tenant)
	if !grants.Access || !standardClass(slice) || deniedForItself(&slice.Status) {
		return nil
	}
	c := &claim{
		consumer: tenant.Spec.ClusterID, granted: slice.Status.Resources, labels: slice.Status.NodeLabels,
		creator: offloadingv1beta1.CreatorLabel(peering.ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID).User),
	}
	if cordoned(slice, grants) {
		if peering.ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources) != authv1beta1.ResourceSliceAccepted {
			return nil
		}
		c.asked, c.exact = slice.Status.Resources, true
		return c
	}
	c.asked = requested(slice.Spec.Resources, policy.Defaults)
	c.all = len(c.asked) == 0
	return c
}

// deniedForItself reports whether the identity of the ResourceSlice was denied because of its own content. A denial because the consumer has too many
// ResourceSlices does not count: that denial ends when other ResourceSlices are deleted.
func deniedForItself(status *authv1beta1.ResourceSliceStatus) bool {
	return peering.ConditionOf(status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceDenied && !deniedAsOneTooMany(status)
}

func deniedAsOneTooMany(status *authv1beta1.ResourceSliceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceAuthentication && c.Reason == authv1beta1.ReasonTooMany
	})
}

// standardClass reports whether the controller manager itself decides on the resources of a ResourceSlice.
func standardClass(slice *authv1beta1.ResourceSlice) bool {
	return slice.Spec.Class == "" || slice.Spec.Class == authv1beta1.ResourceSliceClassDefault
}

// Cordoned reports whether a ResourceSlice of a Tenant gets no further resources and only keeps those that it was granted.
func Cordoned(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) bool {
	return cordoned(slice, peering.GrantsOf(tenant))
}

func cordoned(slice *authv1beta1.ResourceSlice, grants peering.Grants) bool {
	return !grants.More || slice.Annotations[authv1beta1.AnnotationCordon] == api.True || slice.Annotations[authv1beta1.AnnotationCordonTenant] == api.True
}

// requested returns the policy's defaults, overridden by the request of a ResourceSlice. Negative quantities become 0.
func requested(request, defaults corev1.ResourceList) corev1.ResourceList {
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

// capsOf returns the maximum that each consumer gets, by cluster ID: of several offers the lowest limit for each resource.
func capsOf(offers []sharingv1alpha1.ResourceOffer) map[string]corev1.ResourceList {
	caps := map[string]corev1.ResourceList{}
	for i := range offers {
		offer := &offers[i]
		if !offer.DeletionTimestamp.IsZero() {
			continue
		}
		limits := caps[offer.Spec.ClusterID]
		if limits == nil {
			limits = corev1.ResourceList{}
			caps[offer.Spec.ClusterID] = limits
		}
		for name, quantity := range offer.Spec.Resources.Limits {
			if least, there := limits[name]; !there || quantity.Cmp(least) < 0 {
				limits[name] = quantity
			}
		}
	}
	return caps
}

// Moved reports whether the status of a ResourceSlice differs from its share.
func Moved(slice *authv1beta1.ResourceSlice, share Share) bool {
	if !slice.DeletionTimestamp.IsZero() {
		return false
	}
	return (share.Refused != "") != deniedAsOneTooMany(&slice.Status) || standardClass(slice) &&
		(!equality.Semantic.DeepEqual(slice.Status.Resources, share.Resources) || !equality.Semantic.DeepEqual(slice.Status.InterruptedNodes, share.Interrupted))
}
