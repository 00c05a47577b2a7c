package controllers

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestMetricsCountNoDeploymentsOfUsers: a Deployment of a user with the labels of a gateway adds nothing to the metrics about gateways.
func TestMetricsCountNoDeploymentsOfUsers(t *testing.T) {
	metadata := func(namespace, cluster string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: networkingv1beta1.GatewayChild("milan"),
			Labels: map[string]string{
				networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: "milan", api.LabelRemoteClusterID: cluster,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "GatewayServer", Name: "milan", UID: "gateway", Controller: new(true)}},
		}
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		&networkingv1beta1.Connection{ObjectMeta: metadata("liqo-tenant-milan", "milan")}, &appsv1.Deployment{ObjectMeta: metadata("liqo-tenant-milan", "milan")},
		&appsv1.Deployment{ObjectMeta: metadata("team", "milan")}, &appsv1.Deployment{ObjectMeta: metadata("team-b", "naples")},
	).Build()
	registry := prometheus.NewPedanticRegistry() // fails if two series have the same labels
	registry.MustRegister(GatewayMetrics(c, c, logr.Discard()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if metrics := family.GetMetric(); len(metrics) != 1 || !strings.Contains(metrics[0].String(), `"milan"`) {
			t.Errorf("%s has the series %v, want that of milan alone", family.GetName(), metrics)
		}
	}
	if len(families) != 2 {
		t.Errorf("%d metrics, want 2", len(families))
	}
}
