package kinds

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// EndpointSliceOptions are the facts that decide what becomes of EndpointSlices.
type EndpointSliceOptions struct {
	CopyOptions
	// AtTarget tells whether a node stands for the cluster that the copy is for.
	AtTarget func(node string) bool
	// Address returns under which address the provider's network knows one of ours, of a Pod of that name (of no Pod if
	// the name is empty). An empty one with an error is not reachable from there; one without an error is not known yet. nil leaves
	// addresses as they are.
	Address func(address, pod string) (string, error)
}

// EndpointSlice returns the copy of local, nil if it has none and why, and what the user should know of endpoints that are left out. The
// endpoints in the target cluster are left out silently: the Service lists them there by itself.
func EndpointSlice(local *discoveryv1.EndpointSlice, namespace string, o EndpointSliceOptions) (out *offv1.ShadowEndpointSlice, why string, problem error) {
	switch {
	case local.Labels[discoveryv1.LabelManagedBy] == offv1.EndpointSliceManager:
		return nil, "it is a reflected one", nil
	case local.Labels[discoveryv1.LabelServiceName] == "":
		return nil, "it belongs to no service", nil
	case local.AddressType == discoveryv1.AddressTypeFQDN:
		return nil, "its addresses are names", nil
	}
	in := local.DeepCopy()
	meta := copyMetadata(resourceEndpointSlices, without1(in), namespace, o.CopyOptions)
	meta.Labels[discoveryv1.LabelManagedBy] = offv1.EndpointSliceManager
	out = &offv1.ShadowEndpointSlice{ObjectMeta: meta, Spec: offv1.ShadowEndpointSliceSpec{Template: offv1.EndpointSliceTemplate{
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
			e.TargetRef.Kind = offv1.RemoteKindPrefix + e.TargetRef.Kind
		}
		t.Endpoints = append(t.Endpoints, e)
	}
	// One whose endpoints are all in that cluster, or can't be reached from there, adds nothing to the slices that the Service has there. An empty one, that of
	// a Service without pods, tells clients there that the Service has none.
	if len(t.Endpoints) == 0 && len(in.Endpoints) > 0 {
		return nil, "none of its endpoints is for that cluster", problem
	}
	return out, "", problem
}

// without1 drops from a slice the annotation that changes with every endpoint and tells when.
func without1(local *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	delete(local.Annotations, "endpoints.kubernetes.io/last-change-trigger-time")
	return local
}

// addresses translates those of an endpoint.
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

// MergeEndpointSlice returns have with what want says.
func MergeEndpointSlice(have, want *offv1.ShadowEndpointSlice) (*offv1.ShadowEndpointSlice, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	out.Spec = *want.Spec.DeepCopy()
	if equality.Semantic.DeepEqual(out.ObjectMeta, have.ObjectMeta) && equality.Semantic.DeepEqual(out.Spec, have.Spec) {
		return have, Same
	}
	return out, Update
}
