package peering

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

const (
	serviceAccountPrefix = "system:serviceaccount:"
	nodeUserPrefix       = "system:node:"
	nodesGroup           = "system:nodes"
)

// ServingRequester returns the namespace and the name of the ServiceAccount that requests a kubelet serving certificate. The ServiceAccount
// of a virtual kubelet has the name of its VirtualNode. ok is false for requests of another kind or by another user; this project's
// controllers ignore those.
func ServingRequester(csr *certificatesv1.CertificateSigningRequest) (namespace, virtualNode string, ok bool) {
	account, found := strings.CutPrefix(csr.Spec.Username, serviceAccountPrefix)
	if !found || csr.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return "", "", false
	}
	return strings.Cut(account, ":")
}

// CheckServing returns nil if the request of a virtual kubelet for its serving certificate may be approved, and otherwise an error that
// says why not. node is the VirtualNode that the requester serves, pods are the pods of its virtual kubelet.
func CheckServing(csr *certificatesv1.CertificateSigningRequest, node *offloadingv1beta1.VirtualNode, pods []corev1.Pod) error {
	request, err := ParseRequest(csr.Spec.Request)
	if err != nil {
		return err
	}
	if want := nodeUserPrefix + node.Name; request.Subject.CommonName != want {
		return fmt.Errorf("the request is for CN %q, but this virtual kubelet serves %q", request.Subject.CommonName, want)
	}
	if !slices.Equal(request.Subject.Organization, []string{nodesGroup}) || len(request.Subject.Names) != 2 {
		return fmt.Errorf("the request's subject is %q, want only a CN and O=%s", request.Subject.String(), nodesGroup)
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth:
		default:
			return fmt.Errorf("the request is for usage %q, want a serving certificate only", usage)
		}
	}
	if !slices.Contains(csr.Spec.Usages, certificatesv1.UsageServerAuth) {
		return fmt.Errorf("the request lacks the usage %q", certificatesv1.UsageServerAuth)
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 {
		return errors.New("the request names mail addresses or URIs")
	}
	for _, name := range request.DNSNames {
		if name != node.Name {
			return fmt.Errorf("the request is for DNS name %q, want only %q", name, node.Name)
		}
	}
	for _, ip := range request.IPAddresses {
		if !isPodIP(ip.String(), pods) {
			return fmt.Errorf("%w: the request is for address %s", ErrNotPodIP, ip)
		}
	}
	return nil
}

// ErrNotPodIP means that the request has an address that no known pod of the virtual kubelet has. The address of a starting pod may become known a
// moment later.
var ErrNotPodIP = errors.New("no pod of the virtual kubelet has that address")

func isPodIP(address string, pods []corev1.Pod) bool {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for i := range pods {
		status := &pods[i].Status
		if pods[i].DeletionTimestamp != nil {
			continue
		}
		for _, podIP := range append([]corev1.PodIP{{IP: status.PodIP}}, status.PodIPs...) {
			if ip, err := netip.ParseAddr(podIP.IP); err == nil && ip.Unmap() == want.Unmap() {
				return true
			}
		}
	}
	return false
}
