package controllers

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/network/gatewaypod"
)

// GatewayMetrics returns the metrics about the replicas of gateways, from the Connections in c and the Deployments in around. Both should be caches.
func GatewayMetrics(c, around client.Reader, log logr.Logger) prometheus.Collector {
	return metrics.Computed(func(ctx context.Context, emit metrics.Emit) {
		connections, deployments := &networkingv1beta1.ConnectionList{}, &appsv1.DeploymentList{}
		err := errors.Join(c.List(ctx, connections),
			around.List(ctx, deployments, client.MatchingLabels{networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway}))
		if err != nil {
			log.Error(err, "Failed to compute the metrics about gateways")
			return
		}
		for i := range deployments.Items {
			d := &deployments.Items[i]
			cluster, gateway := gatewaypod.PeerOfGateway(d, connections.Items), d.Labels[networkingv1beta1.LabelGatewayName]
			if cluster == "" {
				continue // a Deployment of a user with the labels of a gateway
			}
			wanted := int32(1) // the default of Kubernetes
			if d.Spec.Replicas != nil {
				wanted = *d.Spec.Replicas
			}
			emit(metrics.GatewayReplicas, float64(wanted), cluster, gateway)
			emit(metrics.GatewayAvailableReplicas, float64(d.Status.AvailableReplicas), cluster, gateway)
		}
	})
}
