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
)

// ExposedAddress is under which address peers reach an endpoint that is no pod of this cluster's network, as the IP objects of its namespace
// for that very address say: that of the one which the network uses. It is empty, without an error, while one has none yet, or if the endpoint
// is a Pod on another virtual node, which gets an IP object by itself; pod is empty for those in the network of a node, which get none.
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
			why = nil // its address is on its way
		}
	}
	if pod != "" {
		return "", nil
	}
	return "", why
}

// passedOver says why peers reach nothing by an IP, empty if they do.
func passedOver(ip *ipamv1alpha1.IP) string {
	if ip.Labels[networkingv1beta1.LabelHostUnreachable] == api.True {
		return "it has label " + networkingv1beta1.LabelHostUnreachable
	}
	unusable := []string{ipam.ReasonDuplicate, ipam.ReasonPodAddress, ipam.ReasonNotExternal, ipam.ReasonConflict}
	for _, c := range ip.Status.Conditions {
		if c.Status == metav1.ConditionFalse && slices.Contains(unusable, c.Reason) {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
