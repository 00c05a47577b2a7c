package offload

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/reasons"
)

// ExposedAddress returns the address by which peers reach an endpoint outside this cluster's pod network. ips are the IP objects of the endpoint's
// namespace. If several IP objects have that address, the result is from the one that IPAM uses. The result is empty without an error in two cases.
// Either an IP object exists and has no address yet, or the endpoint is a Pod on another virtual node, which gets an IP object automatically. Pass an
// empty pod name for a hostNetwork pod, since it gets no IP object.
func ExposedAddress(address, pod string, ips []*ipamv1alpha1.IP) (string, error) {
	slices.SortFunc(ips, ipam.Exposing(""))
	why := fmt.Errorf("%s is not in the pod network of this cluster, and no IP object of this namespace exposes it to peers: create one with spec.ip %s", address, address)
	for _, ip := range ips {
		if ip.Spec.IP != address || ip.DeletionTimestamp != nil {
			continue
		}
		switch refused := passedOver(ip); {
		case refused != "":
			why = errors.New("IP " + ip.Name + " exposes it to no peer: " + refused)
		case ip.Status.IP != "":
			return ip.Status.IP, nil
		default:
			why = nil // IPAM has not assigned its address yet
		}
	}
	if pod != "" {
		return "", nil
	}
	return "", why
}

// passedOver returns why an IP object does not expose its address to peers; empty if it does.
func passedOver(ip *ipamv1alpha1.IP) string {
	if ip.Labels[networkingv1beta1.LabelHostUnreachable] == api.True {
		return "it has label " + networkingv1beta1.LabelHostUnreachable
	}
	unusable := []string{reasons.Duplicate, reasons.PodAddress, reasons.NotExternal, reasons.Conflict}
	for _, c := range ip.Status.Conditions {
		if c.Status == metav1.ConditionFalse && slices.Contains(unusable, c.Reason) {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
