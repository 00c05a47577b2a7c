package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RenewSpec requests a new certificate for an Identity.
type RenewSpec struct {
	// ConsumerClusterID is the cluster ID of the consumer that requests the renewal.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ConsumerClusterID string       `json:"consumerClusterID,omitempty"`
	IdentityType      IdentityType `json:"identityType,omitempty"`
	// PublicKey is the public key of the certificate request, in PEM.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the certificate request, in PEM.
	CSR []byte `json:"csr,omitempty"`
	// ResourceSliceRef names the ResourceSlice that the Identity belongs to, if any.
	ResourceSliceRef *corev1.LocalObjectReference `json:"resourceSliceRef,omitempty"`
}

// RenewStatus is the response of the provider.
type RenewStatus struct {
	AuthParams *AuthParams `json:"authParams,omitempty"`
}

// Renew asks a provider to renew the certificate of an Identity. Both objects have the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=liqo
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Renew struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RenewSpec   `json:"spec,omitempty"`
	Status RenewStatus `json:"status,omitempty"`
}

// RenewList is a list of Renews.
//
// +kubebuilder:object:root=true
type RenewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Renew `json:"items"`
}
