package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/reasons"
)

// translationRetry is the requeue delay while the address of the consumer's API server is unknown. Configurations seldom change.
const translationRetry = 2 * time.Second

// setOriginAPIServer sets, in a Pod to be created, the address under which this cluster sees the consumer's API server.
func (r *shadowPods) setOriginAPIServer(ctx context.Context, sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) error {
	if r.addresses == nil || !offload.UsesOriginAPIServer(pod) {
		return nil
	}
	translate, waiting, err := r.addresses.Translation(ctx, r.Client, sp.Labels[api.LabelOrigin])
	switch {
	case err != nil:
		return fmt.Errorf("preparing the translation of addresses of the consumer of pod %s/%s: %w", sp.Namespace, sp.Name, err)
	case waiting != "":
		return kube.WaitFor(translationRetry, offloadingv1beta1.ReasonNoTranslation, "%s", waiting)
	case translate == nil:
		return nil
	}
	if err := offload.SetOriginAPIServer(pod, translate); err != nil {
		r.events.Eventf(sp, nil, corev1.EventTypeWarning, reasons.FailedCreatePod, "Create", "%v", err)
		// Retry, because the Configuration may only lag behind.
		return kube.WaitFor(foreignRetry, offloadingv1beta1.ReasonAddressRefused, "%v", err)
	}
	return nil
}
