package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// announce emits an event about an action on an object.
func announce(to events.EventRecorder, about client.Object, reason, action, format string, args ...any) {
	to.Eventf(about, nil, corev1.EventTypeNormal, reason, action, format, args...)
}

// announceVerdicts emits an event for each condition of a ResourceSlice whose status changed.
func announceVerdicts(to events.EventRecorder, slice *authv1beta1.ResourceSlice, before []authv1beta1.ResourceSliceCondition) {
	for _, now := range slice.Status.Conditions {
		changed := true
		for _, then := range before {
			if then.Type == now.Type {
				changed = then.Status != now.Status
			}
		}
		if !changed {
			continue
		}
		kind := corev1.EventTypeNormal
		if now.Status == authv1beta1.ResourceSliceDenied {
			kind = corev1.EventTypeWarning
		}
		to.Eventf(slice, nil, kind, now.Reason, "Decide", "%s", now.Message)
	}
}

// refuse returns the error for a refused Tenant. It emits an event, unless the Tenant's condition already has this reason.
func refuse(to events.EventRecorder, tenant *authv1beta1.Tenant, reason string, err error) error {
	if condition := meta.FindStatusCondition(tenant.Status.Conditions, kube.ConditionReady); condition == nil || condition.Reason != reason {
		to.Eventf(tenant, nil, corev1.EventTypeWarning, reason, "Verify", "%v", err)
	}
	return kube.Invalid(reason, "%v", err)
}
