package ipam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
)

func withService(metadata ipamv1alpha1.ObjectMeta, spec corev1.ServiceSpec) *ipamv1alpha1.IP {
	out := ip("a/printer 172.16.3.3", 0)
	out.Spec.ServiceTemplate = &ipamv1alpha1.ServiceTemplate{Metadata: metadata, Spec: spec}
	return &out
}

func TestService(t *testing.T) {
	if service, slice, problem := Service(&ipamv1alpha1.IP{}); service != nil || slice != nil || problem != (Problem{}) {
		t.Errorf("a Service that nobody asks for: %v %v %v", service, slice, problem)
	}
	for name, row := range map[string]struct {
		ip *ipamv1alpha1.IP
		// service is the expected name of the Service, ports the expected ports of the endpoints, says part of the expected problem.
		service string
		ports   []string
		says    string
	}{
		"ports": {
			ip: withService(ipamv1alpha1.ObjectMeta{Name: "ipp", Namespace: "a"}, corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "tcp", Port: 80}, {Name: "other", Port: 81, TargetPort: intstr.FromInt32(9100)}, {Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP},
			}}),
			service: "ipp", ports: []string{"tcp TCP 80", "other TCP 9100", "udp UDP 53"},
		},
		"no name of its own": {ip: withService(ipamv1alpha1.ObjectMeta{}, corev1.ServiceSpec{}), service: "printer"},
		"elsewhere":          {ip: withService(ipamv1alpha1.ObjectMeta{Namespace: "b"}, corev1.ServiceSpec{}), says: "metadata.namespace is b"},
		"selector":           {ip: withService(ipamv1alpha1.ObjectMeta{}, corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}), says: "spec.selector"},
		"external name":      {ip: withService(ipamv1alpha1.ObjectMeta{}, corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}), says: "ExternalName"},
		"a port by name": {
			ip:   withService(ipamv1alpha1.ObjectMeta{}, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1, TargetPort: intstr.FromString("http")}}}),
			says: `ports[0].targetPort is the name "http"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			service, slice, problem := Service(row.ip)
			if !strings.Contains(problem.Message, row.says) || (row.says == "") != (problem == Problem{}) || (service == nil) != (row.says != "") {
				t.Fatalf("%v, problem %+v", service, problem)
			}
			if service == nil {
				return
			}
			var ports []string
			for _, port := range slice.Ports {
				ports = append(ports, fmt.Sprint(*port.Name, " ", *port.Protocol, " ", *port.Port))
			}
			if diff := cmp.Diff(row.ports, ports); diff != "" {
				t.Error(diff)
			}
			if service.Name != row.service || service.Namespace != "a" || slice.Namespace != "a" || slice.Labels[discoveryv1.LabelServiceName] != row.service ||
				slice.Endpoints[0].Addresses[0] != "172.16.3.3" {
				t.Errorf("%+v\n%+v", service, slice)
			}
		})
	}
}

func TestRevision(t *testing.T) {
	revision := func(port int32) string {
		service, slice, _ := Service(withService(ipamv1alpha1.ObjectMeta{}, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}))
		out, err := Revision(service, slice)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, again, other := revision(1), revision(1), revision(2)
	if first != again || first == other {
		t.Errorf("revisions %s, %s and %s", first, again, other)
	}
}
