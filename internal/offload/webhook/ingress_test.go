package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/test/apitest"
)

// TestHostsOfConsumersOnAPIServer creates Ingresses with the groups and permissions of two consumers. The controller has the permissions of the chart.
func TestHostsOfConsumersOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	namespace(t, admin, "local", nil)
	consumers := map[string]client.Client{}
	for _, consumer := range []string{"rome", "turin"} {
		namespace(t, admin, "shop-"+consumer, map[string]string{api.LabelRemoteClusterID: consumer})
		ref, subjects := offload.RemoteNamespaceRights(consumer)
		if err := admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-" + consumer, Name: "rights"}, RoleRef: ref, Subjects: subjects}); err != nil {
			t.Fatal(err)
		}
		as := rest.CopyConfig(config)
		as.Impersonate = rest.ImpersonationConfig{UserName: pool, Groups: []string{consumer, "system:authenticated"}}
		consumers[consumer] = apitest.Client(t, as)
	}
	rome, turin := consumers["rome"], consumers["turin"]
	configuration := serveHosts(t, config)

	made := 0
	ingress := func(in string, hosts ...string) *networkingv1.Ingress {
		made++
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: fmt.Sprintf("web-%d", made)}}
		if consumer, remote := strings.CutPrefix(in, "shop-"); remote {
			i.Labels = map[string]string{api.LabelOrigin: consumer, api.LabelDestination: "milan"}
		}
		prefix := networkingv1.PathTypePrefix
		for _, host := range hosts {
			i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{PathType: &prefix, Path: fmt.Sprintf("/%d", made), Backend: backend()}},
			}}})
		}
		return i
	}
	create := func(c client.Client, obj client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("creating %s/%s: %v", obj.GetNamespace(), obj.GetName(), err)
		}
	}
	refused := func(what string, c client.Client, obj client.Object, says string) {
		t.Helper()
		apitest.Eventually(t, within, what+" to be refused", func() error {
			obj := obj.DeepCopyObject().(client.Object)
			err := c.Create(t.Context(), obj)
			switch {
			case err == nil:
				return errors.Join(errors.New("it was accepted"), client.IgnoreNotFound(admin.Delete(t.Context(), obj)))
			case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says):
				return fmt.Errorf("%w, want %q", err, says)
			}
			return nil
		})
	}
	withdrawn := func(what string, obj *networkingv1.Ingress, says string) {
		t.Helper()
		apitest.Eventually(t, within, what+" to be withdrawn", func() error {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), &networkingv1.Ingress{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it exists: %w", err)
			}
			var events corev1.EventList
			if err := admin.List(t.Context(), &events, client.InNamespace(obj.Namespace)); err != nil {
				return err
			}
			for _, event := range events.Items {
				if event.InvolvedObject.UID == obj.UID && event.Reason == reasons.IngressWithdrawn && strings.Contains(event.Message, says) {
					return nil
				}
			}
			return fmt.Errorf("no Event with %q among %d", says, len(events.Items))
		})
	}
	own := ingress("local", "shop.milan.example", "*.apps.milan.example")
	create(admin, own)
	refused("a host of the provider", rome, ingress("shop-rome", "shop.milan.example"), "host shop.milan.example is refused by the provider, because the provider itself serves it")

	free := ingress("shop-rome", "shop.rome.example")
	create(rome, free)
	create(rome, ingress("shop-rome", "shop.rome.example")) // another path of the same consumer
	refused("a host of another consumer", turin, ingress("shop-turin", "shop.rome.example"), "because another cluster that uses the provider serves it")
	certificate := ingress("shop-turin", "free.turin.example")
	certificate.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.rome.example"}}}
	rest := ingress("shop-turin", "free.turin.example")
	rest.Spec.DefaultBackend = new(backend())
	for what, row := range map[string]struct {
		obj  *networkingv1.Ingress
		says string
	}{
		"below a wildcard of the provider":   {ingress("shop-turin", "a.apps.milan.example"), "the provider itself serves *.apps.milan.example"},
		"above a host of the provider":       {ingress("shop-turin", "*.milan.example"), "the provider itself serves a host among them"},
		"above a host of another consumer":   {ingress("shop-turin", "*.rome.example"), "another cluster that uses the provider serves a host among them"},
		"all hosts":                          {ingress("shop-turin", ""), "a rule for all hosts or a default backend is refused"},
		"what no rule matches":               {rest, "a rule for all hosts or a default backend is refused"},
		"a certificate for a host of others": {certificate, "host shop.rome.example is refused"},
	} {
		if err := turin.Create(t.Context(), row.obj); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", what, err, row.says)
		}
	}
	changed := free.DeepCopy()
	changed.Spec.Rules[0].Host = "b.apps.milan.example"
	if err := rome.Patch(t.Context(), changed, client.MergeFrom(free)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "serves *.apps.milan.example") {
		t.Errorf("a host that is added: %v", err)
	}
	unlabelled := ingress("shop-rome", "shop.milan.example")
	unlabelled.Labels = nil
	refused("an Ingress in the name of the provider", rome, unlabelled, "belongs to cluster 'rome'") // as soon as the policy is in force

	// The provider's claim takes precedence although it is newer. An Ingress that does not overlap stays.
	stays := ingress("shop-turin", "other.turin.example")
	create(turin, stays)
	create(admin, ingress("local", "shop.rome.example"))
	withdrawn("a host that the provider serves later", free, "because the provider itself serves it")
	refused("the withdrawn Ingress", rome, ingress("shop-rome", "shop.rome.example"), "because the provider itself serves it")

	// Without the webhook, which may be unavailable, the older of two claims stays.
	if err := admin.Delete(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	older := ingress("shop-rome", "raced.example")
	create(rome, older)
	time.Sleep(1100 * time.Millisecond) // creation timestamps have seconds
	younger := ingress("shop-turin", "*.example", "more.turin.example")
	apitest.Eventually(t, within, "the webhook not to be called", func() error { return turin.Create(t.Context(), younger) })
	withdrawn("the younger claim", younger, "serves a host among them")

	// The Gateway API is installed later.
	routed := ingress("shop-rome", "routed.milan.example", "gate.milan.example")
	create(rome, routed)
	installGateways(t, admin)
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": map[string]any{"namespace": "local", "name": "gate"}, "spec": spec,
		}}
	}
	apitest.Eventually(t, within, "a route to be created", func() error {
		return admin.Create(t.Context(), object("HTTPRoute", map[string]any{"hostnames": []any{"routed.milan.example"}, "parentRefs": []any{map[string]any{"name": "gate"}}}))
	})
	withdrawn("a host of a route", routed, "host routed.milan.example is refused")
	gated := ingress("shop-rome", "gate.milan.example")
	create(rome, gated)
	create(admin, object("Gateway", map[string]any{"listeners": []any{map[string]any{"name": "web", "hostname": "gate.milan.example"}}}))
	withdrawn("a host of a Gateway", gated, "host gate.milan.example is refused")

	for _, obj := range []*networkingv1.Ingress{own, stays, older} {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), &networkingv1.Ingress{}); err != nil {
			t.Errorf("an Ingress that overlaps no other: %v", err)
		}
	}
}

