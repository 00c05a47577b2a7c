package offload

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// Labels of the IP object of an offloaded Pod.
const (
	// LabelPodName and LabelPodNamespace identify the Pod. A name that is too long for a label is truncated and ends in a hash.
	LabelPodName      = "offloading.liqo.io/pod-name"
	LabelPodNamespace = "offloading.liqo.io/pod-namespace"
)

// IPAction is what to do about the IP object of an offloaded Pod.
type IPAction int

// IP actions.
const (
	// IPKeep changes nothing.
	IPKeep IPAction = iota
	// IPCreate creates the IP object.
	IPCreate
	// IPDelete deletes the IP object: it is no longer needed, or it has to be recreated.
	IPDelete
	// IPForeign leaves the IP object unchanged, because no Pod owns it.
	IPForeign
)

// PodIP decides what to do about have, the IP object with the name of a Pod (nil if there is none). The IP object lets other peers reach the Pod in
// its provider through this cluster. views are the ranges in which this cluster sees that provider's pods. An address outside of them is not exposed:
// it is known only from the provider's report, and may be wrong. The garbage collector deletes the IP object with its owner, the Pod. PodIP deletes
// it earlier if the Pod ends, if its address changes, or if the provider's ranges no longer contain the address.
func PodIP(pod *corev1.Pod, views []netip.Prefix, have *ipamv1alpha1.IP) (IPAction, *ipamv1alpha1.IP) {
	want := podIP(pod, views)
	if have == nil {
		if want == nil || pod.DeletionTimestamp != nil {
			return IPKeep, nil
		}
		return IPCreate, want
	}
	owner := metav1.GetControllerOf(have)
	switch {
	case owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1":
		if want == nil {
			return IPKeep, nil
		}
		return IPForeign, nil
	case have.DeletionTimestamp != nil:
		return IPKeep, nil
	case want == nil || owner.UID != pod.UID || have.Spec.IP != want.Spec.IP:
		return IPDelete, nil
	default:
		return IPKeep, nil
	}
}

// podIP returns the IP object that a Pod should have, nil for none.
func podIP(pod *corev1.Pod, views []netip.Prefix) *ipamv1alpha1.IP {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !address.Is4() || !podrules.Offloaded(pod) || api.PodFinished(pod) {
		return nil
	}
	if !slices.ContainsFunc(views, func(view netip.Prefix) bool { return view.Contains(address) }) {
		return nil
	}
	return &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name,
			Labels: map[string]string{LabelPodName: boundedName(pod.Name), LabelPodNamespace: pod.Namespace},
			// BlockOwnerDeletion is not set, so that the IP object does not delay the deletion of the Pod.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		},
		Spec: ipamv1alpha1.IPSpec{IP: address.String()},
	}
}
