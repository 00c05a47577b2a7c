package webhook

import (
	"context"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/internal/offload"
)

// daemonSets keeps the pods of DaemonSets off virtual nodes. The API server calls it for changes of templates that tolerate virtual nodes.
type daemonSets struct {
	decoder      admission.Decoder
	runtimeClass string
}

// Handle responds to one admission request. It may patch the node affinity of the pod template.
func (h daemonSets) Handle(_ context.Context, req admission.Request) admission.Response {
	set := &appsv1.DaemonSet{}
	if err := h.decoder.Decode(req, set); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the DaemonSet: %w", err))
	}
	had := set.Spec.Template.Spec.Affinity != nil
	if !offload.KeepOffVirtualNodes(set, h.runtimeClass) {
		return admission.Allowed("")
	}
	return admission.Patched("", []jsonpatch.Operation{replace(had, "/spec/template/spec/affinity", set.Spec.Template.Spec.Affinity)}...)
}

// daemonSetPods refuses pods of DaemonSets on virtual nodes. The API server calls it for pods that tolerate virtual nodes and do not exclude them.
type daemonSetPods struct {
	// live reads from the API server: the node may be newer than the cache.
	live         client.Reader
	decoder      admission.Decoder
	runtimeClass string
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// Handle responds to one admission request, which it allows or denies. If a node can't be read, it allows the pod with a warning, because the pod may be one that
// a real node needs to work.
func (h daemonSetPods) Handle(ctx context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := h.decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the pod: %w", err))
	}
	name := offload.NodeOfDaemonSetPod(pod)
	if name == "" {
		return admission.Allowed("")
	}
	node := &corev1.Node{}
	err := h.live.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Allowed("")
	case err != nil:
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether Node %s is virtual is unknown, the pod is admitted: %v", name, err))
	}
	if why := offload.RefuseDaemonSetPod(pod, node, h.runtimeClass); why != "" {
		return admission.Denied(why)
	}
	return admission.Allowed("")
}
