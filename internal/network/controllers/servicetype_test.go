package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestServiceTypeOfRequests: a request of this cluster may choose how its own gateway is reached. A peer's request may not: the installation decides.
func TestServiceTypeOfRequests(t *testing.T) {
	template := &networkingv1beta1.WgGatewayServerTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-system", Name: networkingv1beta1.ServerTemplateDefault},
		Spec:       networkingv1beta1.GatewayTemplateSpec{ServiceType: corev1.ServiceTypeNodePort},
	}
	for name, test := range map[string]struct {
		installed bool
		copied    bool
		asked     corev1.ServiceType
		want      corev1.ServiceType
	}{
		"own":                    {true, false, "", corev1.ServiceTypeNodePort},
		"own, with a choice":     {true, false, corev1.ServiceTypeClusterIP, corev1.ServiceTypeClusterIP},
		"a peer's":               {true, true, "", corev1.ServiceTypeNodePort},
		"a peer's, with a wish":  {true, true, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort},
		"there is no template":   {false, true, "", corev1.ServiceTypeLoadBalancer},
		"no template, but asked": {false, false, corev1.ServiceTypeNodePort, corev1.ServiceTypeNodePort},
	} {
		builder := fake.NewClientBuilder().WithScheme(kube.NewScheme())
		if test.installed {
			builder = builder.WithObjects(template.DeepCopy())
		}
		r := &networkRequests{Options: Options{LiqoNamespace: "liqo-system"}, client: builder.Build()}
		q := requestOf("milan", test.copied)
		q.Spec.ServiceType = test.asked
		if got, err := r.serviceType(t.Context(), q); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}

// TestServiceTypeFollowsTheRequest: a changed spec.serviceType of this cluster's request reaches the GatewayServer that exists. The type that an
// administrator chose in the GatewayServer stays until then, and a peer's request changes nothing.
func TestServiceTypeFollowsTheRequest(t *testing.T) {
	own, peers := requestOf("milan", false), requestOf("milan", true)
	own.Spec.Server, own.Spec.ServiceType = networkingv1beta1.ServerAtConsumer, corev1.ServiceTypeLoadBalancer
	c, sync, _ := reconciledRequests(t, own, peers)
	server := &networkingv1beta1.GatewayServer{}
	is := func(want corev1.ServiceType) {
		t.Helper()
		_, _ = sync(own), sync(peers)
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: own.Namespace, Name: "milan"}, server); err != nil {
			t.Fatal(err)
		}
		if got := server.Spec.Endpoint.ServiceType; got != want {
			t.Errorf("the type is %s, want %s", got, want)
		}
	}
	request := func(q *networkingv1beta1.NetworkRequest, of corev1.ServiceType) {
		q.Spec.ServiceType = of
		if err := c.Update(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	is(corev1.ServiceTypeLoadBalancer)
	request(own, corev1.ServiceTypeNodePort)
	is(corev1.ServiceTypeNodePort)
	server.Spec.Endpoint.ServiceType = corev1.ServiceTypeClusterIP
	if err := c.Update(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	is(corev1.ServiceTypeClusterIP)
	request(peers, corev1.ServiceTypeLoadBalancer)
	is(corev1.ServiceTypeClusterIP)
	request(own, corev1.ServiceTypeLoadBalancer)
	is(corev1.ServiceTypeLoadBalancer)
	request(own, "")
	is(corev1.ServiceTypeLoadBalancer)
}
