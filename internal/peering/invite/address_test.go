package invite

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

func TestPinsAreChecked(t *testing.T) {
	mine, theirs := &x509.Certificate{RawSubjectPublicKeyInfo: []byte("mine")}, &x509.Certificate{RawSubjectPublicKeyInfo: []byte("theirs")}
	if err := CheckPin(PinOf(mine), []*x509.Certificate{mine, theirs}); err != nil {
		t.Error(err)
	}
	for name, shown := range map[string][]*x509.Certificate{"another": {theirs}, "ours behind another": {theirs, mine}, "none": nil} {
		if err := CheckPin(PinOf(mine), shown); !errors.Is(err, ErrPin) {
			t.Errorf("%s: %v, want %v", name, err, ErrPin)
		}
	}
}

func TestEnrollmentURLs(t *testing.T) {
	service := func(change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: Service, Annotations: map[string]string{}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443, NodePort: 30443}}},
		}
		change(s)
		return s
	}
	node := func(name string, kind corev1.NodeAddressType, address string, virtual bool) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if virtual {
			n.Labels[api.LabelType] = api.TypeVirtualNode
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: kind, Address: address}}
		return n
	}
	ready := func(n corev1.Node, status corev1.ConditionStatus) corev1.Node {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return n
	}
	inside := []corev1.Node{node("b", corev1.NodeInternalIP, "10.0.0.2", false), node("a", corev1.NodeInternalIP, "10.0.0.1", false), node("0", corev1.NodeInternalIP, "10.0.0.9", true)}
	ingress := func(ip, hostname string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, Hostname: hostname}}
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		nodes  []corev1.Node
		want   string
		err    string
	}{
		"a load balancer":        {change: ingress("198.51.100.7", ""), nodes: inside, want: "https://198.51.100.7"},
		"one with a name":        {change: ingress("", "lb.example.org"), want: "https://lb.example.org"},
		"one of IPv6":            {change: ingress("2001:db8::7", ""), want: "https://[2001:db8::7]"},
		"none yet":               {change: func(*corev1.Service) {}, nodes: inside, want: "https://10.0.0.1:30443"},
		"a node with an outside": {change: func(*corev1.Service) {}, nodes: append(inside, node("z", corev1.NodeExternalIP, "198.51.100.9", false)), want: "https://198.51.100.9:30443"},
		"a node that is down": {change: func(*corev1.Service) {}, nodes: []corev1.Node{
			ready(node("a", corev1.NodeExternalIP, "198.51.100.9", false), corev1.ConditionUnknown), ready(node("b", corev1.NodeInternalIP, "10.0.0.2", false), corev1.ConditionTrue),
		}, want: "https://10.0.0.2:30443"},
		"another port":       {change: func(s *corev1.Service) { ingress("198.51.100.7", "")(s); s.Spec.Ports[0].Port = 8443 }, want: "https://198.51.100.7:8443"},
		"an address by hand": {change: func(s *corev1.Service) { s.Annotations[AnnotationAddress] = "auth.example.org" }, want: "https://auth.example.org"},
		"and a port": {change: func(s *corev1.Service) {
			s.Annotations[AnnotationAddress], s.Annotations[AnnotationPort] = "auth.example.org", "8443"
		}, want: "https://auth.example.org:8443"},
		"a port that is none": {change: func(s *corev1.Service) {
			ingress("198.51.100.7", "")(s)
			s.Annotations[AnnotationPort] = "https"
		}, err: "want a port"},
		"only inside the cluster": {change: func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0 }, nodes: inside, err: "auth.config.addressOverride"},
		"no node":                 {change: func(*corev1.Service) {}, err: "can't reach Service liqo/liqo-auth"},
		"no port":                 {change: func(s *corev1.Service) { s.Spec.Ports = nil }, err: "has no port"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := URL(service(test.change), test.nodes)
			if got != test.want || (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%q, error %v; want %q, error %q", got, err, test.want, test.err)
			}
			if err == nil && CheckURL(got) != nil {
				t.Errorf("it is not accepted: %v", CheckURL(got))
			}
		})
	}
	for _, bad := range []string{"", "milan", "http://milan", "https://", "https://a:b@milan", "https://milan?x=1", "https://milan#x", "://"} {
		if CheckURL(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestEnrollmentWithoutTLS: consumers do not call a service without TLS, and the error describes the alternative.
func TestEnrollmentWithoutTLS(t *testing.T) {
	for port, want := range map[string]string{"https": "", "": "", "http": "--auth-url, and --trusted-certificate or --auth-certificate"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: Service}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port}}}}
		if err := CheckTLS(service); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("port %q: %v, want %q", port, err, want)
		}
	}
	if err := CheckTLS(&corev1.Service{}); err != nil {
		t.Error(err)
	}
}
