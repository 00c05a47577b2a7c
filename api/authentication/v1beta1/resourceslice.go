package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSliceClassDefault is the class that the provider's controller manager answers itself.
const ResourceSliceClassDefault = "default"

const (
	// AnnotationCreateVirtualNode ("true" on a ResourceSlice) makes the consumer turn it into a VirtualNode by itself.
	AnnotationCreateVirtualNode = "liqo.io/create-virtual-node"
	// AnnotationCordon ("true" on the provider's copy of a ResourceSlice or on a Tenant) refuses further resources.
	AnnotationCordon = "liqo.io/cordon"
	// AnnotationCordonTenant ("true" on the provider's copy) is the cordon inherited from the Tenant.
	AnnotationCordonTenant = "liqo.io/cordon-tenant"
)

// ResourceSliceConditionType is what a condition of a ResourceSlice speaks about.
// +kubebuilder:validation:Enum=Authentication;Resources
type ResourceSliceConditionType string

// ResourceSlice condition types.
const (
	ResourceSliceAuthentication ResourceSliceConditionType = "Authentication"
	ResourceSliceResources      ResourceSliceConditionType = "Resources"
)

// ResourceSliceConditionStatus is the provider's verdict.
// +kubebuilder:validation:Enum=Accepted;Denied
type ResourceSliceConditionStatus string

// ResourceSlice verdicts.
const (
	ResourceSliceAccepted ResourceSliceConditionStatus = "Accepted"
	ResourceSliceDenied   ResourceSliceConditionStatus = "Denied"
)

// Reasons of ResourceSlice conditions; also the reasons of the events that announce them.
const (
	ReasonAuthenticationAccepted = "ResourceSliceAuthenticationAccepted"
	ReasonAuthenticationDenied   = "ResourceSliceAuthenticationDenied"
	ReasonTooMany                = "TooManyResourceSlices"
	ReasonResourcesAccepted      = "ResourceSliceResourcesAccepted"
	ReasonResourcesDenied        = "ResourceSliceResourcesDenied"
	ReasonDefaultClassDisabled   = "DefaultResourceSliceClassDisabled"
)

// ResourceSliceCondition is one verdict of the provider.
type ResourceSliceCondition struct {
	Type               ResourceSliceConditionType   `json:"type"`
	Status             ResourceSliceConditionStatus `json:"status"`
	LastTransitionTime metav1.Time                  `json:"lastTransitionTime,omitempty"`
	Reason             string                       `json:"reason,omitempty"`
	Message            string                       `json:"message,omitempty"`
}

// StorageType is a storage class the provider offers.
type StorageType struct {
	StorageClassName string `json:"storageClassName"`
	Default          bool   `json:"default,omitempty"`
}

// IngressType is an ingress class the provider offers.
type IngressType struct {
	IngressClassName string `json:"ingressClassName"`
	Default          bool   `json:"default,omitempty"`
}

// LoadBalancerType is a load-balancer class the provider offers.
type LoadBalancerType struct {
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	Default               bool   `json:"default,omitempty"`
}

// ResourceSliceSpec is what a consumer asks for.
type ResourceSliceSpec struct {
	// ConsumerClusterID is filled by the consumer's controller manager.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ConsumerClusterID string `json:"consumerClusterID,omitempty"`
	// ProviderClusterID is filled by the consumer's controller manager from the label liqo.io/remoteID.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ProviderClusterID string `json:"providerClusterID,omitempty"`
	// Resources asked for; those not named get the provider's defaults.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Class decides who answers; empty and "default" are answered by the provider's controller manager.
	Class string `json:"class,omitempty"`
	// CSR is the PEM certificate request, filled by the consumer's controller manager.
	CSR []byte `json:"csr,omitempty"`
}

// ResourceSliceStatus is what the provider grants.
type ResourceSliceStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions          []ResourceSliceCondition `json:"conditions,omitempty"`
	Resources           corev1.ResourceList      `json:"resources,omitempty"`
	StorageClasses      []StorageType            `json:"storageClasses,omitempty"`
	IngressClasses      []IngressType            `json:"ingressClasses,omitempty"`
	LoadBalancerClasses []LoadBalancerType       `json:"loadBalancerClasses,omitempty"`
	NodeLabels          map[string]string        `json:"nodeLabels,omitempty"`
	NodeSelector        map[string]string        `json:"nodeSelector,omitempty"`
	AuthParams          *AuthParams              `json:"authParams,omitempty"`
}

// ResourceSlice asks a provider for resources; it lives in the consumer and is replicated to the provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rslice,categories=liqo
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.status.conditions[?(@.type=="Authentication")].status`
// +kubebuilder:printcolumn:name="Resources",type=string,JSONPath=`.status.conditions[?(@.type=="Resources")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceSliceSpec   `json:"spec,omitempty"`
	Status ResourceSliceStatus `json:"status,omitempty"`
}

// ResourceSliceList is a list of ResourceSlices.
//
// +kubebuilder:object:root=true
type ResourceSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceSlice `json:"items"`
}
