package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OfferedResources bounds what is offered.
type OfferedResources struct {
	// Limits that all ResourceSlices of the consumer together do not exceed: 0, or less, shares nothing of a resource. What is not named is not limited.
	// +kubebuilder:validation:MaxProperties=64
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ResourceOfferSpec is what a provider has for one consumer.
type ResourceOfferSpec struct {
	// ClusterID of the consumer.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	ClusterID string `json:"clusterId"`
	// Resources that the consumer gets at most.
	Resources OfferedResources `json:"resources,omitempty"`
}

// ResourceOfferStatus tells whether the offer bounds anybody.
type ResourceOfferStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceOffer bounds what a consumer gets of this cluster by ResourceSlices of the default class. It is an upper bound: what is really free, and what
// other consumers get, may be a lower one. Of several for one consumer the lowest limit of each resource holds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=offer,categories=liqo
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.clusterId`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceOffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceOfferSpec   `json:"spec,omitempty"`
	Status ResourceOfferStatus `json:"status,omitempty"`
}

// ResourceOfferList is a list of ResourceOffers.
//
// +kubebuilder:object:root=true
type ResourceOfferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceOffer `json:"items"`
}
