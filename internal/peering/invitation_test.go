package peering

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/pki"
)

func enrollRequestOf(t *testing.T, h holder, cluster string, nonce []byte) *EnrollRequest {
	t.Helper()
	signature, err := Sign(h.key, nonce)
	if err != nil {
		t.Fatal(err)
	}
	request, err := NewRequest(rand.Reader, h.key, ControlPlaneSubject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	return &EnrollRequest{NonceRequest: NonceRequest{Cluster: cluster}, PublicKey: h.public, CSR: request, Signature: signature}
}

func TestApplications(t *testing.T) {
	nonce, err := NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rome, thief := newHolder(t, Ed25519), newHolder(t, RSA2048)
	known := func(change func(*authv1beta1.TenantSpec)) *authv1beta1.Tenant {
		enrollRequest := enrollRequestOf(t, rome, "rome", nonce)
		tenant := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{
			ClusterID: "rome", PublicKey: enrollRequest.PublicKey, CSR: enrollRequest.CSR, Signature: enrollRequest.Signature, TenantCondition: authv1beta1.TenantCordoned,
		}}
		if change != nil {
			change(&tenant.Spec)
		}
		return tenant
	}
	for name, test := range map[string]struct {
		enrollRequest *EnrollRequest
		change        func(*EnrollRequest)
		present       *authv1beta1.Tenant
		nonce         []byte
		refused       string
	}{
		"of a stranger":    {},
		"once more":        {present: known(nil)},
		"of one with RSA":  {enrollRequest: enrollRequestOf(t, thief, "naples", nonce)},
		"without a nonce":  {nonce: []byte{}, refused: ErrNoNonce.Error()},
		"over another one": {change: func(a *EnrollRequest) { a.Signature[0] ^= 1 }, refused: "spec.signature"},
		"somebody else's signature": {
			enrollRequest: enrollRequestOf(t, thief, "rome", nonce), change: func(a *EnrollRequest) { a.PublicKey = rome.public }, refused: "spec.signature",
		},
		"somebody else's request": {
			change: func(a *EnrollRequest) { a.CSR = enrollRequestOf(t, thief, "rome", nonce).CSR }, refused: "spec.csr",
		},
		"in another name":     {change: func(a *EnrollRequest) { a.CSR = enrollRequestOf(t, rome, "naples", nonce).CSR }, refused: "spec.csr"},
		"of this cluster":     {enrollRequest: enrollRequestOf(t, rome, "milan", nonce), refused: "this cluster itself"},
		"taking rome over":    {enrollRequest: enrollRequestOf(t, thief, "rome", nonce), present: known(nil), refused: ErrOtherKey.Error()},
		"with both keys told": {enrollRequest: enrollRequestOf(t, thief, "rome", nonce), present: known(nil), refused: "its key is " + Fingerprint(rome.public) + ", that of the request " + Fingerprint(thief.public)},
		"beside a given word": {present: known(func(s *authv1beta1.TenantSpec) { s.PublicKey = nil }), refused: ErrOtherKey.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			enrollRequest := test.enrollRequest
			if enrollRequest == nil {
				enrollRequest = enrollRequestOf(t, rome, "rome", nonce)
			}
			if test.change != nil {
				test.change(enrollRequest)
			}
			given := nonce
			if test.nonce != nil {
				given = test.nonce
			}
			spec, err := Apply(enrollRequest, test.present, "milan", given)
			switch {
			case test.refused != "":
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want one with %q", err, test.refused)
				}
			case err != nil:
				t.Error(err)
			case test.present != nil && string(spec.CSR) != string(test.present.Spec.CSR):
				t.Error("the request was replaced, and would be signed again")
			case test.present != nil && spec.TenantCondition != authv1beta1.TenantCordoned:
				t.Error("the provider's condition was changed")
			}
		})
	}
}

