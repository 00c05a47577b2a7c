package ipam

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/reasons"
)

// ManagedBy is the value of label endpointslice.kubernetes.io/managed-by on the EndpointSlices that Service returns.
const ManagedBy = "ipam.liqo.io"

// Service returns the Service that an IP requests, and the EndpointSlice with spec.ip as its endpoint. Both are nil if the IP
// requests none. They are in the namespace of the IP: permission to create IPs in one namespace must not allow the creation of
// Services in another.
func Service(ip *ipamv1alpha1.IP) (*corev1.Service, *discoveryv1.EndpointSlice, Problem) {
	template := ip.Spec.ServiceTemplate
	if template == nil {
		return nil, nil, Problem{}
	}
	spec := template.Spec.DeepCopy()
	switch {
	case template.Metadata.Namespace != "" && template.Metadata.Namespace != ip.Namespace:
		return nil, nil, problem(reasons.Invalid,
			"spec.serviceTemplate.metadata.namespace is %s: leave it empty, because the Service is always created in the IP's own namespace %s",
			template.Metadata.Namespace, ip.Namespace)
	case len(spec.Selector) > 0:
		return nil, nil, problem(reasons.Invalid, "spec.serviceTemplate.spec.selector selects pods: remove it, spec.ip is the only endpoint")
	case spec.Type == corev1.ServiceTypeExternalName:
		return nil, nil, problem(reasons.Invalid, "spec.serviceTemplate.spec.type is ExternalName, which has no endpoints: use ClusterIP, NodePort or LoadBalancer")
	}
	meta := metav1.ObjectMeta{
		Namespace: ip.Namespace, Name: cmp.Or(template.Metadata.Name, ip.Name), Labels: template.Metadata.Labels, Annotations: template.Metadata.Annotations,
	}
	service := &corev1.Service{ObjectMeta: *meta.DeepCopy(), Spec: *spec}
	service.Finalizers = template.Metadata.Finalizers
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: meta.Namespace, Name: meta.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: meta.Name, discoveryv1.LabelManagedBy: ManagedBy},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip.Spec.IP}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.TargetPort.Type == intstr.String && port.TargetPort.StrVal != "" {
			return nil, nil, problem(reasons.Invalid,
				"spec.serviceTemplate.spec.ports[%d].targetPort is the name %q, but an address has no named ports: give a number", i, port.TargetPort.StrVal)
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(port.Name), Port: ptr.To(cmp.Or(port.TargetPort.IntVal, port.Port)), Protocol: ptr.To(cmp.Or(port.Protocol, corev1.ProtocolTCP)),
			AppProtocol: port.AppProtocol,
		})
	}
	return service, slice, Problem{}
}

// Revision returns a hash of the Service and its EndpointSlice. Another template or another address results in another hash.
func Revision(service *corev1.Service, slice *discoveryv1.EndpointSlice) (string, error) {
	text, err := json.Marshal([]any{service, slice})
	if err != nil {
		return "", fmt.Errorf("marshalling Service %s: %w", keyOf(&service.ObjectMeta), err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(text) // never fails
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}
