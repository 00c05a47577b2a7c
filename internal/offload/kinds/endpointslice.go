package kinds

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// EndpointSliceOptions holds the facts that the rules for EndpointSlices depend on.
type EndpointSliceOptions struct {
	CopyOptions
	// AtTarget reports whether a node is a virtual node of the provider that the copy is for.
	AtTarget func(node string) bool
	// Address maps a local endpoint address to its address in the provider's network. pod is the name of the endpoint's Pod, empty if it has none. An
	// empty result with an error means that the provider can't reach the address; without an error, that the mapping is not known yet. nil leaves
	// addresses unchanged.
	Address func(address, pod string) (string, error)
}

// EndpointSlice returns the copy of local, or nil and why it has none. problem reports endpoints that are left out, for the user. Endpoints that run
// in the provider are left out without a problem, since the EndpointSlices of the Service's copy contain them.
func EndpointSlice(local *discoveryv1.EndpointSlice, namespace string, o EndpointSliceOptions) (out *offloadingv1beta1.ShadowEndpointSlice, why string, problem error) {
	switch {
	case local.Labels[discoveryv1.LabelManagedBy] == offloadingv1beta1.EndpointSliceManager:
		return nil, "it is a reflected copy", nil
	case local.Labels[discoveryv1.LabelServiceName] == "":
		return nil, "it belongs to no service", nil
	case local.AddressType == discoveryv1.AddressTypeFQDN:
		return nil, "its addresses are names", nil
	}
	in := local.DeepCopy()
	meta := copyMetadata(resourceEndpointSlices, withoutTriggerTime(in), namespace, o.CopyOptions)
	meta.Labels[discoveryv1.LabelManagedBy] = offloadingv1beta1.EndpointSliceManager
	out = &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: meta, Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
		AddressType: in.AddressType, Ports: in.Ports,
	}}}
	t := &out.Spec.Template
	for _, e := range in.Endpoints {
		if e.NodeName != nil && o.AtTarget != nil && o.AtTarget(*e.NodeName) {
			continue
		}
		var err error
		if e.Addresses, err = o.addresses(&e); err != nil && problem == nil {
			problem = err
		}
		if len(e.Addresses) == 0 {
			continue
		}
		e.DeprecatedTopology = nil
		e.NodeName = &o.Origin
		if e.TargetRef != nil {
			e.TargetRef.Kind = offloadingv1beta1.RemoteKindPrefix + e.TargetRef.Kind
		}
		t.Endpoints = append(t.Endpoints, e)
	}
	// A slice whose endpoints all run in the provider, or can't be reached from it, adds nothing to the EndpointSlices of the Service there. An empty
	// slice is copied: it belongs to a Service without pods, and shows clients in the provider that there are no endpoints.
	if len(t.Endpoints) == 0 && len(in.Endpoints) > 0 {
		return nil, "none of its endpoints is for that cluster", problem
	}
	return out, "", problem
}

// withoutTriggerTime removes from a slice the annotation with a timestamp, which changes with every endpoint.
func withoutTriggerTime(local *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	delete(local.Annotations, "endpoints.kubernetes.io/last-change-trigger-time")
	return local
}

// addresses translates the addresses of an endpoint. Its error reports the first address that can't be reached.
func (o *EndpointSliceOptions) addresses(e *discoveryv1.Endpoint) ([]string, error) {
	if o.Address == nil {
		return e.Addresses, nil
	}
	pod := ""
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		pod = e.TargetRef.Name
	}
	var out []string
	var problem error
	for _, address := range e.Addresses {
		there, err := o.Address(address, pod)
		if err != nil && problem == nil {
			problem = fmt.Errorf("leaving out endpoint %s: %w", address, err)
		}
		if there != "" {
			out = append(out, there)
		}
	}
	return out, problem
}

// MergeEndpointSlice returns the object have with the metadata and spec of want, and the change that this needs.
func MergeEndpointSlice(have, want *offloadingv1beta1.ShadowEndpointSlice) (*offloadingv1beta1.ShadowEndpointSlice, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	out.Spec = *want.Spec.DeepCopy()
	if equality.Semantic.DeepEqual(out.ObjectMeta, have.ObjectMeta) && equality.Semantic.DeepEqual(out.Spec, have.Spec) {
		return have, Same
	}
	return out, Update
}
