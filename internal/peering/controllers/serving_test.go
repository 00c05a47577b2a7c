package controllers

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

// servingCertificatesOf asks for serving certificates as ServiceAccounts of rome. Which one is approved depends on who asks for what; that
// the others are not is known when a later one of the same requester was.
func servingCertificatesOf(t *testing.T, rome, milan *cluster) {
	t.Helper()
	node := &offloadingv1beta1.VirtualNode{
		ObjectMeta: rome.meta(milan, "milan"), Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: milan.id},
	}
	rome.create(t, node)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: node.Namespace, Name: "vk-milan",
			Labels: map[string]string{api.LabelVirtualNode: "milan", offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	rome.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: "default"}})
	rome.create(t, pod)
	defer rome.delete(t, pod)

	ask := func(account, name, nodeName, address string) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
			IPAddresses: []net.IP{net.ParseIP(address)},
		}, key)
		if err != nil {
			t.Fatal(err)
		}
		cfg := rest.CopyConfig(rome.config)
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: account, Groups: []string{"system:authenticated", "system:masters"}, // whoever may create requests
		}
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeletServingSignerName,
				Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}
		if err := apitest.Client(t, cfg).Create(t.Context(), csr); err != nil {
			t.Fatal(err)
		}
		return csr
	}
	const kubelet = "system:serviceaccount:liqo-tenant-milan:milan"
	refused := []*certificatesv1.CertificateSigningRequest{
		ask(kubelet, "real-node", "rome-1", "10.244.0.7"),
		ask(kubelet, "other-address", "milan", "10.96.0.1"),
		ask("system:serviceaccount:liqo-tenant-milan:other", "other-account", "milan", "10.244.0.7"),
		ask("system:serviceaccount:liqo-tenant-milan2:milan", "other-namespace", "milan", "10.244.0.7"),
		ask("system:serviceaccount:default:milan", "no-tenant", "milan", "10.244.0.7"),
	}
	good := ask(kubelet, "good", "milan", "10.244.0.7") // asked before the address of the pod is known
	pod.Status.PodIP, pod.Status.PodIPs = "10.244.0.7", []corev1.PodIP{{IP: "10.244.0.7"}}
	if err := rome.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, rome, good, "approved", func(csr *certificatesv1.CertificateSigningRequest) bool {
		approved, _ := verdict(csr)
		return approved
	})
	last := ask(kubelet, "last", "milan", "10.244.0.7")
	eventually(t, rome, last, "approved", func(csr *certificatesv1.CertificateSigningRequest) bool {
		approved, _ := verdict(csr)
		return approved
	})
	for _, csr := range refused {
		if err := rome.Get(t.Context(), keyOf(csr), csr); err != nil {
			t.Fatal(err)
		}
		if approved, _ := verdict(csr); approved {
			t.Errorf("%s was approved", csr.Name)
		}
	}
	// With the VirtualNode go the requests that were approved for it, and only they.
	rome.delete(t, node)
	rome.gone(t, good)
	rome.gone(t, last)
	for _, csr := range refused {
		if err := rome.Get(t.Context(), keyOf(csr), csr); err != nil {
			t.Errorf("%s, which was not approved here: %v", csr.Name, err)
		}
	}
}
