package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OfferedResources limits the offered resources.
type OfferedResources struct {
	// Limits is the maximum of each resource for all ResourceSlices of the consumer together. 0 or less shares none of the resource.
	// Resources that are not listed are not limited.
	// +kubebuilder:validation:MaxProperties=64
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ResourceOfferSpec describes the offer of a provider to one consumer.
type ResourceOfferSpec struct {
	// ClusterID is the cluster ID of the consumer.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	ClusterID string `json:"clusterId"`
	// Resources is the maximum that the consumer gets.
	Resources OfferedResources `json:"resources,omitempty"`
}

// ResourceOfferStatus reports whether the offer applies: "Ready" is true if the cluster is a consumer of this one.
type ResourceOfferStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceOffer limits the resources that a consumer gets from this cluster through ResourceSlices of the default class. The consumer may get
// less, depending on the free resources and the shares of other consumers. If a consumer has several ResourceOffers, the lowest limit of each
// resource applies.
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
