package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups="",resources=pods/ephemeralcontainers;pods/resize;pods/status,verbs=patch

// change applies changes of the specification to the Pod, part by part. If this cluster rejects a part, change reports that and retries it later; the
// Pod continues to run and the other parts are applied. In parts without changes, modifications by this cluster's admission stay.
func (r *shadowPods) change(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	pod := &corev1.Pod{}
	there, err := exists(ctx, r.live, pod, client.ObjectKeyFromObject(sp))
	if err != nil {
		return err
	}
	if !there || !offload.OwnedBy(pod, sp) {
		return kube.WaitFor(staleDelay, reasons.WaitingForCache, "pod %s/%s was replaced while it was read", sp.Namespace, sp.Name)
	}
	before, wanted := pod.Annotations[podrules.AnnotationSpec], sp.Annotations[podrules.AnnotationSpec]
	leftOut := map[string]string{} // for each part that was not applied, the recorded version to keep
	var problems []error
	sp.Status.Pod = nil
	refused := func(reason string, err error) {
		sp.Status.Pod = &corev1.PodStatus{Conditions: []corev1.PodCondition{podrules.ResizeRefused(reason, err.Error())}}
		if sp.Status.Phase == "" { // a recorded status needs a phase
			sp.Status.Phase = corev1.PodUnknown
		}
	}
	var full error // not part of problems: those need a quick retry, and a wait error joined with them would turn all of them into a wait
	for _, part := range podrules.SpecParts(&sp.Spec.Pod) {
		spec, differs := part.Over(&pod.Spec)
		if !differs || podrules.Noted(before, part.Field) == podrules.Noted(wanted, part.Field) {
			continue
		}
		resize := part.Subresource == podrules.SubresourceResize
		if resize {
			if full = r.quotas.grow(ctx, sp, &pod.Spec, spec); full != nil {
				leftOut[part.Field] = podrules.Noted(before, part.Field)
				refused(r.quotas.verdict(ctx, sp, spec), full)
				continue
			}
		}
		err := r.rewrite(ctx, pod, part.Subresource, func(pod *corev1.Pod) { pod.Spec = *spec })
		if resize {
			r.quotas.recordResize(sp, err)
		}
		switch {
		case apierrors.IsNotFound(err) && part.Subresource != "": // permanent: the API server does not have the subresource
			r.events.Eventf(sp, pod, corev1.EventTypeWarning, reasons.FailedUpdatePod, "Update "+part.Field,
				"%s of a pod can't be changed in the provider, whose API server does not serve pods/%s", part.Field, part.Subresource)
		case client.IgnoreNotFound(err) != nil:
			// Events with the same action are aggregated, with the message of any one of them.
			r.events.Eventf(sp, pod, corev1.EventTypeWarning, reasons.FailedUpdatePod, "Update "+part.Field, "failed to change %s of the pod: %v", part.Field, err)
			problems = append(problems, fmt.Errorf("changing %s of pod %s/%s: %w", part.Field, sp.Namespace, sp.Name, err))
			leftOut[part.Field] = ""
			if resize && refusedByServer(err) {
				refused(corev1.PodReasonInfeasible, err)
			}
			if refusedByServer(err) { // otherwise the change may have been applied and may have to be reverted
				leftOut[part.Field] = podrules.Noted(before, part.Field)
			}
		}
	}
	if noted := podrules.NotedBut(wanted, leftOut); noted != before {
		err := r.rewrite(ctx, pod, "", func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podrules.AnnotationSpec, noted) })
		if client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("recording the changes of pod %s/%s: %w", sp.Namespace, sp.Name, err))
		}
	}
	if full == nil {
		r.quotas.stopWaiting(client.ObjectKeyFromObject(sp))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return full
}

// rewrite patches a Pod through a subresource, or the Pod itself if subresource is empty.
func (r *shadowPods) rewrite(ctx context.Context, pod *corev1.Pod, subresource string, change func(*corev1.Pod)) error {
	with := pod.DeepCopy()
	change(with)
	patch := client.StrategicMergeFrom(pod) // contains only the changes, and leaves other list items unchanged
	if subresource == "" {
		return r.Patch(ctx, with, patch, client.FieldOwner(fieldOwner))
	}
	return r.SubResource(subresource).Patch(ctx, with, patch, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: fieldOwner}})
}

// gates sets the conditions of the readiness gates and leaves those of the kubelet unchanged.
func (r *shadowPods) gates(ctx context.Context, sp *offloadingv1beta1.ShadowPod, pod *corev1.Pod) error {
	conditions := offload.Gates(sp, pod)
	for i := range conditions {
		conditions[i].LastTransitionTime = r.now()
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("marshalling the readiness gates of pod %s/%s: %w", sp.Namespace, sp.Name, err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := r.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting the readiness gates of pod %s/%s: %w", sp.Namespace, sp.Name, err)
	}
	return nil
}
