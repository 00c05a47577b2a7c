package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PublicKeySpec holds the key.
type PublicKeySpec struct {
	// PublicKey is the WireGuard public key of the peer's gateway, 32 bytes.
	PublicKey []byte `json:"publicKey,omitempty"`
}

// PublicKey holds the public key of a peer's gateway. Its name is the peer's cluster ID, and it has the label
// networking.liqo.io/gateway-resource=true.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=publickeies,singular=publickey,shortName=pk;pkies;pkey,categories=liqo
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.metadata.labels.liqo\.io/remote-cluster-id`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PublicKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PublicKeySpec `json:"spec,omitempty"`
}

// PublicKeyList is a list of PublicKeys.
//
// +kubebuilder:object:root=true
type PublicKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PublicKey `json:"items"`
}
