package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
)

// claims refuses claims in the namespaces of a consumer that exceed, together with its other claims, what all its namespaces may have. The ResourceQuota of each
// namespace limits that namespace only.
type claims struct {
	decoder admission.Decoder
	// live reads without a cache, so that a claim that was admitted just before counts.
	live client.Reader
	// total are the limits of all namespaces of a consumer together.
	total corev1.ResourceList
	// mu serializes the requests. Without it, many simultaneous requests would be decided before Kubernetes has counted any of them.
	mu sync.Mutex
}

// Handle responds to one admission request, which it allows or denies. The API server calls it for namespaces of consumers only.
func (h *claims) Handle(ctx context.Context, req admission.Request) admission.Response {
	claim, before := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	if err := h.decoder.Decode(req, claim); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the PersistentVolumeClaim: %w", err))
	}
	wanted := offload.ClaimUsage(&claim.Spec)
	if req.Operation == admissionv1.Update {
		if err := h.decoder.DecodeRaw(req.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the PersistentVolumeClaim before the change: %w", err))
		}
		wanted = offload.ClaimGrowth(&before.Spec, &claim.Spec)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	quotas, err := h.quotas(ctx, req.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := offload.ExceededTogether(h.total, quotas, wanted); err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
}

// quotas returns the ResourceQuotas of all remote namespaces of the consumer that has a namespace.
func (h *claims) quotas(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	ns := &corev1.Namespace{}
	if err := h.live.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	list := &corev1.ResourceQuotaList{}
	consumer := client.MatchingLabels{offload.LabelManagedBy: offload.ManagedBy, api.LabelRemoteClusterID: ns.Labels[api.LabelRemoteClusterID]}
	if err := h.live.List(ctx, list, consumer); err != nil {
		return nil, fmt.Errorf("listing the ResourceQuotas of cluster %s: %w", ns.Labels[api.LabelRemoteClusterID], err)
	}
	return slices.DeleteFunc(list.Items, func(q corev1.ResourceQuota) bool { return q.Name != offload.RemoteNamespaceQuota }), nil
}
