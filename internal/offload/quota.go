package offload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedulerresource "k8s.io/component-helpers/resource"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Usage returns the resources that a pod counts for: those that the scheduler reserves for it (with init containers, sidecars, pod-level resources
// and overhead), and one pod. A missing request defaults to its limit, as the API server does in the Pod. The argument overhead is the overhead of
// the pod's RuntimeClass. It counts if the specification does not contain an overhead yet.
//
// An API server that does not support pod-level resources drops them. So the greater of the two sums, with and without them, counts for each
// resource: pod-level resources cannot hide usage. A negative sum counts as zero. The API server rejects a Pod with negative
// amounts, but until then they must not reduce the usage.
func Usage(spec *corev1.PodSpec, overhead corev1.ResourceList) corev1.ResourceList {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: defaulted(spec.Containers), InitContainers: defaulted(spec.InitContainers), Overhead: spec.Overhead,
	}}
	if len(pod.Spec.Overhead) == 0 { // as in the Pod that the API server sees
		pod.Spec.Overhead = overhead
	}
	usage := schedulerresource.PodRequests(pod, schedulerresource.PodResourcesOptions{SkipPodLevelResources: true})
	if spec.Resources != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests(spec.Resources)}
		for name, quantity := range schedulerresource.PodRequests(pod, schedulerresource.PodResourcesOptions{}) {
			if least := usage[name]; quantity.Cmp(least) > 0 {
				usage[name] = quantity
			}
		}
	}
	maps.DeleteFunc(usage, func(_ corev1.ResourceName, quantity resource.Quantity) bool { return quantity.Sign() < 0 })
	usage[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return usage
}

// PodUsage returns the resources that a Pod counts for: its Usage, and during a resize at least the resources that its node has not released yet.
func PodUsage(pod *corev1.Pod) corev1.ResourceList {
	return greater(Usage(&pod.Spec, nil), schedulerresource.PodRequests(pod, schedulerresource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
}

// greater returns the greater of two amounts for each resource.
func greater(a, b corev1.ResourceList) corev1.ResourceList {
	all := Growth(a, b)
	for name, quantity := range a {
		if _, more := all[name]; !more {
			all[name] = quantity
		}
	}
	return all
}

// defaulted returns copies of the containers with only the fields that Usage reads.
func defaulted(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = corev1.Container{RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Requests: requests(&c.Resources)}}
	}
	return out
}

// requests returns the requests, with the limits as defaults for missing requests.
func requests(r *corev1.ResourceRequirements) corev1.ResourceList {
	if len(r.Limits) == 0 {
		return r.Requests
	}
	all := maps.Clone(r.Limits)
	maps.Copy(all, r.Requests)
	return all
}

// Negative returns an error that names a negative amount in a pod's specification, nil if there is none. The API server refuses such a Pod, but it
// accepts such a ShadowPod, since the schema of a ShadowPod does not describe the pod specification.
func Negative(spec *corev1.PodSpec) error {
	if err := below("overhead", spec.Overhead); err != nil {
		return err
	}
	if spec.Resources != nil {
		if err := belowIn("resources", spec.Resources); err != nil {
			return err
		}
	}
	for i := range spec.InitContainers {
		if err := belowIn(fmt.Sprintf("initContainers[%d].resources", i), &spec.InitContainers[i].Resources); err != nil {
			return err
		}
	}
	for i := range spec.Containers {
		if err := belowIn(fmt.Sprintf("containers[%d].resources", i), &spec.Containers[i].Resources); err != nil {
			return err
		}
	}
	return nil
}

func belowIn(field string, r *corev1.ResourceRequirements) error {
	if err := below(field+".requests", r.Requests); err != nil {
		return err
	}
	return below(field+".limits", r.Limits)
}

func below(field string, amounts corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if q := amounts[name]; q.Sign() < 0 {
			return fmt.Errorf("spec.pod.%s[%s] is %s, but must not be negative: set it to 0 or more", field, name, q.String())
		}
	}
	return nil
}

// Undeclared returns an error if a pod lacks requests or limits that an enforcement demands. Soft demands that every container requests cpu and
// memory. Hard demands in addition that all limits equal the requests.
func Undeclared(spec *corev1.PodSpec, enforcement offloadingv1beta1.LimitsEnforcement) error {
	if enforcement != offloadingv1beta1.EnforcementSoft && enforcement != offloadingv1beta1.EnforcementHard {
		return nil
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			want := requests(&c.Resources)
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if q := want[name]; q.Sign() <= 0 {
					return fmt.Errorf("container %s requests no %s, which enforcement %s demands: set resources.requests.%s", c.Name, name, enforcement, name)
				}
			}
			if enforcement != offloadingv1beta1.EnforcementHard {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				limit, limited := c.Resources.Limits[name]
				if q := want[name]; !limited || limit.Cmp(q) != 0 {
					return fmt.Errorf("container %s requests %s of %s and its limit is %s, enforcement %s demands that they are equal: set resources.limits.%s to %s",
						c.Name, q.String(), name, text(limit, limited), enforcement, name, q.String())
				}
			}
		}
	}
	return nil
}

// QuotaCure ends the error message for a pod that exceeds a Quota.
const QuotaCure = "ask for less, remove other pods, or have more granted to the ResourceSlice"

