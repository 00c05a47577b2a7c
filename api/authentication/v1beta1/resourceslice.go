package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSliceClassDefault is the class of the ResourceSlices that the provider's own controller manager answers.
const ResourceSliceClassDefault = "default"

const (
	// AnnotationCreateVirtualNode ("true" on a ResourceSlice) makes the consumer create a VirtualNode for it automatically.
	AnnotationCreateVirtualNode = "liqo.io/create-virtual-node"
	// AnnotationCordon ("true" on the provider's copy of a ResourceSlice, or on a Tenant) stops the provider from granting further resources.
	AnnotationCordon = "liqo.io/cordon"
	// AnnotationCordonTenant ("true" on the provider's copy of a ResourceSlice) is a cordon inherited from the Tenant. This version honors
	// it but never sets it.
	AnnotationCordonTenant = "liqo.io/cordon-tenant"
)

// SliceUserSuffix returns the suffix of the user names of a consumer's ResourceSlices: a hash of the consumer's cluster ID.
func SliceUserSuffix(consumer string) string {
	sum := sha256.Sum256([]byte(consumer))
	return "-" + hex.EncodeToString(sum[:])[:12]
}

// ResourceSliceConditionType is the part of the request to which a condition of a ResourceSlice is the answer.
// +kubebuilder:validation:Enum=Authentication;Resources
type ResourceSliceConditionType string

// ResourceSlice condition types.
const (
	ResourceSliceAuthentication ResourceSliceConditionType = "Authentication"
	ResourceSliceResources      ResourceSliceConditionType = "Resources"
)

// ResourceSliceConditionStatus is the provider's decision.
// +kubebuilder:validation:Enum=Accepted;Denied
type ResourceSliceConditionStatus string

// Decisions of the provider.
const (
	ResourceSliceAccepted ResourceSliceConditionStatus = "Accepted"
	ResourceSliceDenied   ResourceSliceConditionStatus = "Denied"
)

// Reasons of ResourceSlice conditions, and of the events about them.
const (
	ReasonAuthenticationAccepted = "ResourceSliceAuthenticationAccepted"
	ReasonAuthenticationDenied   = "ResourceSliceAuthenticationDenied"
	ReasonTooMany                = "TooManyResourceSlices"
	ReasonResourcesAccepted      = "ResourceSliceResourcesAccepted"
	ReasonResourcesDenied        = "ResourceSliceResourcesDenied"
	ReasonDefaultClassDisabled   = "DefaultResourceSliceClassDisabled"
)

// ResourceSliceCondition is one decision of the provider.
type ResourceSliceCondition struct {
	Type               ResourceSliceConditionType   `json:"type"`
	Status             ResourceSliceConditionStatus `json:"status"`
	LastTransitionTime metav1.Time                  `json:"lastTransitionTime,omitempty"`
	Reason             string                       `json:"reason,omitempty"`
	Message            string                       `json:"message,omitempty"`
}

// StorageType is a storage class that the provider offers.
type StorageType struct {
	StorageClassName string `json:"storageClassName"`
	Default          bool   `json:"default,omitempty"`
}

// IngressType is an ingress class that the provider offers.
type IngressType struct {
	IngressClassName string `json:"ingressClassName"`
	Default          bool   `json:"default,omitempty"`
}

// LoadBalancerType is a load balancer class that the provider offers.
type LoadBalancerType struct {
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	Default               bool   `json:"default,omitempty"`
}

// ResourceSliceSpec is the request of a consumer.
type ResourceSliceSpec struct {
	// ConsumerClusterID is the cluster ID of the consumer. The consumer's controller manager fills it in.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ConsumerClusterID string `json:"consumerClusterID,omitempty"`
	// ProviderClusterID is the cluster ID of the provider. The consumer's controller manager fills it in from the label liqo.io/remoteID.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ProviderClusterID string `json:"providerClusterID,omitempty"`
	// Resources lists the requested resources. The provider's defaults apply to resources that are not listed.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Class selects the controller that grants the resources. For "default" and an empty class, it is the provider's controller manager.
	// Class is immutable, because a controller can't withdraw resources that another controller granted.
	Class string `json:"class,omitempty"`
	// CSR is the certificate request in PEM. The consumer's controller manager fills it in.
	CSR []byte `json:"csr,omitempty"`
}

// ResourceSliceStatus is the response of the provider: the granted resources and the credentials.
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
	// InterruptedNodes are the provider's nodes that are about to be terminated or do not work. Providers report at most 10 of them.
	InterruptedNodes []InterruptedNode `json:"interruptedNodes,omitempty"`
}

// MaxInterruptedNodes is the maximum number of interrupted nodes that a provider reports. A provider with more of them reports the first ones in the
// order of their names.
const MaxInterruptedNodes = 10

// InterruptedNode is a node of a provider that accepts no more pods, because it is about to be terminated or does not work.
type InterruptedNode struct {
	// Name is the name of the node in the provider.
	Name string `json:"name"`
	// Cause is the provider's observation, for example the taint by which its cloud announces the termination of a spot instance.
	Cause string `json:"cause,omitempty"`
}

// ResourceSlice requests resources from a provider. The consumer creates it, and Liqo replicates it to the provider.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.spec) && has(self.spec.class) && self.spec.class != "" ? self.spec.class : "default") == (has(oldSelf.spec) && has(oldSelf.spec.class) && oldSelf.spec.class != "" ? oldSelf.spec.class : "default")`,message="spec.class is immutable: delete the ResourceSlice and create it again"
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
