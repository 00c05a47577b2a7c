package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RenewSpec is a request to sign an identity once more.
type RenewSpec struct {
	// ConsumerClusterID of the cluster that asks.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ConsumerClusterID string       `json:"consumerClusterID,omitempty"`
	IdentityType      IdentityType `json:"identityType,omitempty"`
	// PublicKey is the PEM key of the certificate request.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the PEM certificate request.
	CSR []byte `json:"csr,omitempty"`
	// ResourceSliceRef is set when the identity belongs to a ResourceSlice.
	ResourceSliceRef *corev1.LocalObjectReference `json:"resourceSliceRef,omitempty"`
}

// RenewStatus is the provider's answer.
type RenewStatus struct {
	AuthParams *AuthParams `json:"authParams,omitempty"`
}

// Renew asks a provider to renew the certificate of an Identity; both have the same name.
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
