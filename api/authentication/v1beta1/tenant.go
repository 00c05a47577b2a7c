package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AuthzPolicy is how a Tenant proves to be who it says.
// +kubebuilder:validation:Enum=KeysExchange;TolerateNoHandshake
type AuthzPolicy string

// Authorization policies.
const (
	// KeysExchange asks for a signature over the nonce of this cluster.
	KeysExchange AuthzPolicy = "KeysExchange"
	// TolerateNoHandshake accepts a Tenant without signature: whoever wrote it vouches for it.
	TolerateNoHandshake AuthzPolicy = "TolerateNoHandshake"
)

// TenantCondition is what the provider still grants.
// +kubebuilder:validation:Enum=Active;Cordoned;Drained
type TenantCondition string

// Tenant conditions.
const (
	TenantActive   TenantCondition = "Active"
	TenantCordoned TenantCondition = "Cordoned"
	TenantDrained  TenantCondition = "Drained"
)

// Names of the Secrets of the handshake.
const (
	// LabelNonce marks the Secret that holds the provider's nonce.
	LabelNonce = "liqo.io/nonce"
	// LabelSignedNonce marks the Secret that holds the nonce signed by the consumer.
	LabelSignedNonce = "liqo.io/signed-nonce"
	// NonceSecret is the name of the former, in the provider's tenant namespace.
	NonceSecret = "liqo-nonce"
	// SignedNonceSecret is the name of the latter, in the consumer's tenant namespace.
	SignedNonceSecret = "liqo-signed-nonce"
	// NonceKey is the key of the nonce in both.
	NonceKey = "nonce"
	// SignedNonceKey is the key of the signature.
	SignedNonceKey = "signedNonce"
	// KeysSecret holds the key pair of this cluster, in the namespace of the installation.
	KeysSecret = "authentication-keys"
	// PrivateKeyKey is the key of the PEM private key in KeysSecret.
	PrivateKeyKey = "privateKey"
	// PublicKeyKey is the key of the PEM public key in KeysSecret.
	PublicKeyKey = "publicKey"
)

// TenantSpec is a consumer as the provider admits it.
type TenantSpec struct {
	// ClusterID of the consumer.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule=`oldSelf == "" || self == oldSelf`,message="clusterID is immutable: create another Tenant for another cluster"
	ClusterID string `json:"clusterID,omitempty"`
	// PublicKey is the consumer's PEM public key.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the consumer's PEM certificate request.
	CSR []byte `json:"csr,omitempty"`
	// Signature of the provider's nonce by the consumer's key.
	Signature []byte `json:"signature,omitempty"`
	// ProxyURL is put into the identity when the API server is reached through a proxy.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// +kubebuilder:default=KeysExchange
	AuthzPolicy AuthzPolicy `json:"authzPolicy,omitempty"`
	// +kubebuilder:default=Active
	TenantCondition TenantCondition `json:"tenantCondition,omitempty"`
}

// TenantStatus is what the consumer was granted.
type TenantStatus struct {
	AuthParams      *AuthParams `json:"authParams,omitempty"`
	TenantNamespace string      `json:"tenantNamespace,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Tenant is a consumer admitted by this provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tn,categories=liqo
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.spec.tenantCondition`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TenantSpec   `json:"spec,omitempty"`
	Status TenantStatus `json:"status,omitempty"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tenant `json:"items"`
}
