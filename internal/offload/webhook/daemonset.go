package webhook

import (
	"context"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
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
