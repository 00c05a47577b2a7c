package v1beta1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ManagedByShadowEndpointSlice is the value of LabelManagedBy on an EndpointSlice that belongs to a ShadowEndpointSlice.
	ManagedByShadowEndpointSlice = "shadowendpointslice"
	// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by (LabelManagedBy in k8s.io/api/discovery/v1) on
	// reflected EndpointSlices. So the provider's own controllers ignore them, and the provider does not reflect them to other clusters.
	EndpointSliceManager = "endpointslice.reflection.liqo.io"
	// RemoteKindPrefix precedes the kind in the target reference of a reflected endpoint, for example RemotePod, because the object exists
	// only in the consumer.
	RemoteKindPrefix = "Remote"
)

// Condition of a ShadowEndpointSlice, present only while the provider leaves out endpoints, and its reasons.
const (
	// EndpointsAccepted is the condition type. Its status is always False.
	EndpointsAccepted = "EndpointsAccepted"
	// ReasonAddressRefused means that an endpoint has an address that can't belong to the consumer.
	ReasonAddressRefused = "AddressRefused"
	// ReasonNoTranslation means that the provider has not yet mapped the ranges of the consumer's network.
	ReasonNoTranslation = "NoTranslation"
)

// EndpointSliceTemplate holds the reflected fields of an EndpointSlice.
type EndpointSliceTemplate struct {
	AddressType discoveryv1.AddressType `json:"addressType,omitempty"`
	// Endpoints lists the endpoints, with their addresses in the consumer's network.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
}

// ShadowEndpointSliceSpec describes the EndpointSlice that the provider keeps present.
type ShadowEndpointSliceSpec struct {
	Template EndpointSliceTemplate `json:"template,omitempty"`
}

// ShadowEndpointSliceStatus reports refused endpoints.
type ShadowEndpointSliceStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ShadowEndpointSlice makes the provider keep an EndpointSlice of the same name, with the addresses translated to the provider's network.
// Its endpoints are not ready while the consumer is unreachable.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=shes;sheps;seps,categories=liqo
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.metadata.labels.kubernetes\.io/service-name`
// +kubebuilder:printcolumn:name="Endpoints",type=string,JSONPath=`.spec.template.endpoints[*].addresses[0]`
// +kubebuilder:printcolumn:name="Refused",type=string,JSONPath=`.status.conditions[?(@.type=="EndpointsAccepted")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ShadowEndpointSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShadowEndpointSliceSpec   `json:"spec,omitempty"`
	Status ShadowEndpointSliceStatus `json:"status,omitempty"`
}

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
//
// +kubebuilder:object:root=true
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ShadowEndpointSlice `json:"items"`
}
