package offload

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/offload/kinds"
)

// Labels of the IP of an offloaded Pod.
const (
	// LabelPodName and LabelPodNamespace name the Pod; a name that is too long for a label is cut, and ends in a hash.
	LabelPodName      = "offloading.liqo.io/pod-name"
	LabelPodNamespace = "offloading.liqo.io/pod-namespace"
)

// IPAction is what is done about the IP of an offloaded Pod.
type IPAction int

// IP actions.
const (
	// IPKeep leaves it.
	IPKeep IPAction = iota
	// IPCreate makes it.
	IPCreate
	// IPDelete removes it: nobody needs it, or it has to be made anew.
	IPDelete
	// IPForeign leaves it, because it is somebody else's.
	IPForeign
)

// PodIP decides what to do about have, the IP that has the name of a Pod (nil if there is none), so that other peers reach the Pod at its
// provider through this cluster. views are where that provider is seen here: an address elsewhere, which the provider merely tells, is exposed
// to nobody. The IP goes with its Pod, its owner; here it goes earlier if the Pod ends, gets another address, or its provider another place.
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

// podIP returns the IP that a Pod should have, nil for none.
func podIP(pod *corev1.Pod, views []netip.Prefix) *ipamv1alpha1.IP {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !address.Is4() || !kinds.Offloaded(pod) || kinds.Finished(pod) {
		return nil
	}
	if !slices.ContainsFunc(views, func(view netip.Prefix) bool { return view.Contains(address) }) {
		return nil
	}
	return &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name,
			Labels: map[string]string{LabelPodName: boundedName(pod.Name), LabelPodNamespace: pod.Namespace},
			// It does not hold up the end of the Pod.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		},
		Spec: ipamv1alpha1.IPSpec{IP: address.String()},
	}
}
