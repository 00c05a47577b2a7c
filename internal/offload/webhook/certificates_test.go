package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/apitest"
)

// TestCertificatesOnAPIServer follows the certificate through its lifetime: created, trusted, served, repaired and replaced without a restart.
func TestCertificatesOnAPIServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	config := apitest.APIServer(t)
	c := apitest.Client(t, config)
	namespace(t, c, "liqo", nil)
	for _, configuration := range chart(t, values(), "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration") {
		if err := c.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
	}
	var ahead atomic.Int64
	again := true // each run in the same process needs SkipNameValidation, since controller names must be unique
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: controllerconfig.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	if err := Setup(mgr, Options{
		Namespace: "liqo", Service: "liqo-controller-manager-webhook", Port: port,
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	})

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-webhook-certs"}}
	// trusted waits until Secret, configuration and server agree on a certificate other than before, and returns it.
	trusted := func(what string, before []byte) []byte {
		t.Helper()
		apitest.Eventually(t, within, what, func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			if bytes.Equal(secret.Data["tls.crt"], before) {
				return errors.New("the certificate is the one of before")
			}
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-webhook"}, configuration); err != nil {
				return err
			}
			if len(configuration.Webhooks) != 5 {
				return fmt.Errorf("%d webhooks", len(configuration.Webhooks))
			}
			validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-webhook"}, validating); err != nil {
				return err
			}
			for _, w := range validating.Webhooks {
				if !bytes.Equal(w.ClientConfig.CABundle, secret.Data["ca"]) {
					return fmt.Errorf("webhook %s has another CA", w.Name)
				}
			}
			roots := x509.NewCertPool()
			for _, w := range configuration.Webhooks {
				if !bytes.Equal(w.ClientConfig.CABundle, secret.Data["ca"]) {
					return fmt.Errorf("webhook %s has another CA", w.Name)
				}
				roots.AppendCertsFromPEM(w.ClientConfig.CABundle)
			}
			conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{
				RootCAs: roots, ServerName: "liqo-controller-manager-webhook.liqo.svc", MinVersion: tls.VersionTLS12,
				Time: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			})
			if err != nil {
				return err
			}
			defer conn.Close()
			if block, _ := pem.Decode(secret.Data["tls.crt"]); block == nil || !bytes.Equal(block.Bytes, conn.ConnectionState().PeerCertificates[0].Raw) {
				return errors.New("another certificate is served")
			}
			return nil
		})
		return secret.Data["tls.crt"]
	}
	first := trusted("the first certificate", nil)
	if secret.Labels["liqo.io/webhook"] != "true" || secret.Annotations["liqo.io/webhook-service-name"] != "liqo-controller-manager-webhook" {
		t.Errorf("labels %v, annotations %v", secret.Labels, secret.Annotations)
	}

	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "liqo-webhook"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration); err != nil {
		t.Fatal(err)
	}
	configuration.Webhooks[0].ClientConfig.CABundle = nil // as a restored manifest has it
	if err := c.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	trusted("the CA to be put back", nil)
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "liqo-webhook"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(validating), validating); err != nil {
		t.Fatal(err)
	}
	validating.Webhooks[0].ClientConfig.CABundle = nil
	if err := c.Update(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
	trusted("the CA of the validating webhook to be put back", nil)

	secret.Data["tls.key"] = []byte("broken")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	second := trusted("a certificate in place of the broken one", first)
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	third := trusted("a certificate in place of the lost one", second)

	ahead.Store(int64(lifetime - renewBefore + time.Hour))
	// This replaces the timer of many months. A pending reconcile sees the new time too, and may have replaced the certificate already.
	if err := c.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))); err != nil {
		t.Fatal(err)
	}
	trusted("a younger certificate", third)
	if n := count(t, secret.Data["ca"]); n != 2 {
		t.Errorf("%d CAs are trusted, want 2: the new one and that of the certificate before", n)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
