package controllers

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/metrics"
)

// GatewayMetrics returns the metrics about the replicas of gateways, from the Deployments in c, which should be a cache.
func GatewayMetrics(c client.Reader, log logr.Logger) prometheus.Collector {
	return metrics.Computed(func(ctx context.Context, emit metrics.Emit) {
		deployments := &appsv1.DeploymentList{}
		if err := c.List(ctx, deployments, client.MatchingLabels{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway}); err != nil {
			log.Error(err, "Failed to compute the metrics about gateways")
			return
		}
		for i := range deployments.Items {
			d := &deployments.Items[i]
			wanted := int32(1) // the default of Kubernetes
			if d.Spec.Replicas != nil {
				wanted = *d.Spec.Replicas
			}
			cluster, gateway := d.Labels[api.LabelRemoteClusterID], d.Labels[networkingv1beta1.LabelGatewayName]
			emit(metrics.GatewayReplicas, float64(wanted), cluster, gateway)
			emit(metrics.GatewayAvailableReplicas, float64(d.Status.AvailableReplicas), cluster, gateway)
		}
	})
}
