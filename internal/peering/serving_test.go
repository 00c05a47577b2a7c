package peering

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestServingCertificates(t *testing.T) {
	kubelet := newHolder(t, Ed25519)
	subject := func(cn string, o ...string) pkix.Name { return pkix.Name{CommonName: cn, Organization: o} }
	good := subject("system:node:milan", "system:nodes")
	podIP := []net.IP{net.IPv4(10, 244, 0, 7)}
	serving := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	type asked struct {
		request x509.CertificateRequest
		usages  []certificatesv1.KeyUsage
	}
	for name, c := range map[string]struct {
		asked   asked
		refused bool
	}{
		"its own node and pod":        {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP}, serving}, false},
		"with the node's name":        {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP, DNSNames: []string{"milan"}}, serving}, false},
		"a real node":                 {asked{x509.CertificateRequest{Subject: subject("system:node:rome-1", "system:nodes"), IPAddresses: podIP}, serving}, true},
		"no node":                     {asked{x509.CertificateRequest{Subject: subject("admin", "system:nodes"), IPAddresses: podIP}, serving}, true},
		"administrators":              {asked{x509.CertificateRequest{Subject: subject("system:node:milan", "system:nodes", "system:masters"), IPAddresses: podIP}, serving}, true},
		"another address":             {asked{x509.CertificateRequest{Subject: good, IPAddresses: []net.IP{net.IPv4(10, 96, 0, 1)}}, serving}, true},
		"its address and another":     {asked{x509.CertificateRequest{Subject: good, IPAddresses: append(podIP, net.IPv4(10, 96, 0, 1))}, serving}, true},
		"another name":                {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP, DNSNames: []string{"kubernetes.default.svc"}}, serving}, true},
		"a URI":                       {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP, URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}, serving}, true},
		"a client certificate":        {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP}, append(serving, certificatesv1.UsageClientAuth)}, true},
		"no serving certificate":      {asked{x509.CertificateRequest{Subject: good, IPAddresses: podIP}, serving[:1]}, true},
		"a pod that is being deleted": {asked{x509.CertificateRequest{Subject: good, IPAddresses: []net.IP{net.IPv4(10, 244, 0, 8)}}, serving}, true},
	} {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: kubelet.request(t, &c.asked.request), Usages: c.asked.usages, SignerName: certificatesv1.KubeletServingSignerName,
			}}
			now := at(0)
			pods := []corev1.Pod{
				{Status: corev1.PodStatus{PodIP: "10.244.0.7"}},
				{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.PodStatus{PodIP: "10.244.0.8"}},
				{}, // not started
			}
			node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
			refuses(t, CheckServing(csr, node, pods), c.refused)
		})
	}
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: kubelet.request(t, &x509.CertificateRequest{Subject: good, IPAddresses: podIP}), Usages: serving,
	}}
	err := CheckServing(csr, &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, nil)
	if !errors.Is(err, ErrNotPodIP) {
		t.Errorf("an address that may become known is something to wait for: %v", err)
	}
}

func TestServingRequesters(t *testing.T) {
	for user, want := range map[string]string{
		"system:serviceaccount:liqo-tenant-milan:milan": "liqo-tenant-milan/milan",
		"system:serviceaccount:custom:milan":            "custom/milan",
		"system:node:rome-1":                            "",
		"admin":                                         "",
	} {
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Username: user, SignerName: certificatesv1.KubeletServingSignerName,
		}}
		namespace, name, ok := ServingRequester(csr)
		if got := namespace + "/" + name; ok != (want != "") || (ok && got != want) {
			t.Errorf("%s: %s %t, want %q", user, got, ok, want)
		}
		csr.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
		if _, _, ok := ServingRequester(csr); ok {
			t.Errorf("%s: a client certificate is not ours to approve", user)
		}
	}
}
