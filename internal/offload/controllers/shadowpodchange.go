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
	"liqo.io/liqo/internal/offload/kinds"
)

// +kubebuilder:rbac:groups="",resources=pods/ephemeralcontainers;pods/resize;pods/status,verbs=patch

// change gives the Pod what changed of the specification. What this cluster refuses is told, with the Pod running on as it is.
func (r *shadowPods) change(ctx context.Context, sp *offloadingv1beta1.ShadowPod) error {
	pod := &corev1.Pod{}
	there, err := exists(ctx, r.live, pod, client.ObjectKeyFromObject(sp))
	if err != nil {
		return err
	}
	if !there || !offload.OwnedBy(pod, sp) {
		return kube.WaitFor(staleDelay, "Stale", "pod %s/%s is another one by now", sp.Namespace, sp.Name)
	}
	changes := offload.Changes(sp, pod)
	problems := []error{r.rewrite(ctx, sp, pod, changes.Spec, "images or deadline", "")}
	room := r.quotas.grow(ctx, sp, pod, changes.Resize)
	if room == nil {
		problems = append(problems, r.rewrite(ctx, sp, pod, changes.Resize, "resources", "resize"))
	}
	for i := range changes.Debug {
		with := pod.DeepCopy()
		with.Spec.EphemeralContainers = append(with.Spec.EphemeralContainers, changes.Debug[i])
		problems = append(problems, r.rewrite(ctx, sp, pod, with, "container "+changes.Debug[i].Name+" for debugging", "ephemeralcontainers"))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if room != nil {
		return room
	}
	noted := pod.DeepCopy()
	if noted.Annotations == nil {
		noted.Annotations = map[string]string{}
	}
	noted.Annotations[kinds.AnnotationSpec] = sp.Annotations[kinds.AnnotationSpec]
	return r.rewrite(ctx, sp, pod, noted, "annotations", "")
}

// rewrite turns a Pod into want, nil for as it is, through a subresource, or none if that is empty. Then want is what the API server answered.
func (r *shadowPods) rewrite(ctx context.Context, sp *offloadingv1beta1.ShadowPod, pod, want *corev1.Pod, what, subresource string) (err error) {
	if want == nil {
		return nil
	}
	patch := client.StrategicMergeFrom(pod) // names what is new, and leaves what stands beside it
	if subresource == "" {
		err = r.Patch(ctx, want, patch, client.FieldOwner(fieldOwner))
	} else {
		err = r.SubResource(subresource).Patch(ctx, want, patch, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: fieldOwner}})
	}
	switch {
	case apierrors.IsNotFound(err) && subresource != "":
		r.events.Eventf(sp, pod, corev1.EventTypeWarning, "FailedUpdatePod", "Update", "%s of a pod can't be changed in this cluster: its API server knows no pods/%s", what, subresource)
		return nil
	case client.IgnoreNotFound(err) != nil:
		r.events.Eventf(sp, pod, corev1.EventTypeWarning, "FailedUpdatePod", "Update", "changing %s of the pod: %v", what, err)
		return fmt.Errorf("changing %s of pod %s/%s: %w", what, sp.Namespace, sp.Name, err)
	}
	return nil
}

// gates sets conditions beside those of the kubelet.
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
