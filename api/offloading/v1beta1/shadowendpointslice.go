package v1beta1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ManagedByShadowEndpointSlice is the value of LabelManagedBy on an EndpointSlice that belongs to a ShadowEndpointSlice.
	ManagedByShadowEndpointSlice = "shadowendpointslice"
	// EndpointSliceManager is the value of discovery.k8s.io's LabelManagedBy on reflected EndpointSlices, so that the controllers of the
	// provider leave them alone, and so that they are not reflected further.
	EndpointSliceManager = "endpointslice.reflection.liqo.io"
	// RemoteKindPrefix precedes the kind of what an endpoint refers to, since that object is in the other cluster: RemotePod.
	RemoteKindPrefix = "Remote"
)

// Condition of a ShadowEndpointSlice, present only while something is wrong.
const (
	// EndpointsAccepted is False while the provider leaves out endpoints, with one of the reasons below.
	EndpointsAccepted = "EndpointsAccepted"
	// ReasonAddressRefused says that an address is not one of the consumer's.
	ReasonAddressRefused = "AddressRefused"
	// ReasonNoTranslation says that it is not known where the consumer appears here.
	ReasonNoTranslation = "NoTranslation"
)

// EndpointSliceTemplate is what of an EndpointSlice crosses.
type EndpointSliceTemplate struct {
	AddressType discoveryv1.AddressType `json:"addressType,omitempty"`
	// Endpoints, with addresses as the consumer's network knows them.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// +listType=atomic
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
}

// ShadowEndpointSliceSpec holds the EndpointSlice to keep present.
type ShadowEndpointSliceSpec struct {
	Template EndpointSliceTemplate `json:"template,omitempty"`
}

// ShadowEndpointSliceStatus tells what was refused.
type ShadowEndpointSliceStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ShadowEndpointSlice keeps an EndpointSlice of the same name present in the provider, with addresses as the provider's network knows them.
// Its endpoints are not ready while the consumer can't be reached.
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
