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

// protected returns which of the namespaces of NamespaceOffloadings are never offloaded, and why.
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

// becameTenant passes the namespaces that became tenant namespaces, or are none any more: the one label that decides whether they may be offloaded.
func becameTenant(e event.UpdateEvent) bool {
	return e.ObjectOld.GetLabels()[api.LabelTenantNamespace] != e.ObjectNew.GetLabels()[api.LabelTenantNamespace]
}

// becameTenantOrEnds passes those, and the namespaces that began to be deleted.
func becameTenantOrEnds(e event.UpdateEvent) bool {
	return becameTenant(e) || e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
}