// Exceeded returns an error that lists the resources that would exceed a Quota, nil if there are none. wanted is the additional usage, used the
// present usage. A resource that the Quota does not name is not granted, except for the number of pods. Resources that are not in wanted are not
// checked: a user above the limit of one resource may still get more of another.
func Exceeded(quota *offloadingv1beta1.QuotaSpec, used, wanted corev1.ResourceList) error {
	var over []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		want, limit := wanted[name], quota.Resources[name]
		_, named := quota.Resources[name]
		if want.Sign() <= 0 || name == corev1.ResourcePods && !named {
			continue
		}
		sum, now := want.DeepCopy(), used[name]
		sum.Add(now)
		if sum.Cmp(limit) <= 0 {
			continue
		}
		if !named {
			over = append(over, fmt.Sprintf("%s of %s are wanted and none is granted", want.String(), name))
			continue
		}
		over = append(over, fmt.Sprintf("%s of %s are wanted, %s of %s are used", want.String(), name, now.String(), limit.String()))
	}
	if len(over) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", strings.Join(over, "; "), QuotaCure)
}

// ClaimUsage returns what a claim counts for in the limits of a consumer: its size, and one claim.
func ClaimUsage(spec *corev1.PersistentVolumeClaimSpec) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceRequestsStorage:        spec.Resources.Requests[corev1.ResourceStorage],
		corev1.ResourcePersistentVolumeClaims: *resource.NewQuantity(1, resource.DecimalSI),
	}
}

// ClaimGrowth returns what a changed claim counts for in addition.
func ClaimGrowth(before, after *corev1.PersistentVolumeClaimSpec) corev1.ResourceList {
	more := after.Resources.Requests[corev1.ResourceStorage]
	more.Sub(before.Resources.Requests[corev1.ResourceStorage])
	return corev1.ResourceList{corev1.ResourceRequestsStorage: more}
}

// NamespaceHard returns the spec.hard of the ResourceQuota of a remote namespace. It also has the limits that hold for all namespaces of a consumer together, so
// that Kubernetes counts these resources in each namespace.
func NamespaceHard(each, total corev1.ResourceList) corev1.ResourceList {
	hard := each.DeepCopy()
	if hard == nil {
		hard = corev1.ResourceList{}
	}
	for name, limit := range total {
		if own, limited := hard[name]; !limited || own.Cmp(limit) > 0 {
			hard[name] = limit.DeepCopy()
		}
	}
	return hard
}

// The rows of a remote namespace's ResourceQuota for the two kinds of which every pod brings an object. Each creation of a counted object costs the API
// server one more write, and all these writes of a namespace are made one after the other.
const (
	CountShadowPods corev1.ResourceName = "count/shadowpods.offloading.liqo.io"
	CountSecrets    corev1.ResourceName = "count/secrets"
)

// smallLimit is the limit below which the API server always counts. The upper half of any other limit has room for at least 1,000 objects, which a consumer
// may create before the controller manager has added the row.
const smallLimit = 2000

// Countable returns the rows of spec.hard that the API server need not count while a namespace has few of the objects.
func Countable(hard corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, row := range []corev1.ResourceName{CountShadowPods, CountSecrets} {
		if limit, limited := hard[row]; limited && limit.Value() >= smallLimit {
			out = append(out, row)
		}
	}
	return out
}

// CountedByServer reports whether the API server counts the objects of a kind in a namespace. It does from half of the limit on, and until the namespace has
// less than a quarter of it. In between it does if it did before (counted).
func CountedByServer(limit, objects int64, counted bool) bool {
	switch {
	case limit < smallLimit, objects >= limit-limit/2:
		return true
	case objects < limit/4:
		return false
	}
	return counted
}

// ExceededTogether returns an error that lists the limits of a consumer that its remote namespaces would exceed together, nil if there are none. quotas are the
// ResourceQuotas of these namespaces, in which Kubernetes counts what exists. wanted is the additional usage.
func ExceededTogether(total corev1.ResourceList, quotas []corev1.ResourceQuota, wanted corev1.ResourceList) error {
	var over []string
	for _, name := range slices.Sorted(maps.Keys(total)) {
		want, limit := wanted[name], total[name]
		if want.Sign() <= 0 {
			continue
		}
		var used resource.Quantity
		for i := range quotas {
			used.Add(quotas[i].Status.Used[name])
		}
		sum := want.DeepCopy()
		if sum.Add(used); sum.Cmp(limit) > 0 {
			over = append(over, fmt.Sprintf("%s of %s are wanted, %s of %s are used in all namespaces of the consumer", want.String(), name, used.String(), limit.String()))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return fmt.Errorf("%s: request less, or ask the administrator of the provider for more (value offloading.namespacePolicy.total)", strings.Join(over, "; "))
}

// Growth returns the resources whose amount has increased, with the amounts in after.
func Growth(before, after corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, quantity := range after {
		if least := before[name]; quantity.Cmp(least) > 0 {
			more[name] = quantity
		}
	}
	return more
}

// DefaultLimits returns the specification of a LimitRange that gives these limits to containers that declare none. Requests stay as declared, since a
// Quota counts them. Without the zero default requests, Kubernetes would use the limits as requests.
func DefaultLimits(limits corev1.ResourceList) corev1.LimitRangeSpec {
	requests := make(corev1.ResourceList, len(limits))
	for name := range limits {
		requests[name] = resource.Quantity{}
	}
	return corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: limits.DeepCopy(), DefaultRequest: requests,
	}}}
}

// QuotasOf returns the Quotas of the user that the creator label of a ShadowPod names.
func QuotasOf(quotas []offloadingv1beta1.Quota, creator string) []*offloadingv1beta1.Quota {
	var found []*offloadingv1beta1.Quota
	for i := range quotas {
		if creator != "" && offloadingv1beta1.CreatorLabel(quotas[i].Spec.User) == creator {
			found = append(found, &quotas[i])
		}
	}
	return found
}

func text(q resource.Quantity, there bool) string {
	if !there {
		return "not set"
	}
	return q.String()
}