func TestPinsAreChecked(t *testing.T) {
	one, other := newHolder(t, Ed25519).certificate(t, Subject{User: "one"}, 1), newHolder(t, Ed25519).certificate(t, Subject{User: "one"}, 1)
	mine, err := pki.First(one)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := pki.First(other)
	if err != nil {
		t.Fatal(err)
	}
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
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: EnrollmentService, Annotations: map[string]string{}},
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
		"an address by hand": {change: func(s *corev1.Service) { s.Annotations[AnnotationEnrollmentAddress] = "auth.example.org" }, want: "https://auth.example.org"},
		"and a port": {change: func(s *corev1.Service) {
			s.Annotations[AnnotationEnrollmentAddress], s.Annotations[AnnotationEnrollmentPort] = "auth.example.org", "8443"
		}, want: "https://auth.example.org:8443"},
		"a port that is none": {change: func(s *corev1.Service) {
			ingress("198.51.100.7", "")(s)
			s.Annotations[AnnotationEnrollmentPort] = "https"
		}, err: "want a port"},
		"only inside the cluster": {change: func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0 }, nodes: inside, err: "auth.config.addressOverride"},
		"no node":                 {change: func(*corev1.Service) {}, err: "can't reach Service liqo/liqo-auth"},
		"no port":                 {change: func(s *corev1.Service) { s.Spec.Ports = nil }, err: "has no port"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EnrollmentURL(service(test.change), test.nodes)
			if got != test.want || (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("%q, error %v; want %q, error %q", got, err, test.want, test.err)
			}
			if err == nil && CheckEnrollmentURL(got) != nil {
				t.Errorf("it is not accepted: %v", CheckEnrollmentURL(got))
			}
		})
	}
	for _, bad := range []string{"", "milan", "http://milan", "https://", "https://a:b@milan", "https://milan?x=1", "https://milan#x", "://"} {
		if CheckEnrollmentURL(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestTokenForAnyClusterProvesNoIdentity: the holder of a token for any cluster may state any cluster ID, and gets access to no namespace that was
// created for another purpose.
func TestTokenForAnyClusterProvesNoIdentity(t *testing.T) {
	for name, row := range map[string]struct {
		token Token
		known *Known
		want  bool
	}{
		"a cluster that is not known":                  {Token{}, nil, true},
		"a provider of this cluster":                   {Token{}, &Known{Provider: true}, false},
		"a provider, met after it was a tenant":        {Token{}, &Known{Enrolled: true, Provider: true}, false},
		"a namespace that an administrator made":       {Token{}, &Known{}, false},
		"what the request before made":                 {Token{}, &Known{Enrolled: true}, true},
		"a tenant, which has to show its key":          {Token{}, &Known{Tenant: true}, true},
		"a tenant and provider":                        {Token{}, &Known{Tenant: true, Provider: true}, true},
		"a provider by a token for it":                 {Token{Consumer: "milan"}, &Known{Provider: true}, true},
		"a token for another cluster":                  {Token{Consumer: "turin"}, &Known{Provider: true}, false},
		"an administrator's namespace, a token for it": {Token{Consumer: "milan"}, &Known{}, true},
	} {
		err := CheckEntry(row.token, "milan", row.known)
		if (err == nil) != row.want {
			t.Errorf("%s: %v, want entry %v", name, err, row.want)
		}
		if err != nil && !strings.Contains(err.Error(), "--consumer-cluster-id milan") {
			t.Errorf("%s: the error names no cure: %v", name, err)
		}
	}
}

// TestEnrollmentWithoutTLS: consumers do not call a service without TLS, and the error describes the alternative.
func TestEnrollmentWithoutTLS(t *testing.T) {
	for port, want := range map[string]string{"https": "", "": "", "http": "--auth-url, and --trusted-certificate or --auth-certificate"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: EnrollmentService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port}}}}
		if err := CheckEnrollmentTLS(service); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("port %q: %v, want %q", port, err, want)
		}
	}
	if err := CheckEnrollmentTLS(&corev1.Service{}); err != nil {
		t.Error(err)
	}
}
