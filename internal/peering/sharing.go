package peering

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
)

// SharingPolicy is what the administrator of a provider says about sharing.
type SharingPolicy struct {
	// Percentage of what is free that all consumers get together. More than 100 promises more than there is.
	Percentage int
	// Threshold, in percent: a share that moves by no more than that keeps its size, so that not every pod of this cluster is written to every consumer.
	Threshold int
	// Defaults are asked for by ResourceSlices that do not name these resources.
	Defaults corev1.ResourceList
	// Ceiling is what an autoscaler makes of this cluster, for the resources of which it has less now.
	Ceiling corev1.ResourceList
	// SliceLimit is how many ResourceSlices each consumer gets; any number when 0.
	SliceLimit int
}

// SharingFacts is everything that shares follow from.
type SharingFacts struct {
	// Nodes and Pods of this cluster. Of Pods what PodUse needs, and where they run.
	Nodes []corev1.Node
	Pods  []corev1.Pod
	// Slices are the copies of the ResourceSlices of all consumers, with what they were granted before.
	Slices []authv1beta1.ResourceSlice
	// Tenants of this cluster.
	Tenants []authv1beta1.Tenant
	// Offers bound what single consumers get.
	Offers []sharingv1alpha1.ResourceOffer
}

// Share is what one ResourceSlice gets.
type Share struct {
	// Resources of a ResourceSlice of the default class.
	Resources corev1.ResourceList
	// Cut says which requests are not granted whole, and why; empty when all are.
	Cut string
	// Refused says why the ResourceSlice gets nothing at all, of whatever class; empty when it does.
	Refused string
}

// Shares divides what this cluster has free among the ResourceSlices that ask for it. The rules, for each resource by itself:
//
//   - Free is what Nodes that take pods can allocate, without what pods there request that belong to no ResourceSlice.
//   - Of that, a percentage is shared among consumers: evenly, where one asks for less the others get more. So it is among the ResourceSlices of a
//     consumer. Nobody's share is less than what it runs and is entitled to. So pods within a share change nobody's share.
//   - A ResourceSlice asks for what it names, by default for what the policy names, else for as much as there is: of everything when nothing is named at
//     all, otherwise of what every pod needs.
//   - Never more than free is shared, unless the percentage says so.
//
// The result depends on nothing but the facts and the policy, and has one entry for each ResourceSlice. Of several with equal rights the older one comes
// first, where something can't be divided.
func Shares(policy SharingPolicy, facts SharingFacts) map[types.NamespacedName]Share {
	shares := make(map[types.NamespacedName]Share, len(facts.Slices))
	claims := claimsOf(policy, facts, shares)
	d := division{policy: policy, claims: claims, stock: stockOf(policy, facts, claims), caps: capsOf(facts.Offers)}
	for _, name := range d.names() {
		d.divide(name)
	}
	for _, c := range claims {
		shares[c.key] = Share{Resources: c.share, Cut: c.explain(policy)}
	}
	return shares
}

// claim is what one ResourceSlice asks for, has and gets.
type claim struct {
	key      types.NamespacedName
	consumer string
	// creator is the label of its pods.
	creator string
	// asked is named by the ResourceSlice or the policy; everything that every pod needs is asked for besides, unless exact, and devices, if all.
	asked      corev1.ResourceList
	exact, all bool
	// granted before.
	granted corev1.ResourceList

	used  map[corev1.ResourceName]int64
	share corev1.ResourceList
	cuts  []cut
}

// claimsOf returns who asks for a share, the oldest first, and notes in shares those that are refused, or ask for none.
func claimsOf(policy SharingPolicy, facts SharingFacts, shares map[types.NamespacedName]Share) []*claim {
	tenants := map[string]*authv1beta1.Tenant{}
	for i := range facts.Tenants {
		tenant := &facts.Tenants[i]
		if first := tenants[tenant.Namespace]; tenant.DeletionTimestamp.IsZero() && (first == nil || compareAge(tenant, first) < 0) {
			tenants[tenant.Namespace] = tenant
		}
	}
	ordered := make([]*authv1beta1.ResourceSlice, len(facts.Slices))
	for i := range facts.Slices {
		ordered[i] = &facts.Slices[i]
	}
	slices.SortFunc(ordered, func(a, b *authv1beta1.ResourceSlice) int { return compareAge(a, b) })
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

// claimOf returns what a ResourceSlice asks for, nil when it is not entitled to a share, or somebody else answers it.
func claimOf(policy SharingPolicy, slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) *claim {
	grants := GrantsOf(tenant)
	if !grants.Access || !standardClass(slice) || deniedForItself(&slice.Status) {
		return nil
	}
	c := &claim{
		consumer: tenant.Spec.ClusterID, granted: slice.Status.Resources,
		creator: offloadingv1beta1.CreatorLabel(ResourceSliceSubject(slice.Name, tenant.Spec.ClusterID).User),
	}
	if cordoned(slice, grants) {
		if ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources) != authv1beta1.ResourceSliceAccepted {
			return nil
		}
		c.asked, c.exact = slice.Status.Resources, true
		return c
	}
	c.asked = requested(slice.Spec.Resources, policy.Defaults)
	c.all = len(c.asked) == 0
	return c
}

// deniedForItself tells whether a ResourceSlice gets no identity for what it is; the others of its consumer may be the reason as well, and go.
func deniedForItself(status *authv1beta1.ResourceSliceStatus) bool {
	return ConditionOf(status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceDenied && !deniedAsOneTooMany(status)
}

func deniedAsOneTooMany(status *authv1beta1.ResourceSliceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceAuthentication && c.Reason == authv1beta1.ReasonTooMany
	})
}

// standardClass tells whether the controller manager itself answers a ResourceSlice.
func standardClass(slice *authv1beta1.ResourceSlice) bool {
	return slice.Spec.Class == "" || slice.Spec.Class == authv1beta1.ResourceSliceClassDefault
}

// Cordoned tells whether a ResourceSlice of a Tenant gets nothing beyond what it has.
func Cordoned(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) bool {
	return cordoned(slice, GrantsOf(tenant))
}

func cordoned(slice *authv1beta1.ResourceSlice, grants Grants) bool {
	return !grants.More || slice.Annotations[authv1beta1.AnnotationCordon] == api.True || slice.Annotations[authv1beta1.AnnotationCordonTenant] == api.True
}

// requested is the request over the defaults. Negative quantities ask for nothing.
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

// capsOf returns what each consumer gets at most.
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

// compareAge orders objects by age, then by name.
func compareAge(a, b metav1.Object) int {
	ta, tb := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(ta.Compare(tb.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// Moved tells whether the status of a ResourceSlice does not say what its share is.
func Moved(slice *authv1beta1.ResourceSlice, share Share) bool {
	if !slice.DeletionTimestamp.IsZero() {
		return false
	}
	return (share.Refused != "") != deniedAsOneTooMany(&slice.Status) || standardClass(slice) && !equality.Semantic.DeepEqual(slice.Status.Resources, share.Resources)
}
