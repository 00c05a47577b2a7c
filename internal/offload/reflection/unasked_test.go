package reflection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// TestRemovedLoadBalancerAnnotationsAreReported: the user gets a warning if a copy can be reached in a way that the original forbids.
func TestRemovedLoadBalancerAnnotationsAreReported(t *testing.T) {
	o := kinds.CopyOptions{Origin: "rome", Destination: "milan", AnnotationsNotReflected: []string{
		"nginx.ingress.kubernetes.io/auth-*", "service.beta.kubernetes.io/*", "cloud.google.com/*",
	}}
	services := Services(1, func() kinds.ServiceOptions { return kinds.ServiceOptions{CopyOptions: o} })
	ingresses := Ingresses(1, func() kinds.IngressOptions { return kinds.IngressOptions{CopyOptions: o} })
	annotated := func(key string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{key: "x", "kubernetes.io/ingress.class": "ours", "note": "y"}}
	}
	service := func(of corev1.ServiceType, key string) client.Object {
		return &corev1.Service{ObjectMeta: annotated(key), Spec: corev1.ServiceSpec{Type: of}}
	}
	const internal = "service.beta.kubernetes.io/azure-load-balancer-internal"
	for name, c := range map[string]struct {
		kind  Kind
		local client.Object
		says  string
	}{
		"a password":        {ingresses, &networkingv1.Ingress{ObjectMeta: annotated("nginx.ingress.kubernetes.io/auth-url")}, "nginx.ingress.kubernetes.io/auth-url are"},
		"what is copied":    {ingresses, &networkingv1.Ingress{ObjectMeta: annotated("nginx.ingress.kubernetes.io/proxy-body-size")}, ""},
		"internal":          {services, service(corev1.ServiceTypeLoadBalancer, internal), internal + " are not copied"},
		"no load balancer":  {services, service(corev1.ServiceTypeClusterIP, internal), ""},
		"what a cloud says": {services, service(corev1.ServiceTypeLoadBalancer, "cloud.google.com/neg-status"), ""},
	} {
		step := c.kind.Next(Facts{
			Local: c.local, Remote: []client.Object{nil}, Mapping: offload.Mapping{State: offload.Mapped, Namespace: "shop-rome"}, RemoteSynced: true,
		})
		if step.Action != offload.CreateRemote || (step.Warning == "") != (c.says == "") || !strings.Contains(step.Warning, c.says) {
			t.Errorf("%s: %s, %q", name, step.Action, step.Warning)
		}
	}
}

// TestRefusedExternalNameIsReported: a name that means something else in the provider is not copied, and the user gets the reason.
func TestRefusedExternalNameIsReported(t *testing.T) {
	o := kinds.CopyOptions{Origin: "rome", Destination: "milan"}
	services := Services(1, func() kinds.ServiceOptions {
		return kinds.ServiceOptions{CopyOptions: o, RemoteNamespace: func(namespace string) (string, bool) { return namespace + "-rome", namespace == "db" }}
	})
	for name, c := range map[string]struct {
		action offload.Action
		says   string
	}{
		"store.db.svc.cluster.local":    {offload.CreateRemote, ""},
		"store.vault.svc.cluster.local": {offload.Nothing, "namespace vault is not offloaded"},
		"169.254.169.254":               {offload.Nothing, "it is an address"},
	} {
		local := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}}
		step := services.Next(Facts{
			Local: local, Remote: []client.Object{nil}, Mapping: offload.Mapping{State: offload.Mapped, Namespace: "shop-rome"}, RemoteSynced: true,
		})
		if step.Action != c.action || (step.Warning == "") != (c.says == "") || !strings.Contains(step.Warning, c.says) {
			t.Errorf("%s: %s, %q", name, step.Action, step.Warning)
		}
	}
}
