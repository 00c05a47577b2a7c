package webhook

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
)

// ingresses refuses Ingresses of consumers for hosts that this cluster or another consumer serves. A ValidatingAdmissionPolicy can't read other objects.
type ingresses struct {
	decoder admission.Decoder
	claims  func(context.Context) ([]offload.HostClaim, error)
}

// Handle responds to one admission request, which it allows or denies. The API server calls it for namespaces of consumers only. There, policy
// liqo-copies refuses Ingresses of the consumer without the label of their origin.
func (h ingresses) Handle(ctx context.Context, req admission.Request) admission.Response {
	ingress := &networkingv1.Ingress{}
	if err := h.decoder.Decode(req, ingress); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the Ingress: %w", err))
	}
	owner := ingress.Labels[api.LabelOrigin]
	if owner == "" {
		return admission.Allowed("the Ingress is not of a consumer")
	}
	var had *offload.HostClaim
	if req.Operation == admissionv1.Update {
		before := &networkingv1.Ingress{}
		if err := h.decoder.DecodeRaw(req.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the Ingress before the change: %w", err))
		}
		had = &offload.HostClaim{Hosts: offload.HostsOfIngress(&before.Spec)}
	}
	claims, err := h.claims(ctx)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if err := offload.RefuseHosts(&offload.HostClaim{Owner: owner, Hosts: offload.HostsOfIngress(&ingress.Spec)}, had, claims); err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
}