func backend() networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

// serveHosts runs the webhook and the controller with the permissions of the controller manager, and returns the chart's configuration.
func serveHosts(t *testing.T, config *rest.Config) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	admin := apitest.Client(t, config)
	if err := admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-controller-manager"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager"}},
	}); err != nil {
		t.Fatal(err)
	}
	manager := rest.CopyConfig(config)
	manager.Impersonate = rest.ImpersonationConfig{UserName: "manager", Groups: []string{"system:authenticated"}}
	again := true // each run in the same process needs SkipNameValidation, since controller names must be unique
	mgr, err := ctrl.NewManager(manager, ctrl.Options{
		Scheme: kube.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: controllerconfig.Controller{SkipNameValidation: &again},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&networkingv1.Ingress{}: {Transform: kube.Reduced(KeepHosts)}}, DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := setupHosts(mgr)
	if err != nil {
		t.Fatal(err)
	}
	claimed.gateways.every = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager: %v", err)
		}
	})
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, object := range chart(t, values(), "ValidatingWebhookConfiguration") {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
			t.Fatal(err)
		}
	}
	configuration.Webhooks = slices.DeleteFunc(configuration.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return *w.ClientConfig.Service.Path == PathClaim
	})
	if len(configuration.Webhooks) != 1 || *configuration.Webhooks[0].ClientConfig.Service.Path != PathIngress {
		t.Fatalf("the chart has the validating webhooks %+v", configuration.Webhooks)
	}
	server := httptest.NewTLSServer(&admission.Webhook{Handler: ingresses{decoder: admission.NewDecoder(mgr.GetScheme()), claims: claimed.claims}})
	t.Cleanup(server.Close)
	configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{
		URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	if err := admin.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	return configuration
}

// installGateways creates definitions of the Gateway API without a schema.
func installGateways(t *testing.T, c client.Client) {
	t.Helper()
	anything := true
	for plural, kind := range map[string]string{"gateways": "Gateway", "httproutes": "HTTPRoute"} {
		definition := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{
				Name: plural + "." + gatewayGroup, Annotations: map[string]string{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"},
			},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: gatewayGroup, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}},
				}},
			},
		}
		if err := c.Create(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	}
}
