package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch

// pods patches the pods of offloaded namespaces so that the scheduler follows the namespace's offloading strategy.
type pods struct {
	cached, live client.Reader
	decoder      admission.Decoder
	runtimeClass string
}

// Handle responds to one admission request with the changes of offload.MutatePod.
func (h *pods) Handle(ctx context.Context, req admission.Request) admission.Response {
	offloading, err := h.offloading(ctx, req.Namespace)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading the NamespaceOffloading of namespace %s: %w", req.Namespace, err))
	case offloading == nil:
		return h.withoutOffloading(ctx, req.Namespace)
	case !offloading.DeletionTimestamp.IsZero():
		return admission.Allowed("the namespace is no longer offloaded")
	}
	pod := &corev1.Pod{}
	if err := h.decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the pod: %w", err))
	}
	return patched(pod, func() bool { return offload.MutatePod(pod, &offloading.Spec, h.runtimeClass) })
}

// patched responds with the changes that mutate makes to a pod, if it returns true.
func patched(pod *corev1.Pod, mutate func() bool) admission.Response {
	hadAffinity := pod.Spec.Affinity != nil
	hadTolerations := pod.Spec.Tolerations != nil
	tolerations := len(pod.Spec.Tolerations)
	if !mutate() {
		return admission.Allowed("")
	}
	// Only these two fields ever change. Explicit patches avoid a comparison of whole pods, and preserve fields that this version does not know.
	var patches []jsonpatch.Operation
	if len(pod.Spec.Tolerations) != tolerations {
		patches = append(patches, replace(hadTolerations, "/spec/tolerations", pod.Spec.Tolerations))
	}
	if pod.Spec.Affinity != nil {
		patches = append(patches, replace(hadAffinity, "/spec/affinity", pod.Spec.Affinity))
	}
	return admission.Patched("", patches...)
}

func replace(there bool, path string, value any) jsonpatch.Operation {
	operation := "add"
	if there {
		operation = "replace"
	}
	return jsonpatch.NewOperation(operation, path, value)
}

// withoutOffloading responds for a namespace that has the label of offloaded namespaces but no NamespaceOffloading. It rejects the pods until the
// NamespaceOffloading exists, so that none is scheduled before the strategy is known. A user sets the label early for this purpose.
func (h *pods) withoutOffloading(ctx context.Context, namespace string) admission.Response {
	ns := &corev1.Namespace{}
	if err := h.live.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading namespace %s: %w", namespace, err))
	}
	if ns.Labels[offloadingv1beta1.LabelSchedulingEnabled] != api.True {
		return admission.Allowed("the namespace is not offloaded") // no longer offloaded, and the API server has not observed the removed label yet
	}
	return admission.Denied(fmt.Sprintf("namespace %s is labelled %s=%s, and not offloaded yet: offload it (liqoctl offload namespace %s), or remove the label",
		namespace, offloadingv1beta1.LabelSchedulingEnabled, api.True, namespace))
}

// strays keeps pods that tolerate every NoExecute taint off virtual nodes. The API server calls it for such pods of namespaces that are not
// offloaded.
type strays struct {
	decoder      admission.Decoder
	runtimeClass string
}

// Handle responds to one admission request with the changes of offload.KeepLocal.
func (h strays) Handle(_ context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := h.decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the pod: %w", err))
	}
	return patched(pod, func() bool { return offload.KeepLocal(pod, h.runtimeClass) })
}

// offloading returns the NamespaceOffloading of a namespace, nil if there is none.
func (h *pods) offloading(ctx context.Context, namespace string) (*offloadingv1beta1.NamespaceOffloading, error) {
	o := &offloadingv1beta1.NamespaceOffloading{}
	key := client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}
	err := h.cached.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		// The API server calls this webhook only for namespaces with the label of offloaded namespaces, so the cache may lag behind.
		err = h.live.Get(ctx, key, o)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// shadowPods labels ShadowPods with the user that creates them; a policy of the chart prevents changes of the label.
//
// It also rejects ShadowPods with an invalid pod: the pod has no schema that the API server could validate, and one undecodable pod would break every
// client that lists ShadowPods. Finally, it rejects ShadowPods that exceed the creator's Quota.
type shadowPods struct {
	decoder admission.Decoder
	// quotas is nil if quotas are not enforced.
	quotas *quotas
}

// Handle responds to one admission request: it denies it, or sets the label of the creator.
func (h shadowPods) Handle(ctx context.Context, req admission.Request) admission.Response {
	shadow := &offloadingv1beta1.ShadowPod{}
	if err := h.decoder.Decode(req, shadow); err != nil {
		return admission.Errored(http.StatusUnprocessableEntity, fmt.Errorf("reading the ShadowPod: %w", err))
	}
	creator := offloadingv1beta1.CreatorLabel(req.UserInfo.Username)
	var before *offloadingv1beta1.ShadowPod
	if req.Operation == admissionv1.Update {
		before = &offloadingv1beta1.ShadowPod{}
		if err := h.decoder.DecodeRaw(req.OldObject, before); err != nil {
			return admission.Errored(http.StatusUnprocessableEntity, fmt.Errorf("reading the ShadowPod before the update: %w", err))
		}
		creator = before.Labels[offloadingv1beta1.LabelCreatorUser]
	}
	if h.quotas != nil {
		refused, err := h.quotas.refusal(ctx, types.NamespacedName{Namespace: req.Namespace, Name: shadow.Name}, creator, shadow, before)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		if refused != nil {
			return admission.Denied(fmt.Sprintf("ShadowPod %s/%s of user %s: %v", req.Namespace, shadow.Name, creator, refused))
		}
	}
	switch {
	case before != nil:
		return admission.Allowed("")
	case shadow.Labels == nil:
		return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{offloadingv1beta1.LabelCreatorUser: creator}))
	case shadow.Labels[offloadingv1beta1.LabelCreatorUser] == creator:
		return admission.Allowed("")
	}
	path := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(offloadingv1beta1.LabelCreatorUser)
	return admission.Patched("", jsonpatch.NewOperation("add", path, creator))
}
