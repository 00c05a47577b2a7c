package controllers

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/metrics"
)

// QuotaMetrics returns the metrics of the Quotas in c, which should be a cache. used returns the resources that the Pods of a creator use; nil while
// that is not known.
func QuotaMetrics(c client.Reader, used func(creator string) corev1.ResourceList, log logr.Logger) prometheus.Collector {
	return metrics.Computed(func(ctx context.Context, emit metrics.Emit) {
		quotas := &offloadingv1beta1.QuotaList{}
		if err := c.List(ctx, quotas, client.UnsafeDisableDeepCopy); err != nil {
			log.Error(err, "Failed to compute the metrics about quotas")
			return
		}
		for i := range quotas.Items {
			quota := &quotas.Items[i]
			cluster, usage := quota.Labels[api.LabelRemoteClusterID], used(offloadingv1beta1.CreatorLabel(quota.Spec.User))
			for name, granted := range quota.Spec.Resources {
				emit(metrics.QuotaGranted, granted.AsApproximateFloat64(), cluster, quota.Name, string(name))
				if usage != nil {
					amount := usage[name]
					emit(metrics.QuotaUsed, amount.AsApproximateFloat64(), cluster, quota.Name, string(name))
				}
			}
		}
	})
}
