package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// protected returns the namespaces of NamespaceOffloadings that are protected from offloading, each with the reason.
func (o *Options) protected(ctx context.Context, c client.Reader, offloadings []offloadingv1beta1.NamespaceOffloading) (map[string]string, error) {
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	labels := make(map[string]map[string]string, len(namespaces.Items))
	for i := range namespaces.Items {
		labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	policy := offload.ProtectedNamespaces{LiqoNamespace: o.LiqoNamespace, Patterns: o.ProtectedNamespaces}
	return policy.Protected(offloadings, func(namespace string) map[string]string { return labels[namespace] }), nil
}

// becameTenant accepts updates that add or remove the label of tenant namespaces. No other label decides whether a namespace is protected.
func becameTenant(e event.UpdateEvent) bool {
	return e.ObjectOld.GetLabels()[api.LabelTenantNamespace] != e.ObjectNew.GetLabels()[api.LabelTenantNamespace]
}

// becameTenantOrEnds accepts the same updates, and namespaces whose deletion starts.
func becameTenantOrEnds(e event.UpdateEvent) bool {
	return becameTenant(e) || e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
}
