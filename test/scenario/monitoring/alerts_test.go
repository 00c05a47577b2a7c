package monitoring

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/test/browser"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// quotas: an alert fires while a consumer uses everything that it was granted.
func quotas(s *story.Story, o observers) {
	const ns = "quotas"
	milan := o.of(s, s.Milan)
	s.Step("a pod that takes all of rome's quota", func() {
		s.Offload(ns)
		granted := milan.number(`liqo_quota_granted{cluster_id="rome", resource="cpu"}`)
		pod := story.PodOn("milan", ns, "large", playground.TestServer)
		pod.Spec.NodeName = "milan" // bypasses the scheduler
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(960*granted), resource.DecimalSI)}
		s.Must(s.Rome.Create(s.Context(), pod))
		milan.fires(30*time.Second, "LiqoQuotaExhausted", map[string]string{"cluster_id": "rome", "resource": "cpu"})
		s.Must(s.Rome.Delete(s.Context(), pod))
		milan.resolves(30*time.Second, "LiqoQuotaExhausted")
	})
}

// partition: rome and milan are cut off from each other, a certificate is not renewed in time, and a gateway dies. The dashboard and the alerts show it.
func partition(s *story.Story, o observers) {
	rome, milan := o.of(s, s.Rome), o.of(s, s.Milan)
	both := []prometheus{rome, milan}
	toMilan := map[string]string{"cluster_id": "milan"}
	var page *browser.Page
	s.Step("open the dashboard", func() { page = openDashboard(s) })
	s.Step("cut rome off from milan: the dashboard shows it", func() {
		s.Must(s.Partition(s.Context(), s.Rome, s.Milan))
		s.Cleanup(func() { // for the case that the story ends early
			if s.Failed() {
				_ = s.Heal(context.WithoutCancel(s.Context()), s.Rome, s.Milan)
			}
		})
		took := page.Until(noticed, "the tunnel to be broken", browser.Shows("#peerings", "tunnel: Error")+` && document.querySelector('#topology .edge .line.fail')`)
		fmt.Printf("             after %.1f s\n", took.Seconds())
	})
	s.Step("a certificate is about to end", func() { ending(s) })
	s.Step("the alerts of a partition fire", func() {
		rome.fires(30*time.Second, "LiqoCertificateExpiring", map[string]string{"kind": "Identity", "object_name": "controlplane-milan"})
		rome.fires(30*time.Second, "LiqoTunnelDown", toMilan)
		milan.fires(30*time.Second, "LiqoTunnelDown", map[string]string{"cluster_id": "rome"})
		rome.fires(30*time.Second, "LiqoProviderUnreachable", toMilan)
	})
	s.Step("the gateway of rome dies, again and again, and its alert fires", func() {
		s.Eventually(30*time.Second, "LiqoGatewayReplicaLost to fire", func(ctx context.Context) error {
			kill(s)
			fires, all, err := rome.is(ctx, "LiqoGatewayReplicaLost", false, toMilan)
			if err == nil && !fires {
				err = fmt.Errorf("active alerts: %v", all)
			}
			return err
		})
	})
	s.Step("node milan is not Ready, and its alert fires", func() {
		rome.fires(60*time.Second, "LiqoVirtualNodeNotReady", toMilan)
	})
	s.Step("heal: all alerts resolve", func() {
		s.Must(s.Heal(s.Context(), s.Rome, s.Milan))
		for _, p := range both {
			for _, name := range []string{"LiqoProviderUnreachable", "LiqoTunnelDown", "LiqoGatewayReplicaLost", "LiqoVirtualNodeNotReady", "LiqoCertificateExpiring"} {
				p.resolves(time.Minute, name)
			}
		}
		page.Until(noticed, "the tunnel to be connected", connected)
		s.Renewed(s.Rome, "secrets liqo-tenant-milan/", "identities liqo-tenant-milan/")
		s.Renewed(s.Milan, "secrets liqo-tenant-rome/")
	})
}

// kill kills all processes of rome's gateway to milan.
func kill(s *story.Story) {
	s.Helper()
	var gateways corev1.PodList
	s.Must(s.Rome.List(s.Context(), &gateways, client.InNamespace(api.TenantNamespace("milan")), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway,
	}))
	for i := range gateways.Items {
		if pids, err := playground.Processes(&gateways.Items[i]); err == nil { // otherwise the pod has no running process
			s.Must(playground.Kill(pids...))
		}
	}
}

// ending replaces rome's certificate for milan by one of whose lifetime less than a quarter is left.
func ending(s *story.Story) {
	s.Helper()
	read := func(name string) []byte {
		text, err := s.Machine.Exec(s.Context(), s.Milan.Node(), "cat", "/etc/kubernetes/"+name)
		s.Must(err)
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			s.Must(errors.New(name + " is not PEM"))
		}
		return block.Bytes
	}
	authority, err := x509.ParseCertificate(read("ca.crt"))
	s.Must(err)
	signer, err := x509.ParsePKCS8PrivateKey(read("ca.key"))
	s.Must(err)
	var identity authv1beta1.Identity
	s.Must(s.Rome.Get(s.Context(), client.ObjectKey{Namespace: api.TenantNamespace("milan"), Name: "controlplane-milan"}, &identity))
	certificate, err := pki.First(identity.Spec.AuthParams.SignedCRT)
	s.Must(err)
	now := time.Now().Truncate(time.Second)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-40 * time.Minute), NotAfter: now.Add(10 * time.Minute),
		Subject:  pkix.Name{CommonName: certificate.Subject.CommonName, Organization: certificate.Subject.Organization},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority, certificate.PublicKey, signer)
	s.Must(err)
	before := identity.DeepCopy()
	identity.Spec.AuthParams.SignedCRT = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.Must(s.Rome.Patch(s.Context(), &identity, client.MergeFrom(before)))
}
