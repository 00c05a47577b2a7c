package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AuthzPolicy determines how a consumer proves its identity.
// +kubebuilder:validation:Enum=KeysExchange;TolerateNoHandshake
type AuthzPolicy string

// Authorization policies.
const (
	// KeysExchange requires a signature of the provider's nonce.
	KeysExchange AuthzPolicy = "KeysExchange"
	// TolerateNoHandshake accepts a Tenant without signature: the provider trusts the user that created the Tenant.
	TolerateNoHandshake AuthzPolicy = "TolerateNoHandshake"
)

// TenantCondition limits what the provider grants: Cordoned grants no further resources, Drained also revokes the access of the consumer.
// +kubebuilder:validation:Enum=Active;Cordoned;Drained
type TenantCondition string

// Tenant conditions.
const (
	TenantActive   TenantCondition = "Active"
	TenantCordoned TenantCondition = "Cordoned"
	TenantDrained  TenantCondition = "Drained"
)

// Names, labels and keys of the Secrets of the handshake.
const (
	// LabelNonce marks the Secret that holds the provider's nonce.
	LabelNonce = "liqo.io/nonce"
	// LabelSignedNonce marks the Secret that holds the nonce signed by the consumer.
	LabelSignedNonce = "liqo.io/signed-nonce"
	// NonceSecret is the name of the Secret with the nonce, in the provider's tenant namespace.
	NonceSecret = "liqo-nonce"
	// SignedNonceSecret is the name of the Secret with the signed nonce, in the consumer's tenant namespace.
	SignedNonceSecret = "liqo-signed-nonce"
	// NonceKey is the key of the nonce in both Secrets.
	NonceKey = "nonce"
	// SignedNonceKey is the key of the signature in SignedNonceSecret.
	SignedNonceKey = "signedNonce"
	// KeysSecret is the name of the Secret with the key pair of the local cluster, in the namespace of the installation.
	KeysSecret = "authentication-keys"
	// PrivateKeyKey is the key of the PEM private key in KeysSecret.
	PrivateKeyKey = "privateKey"
	// PublicKeyKey is the key of the PEM public key in KeysSecret.
	PublicKeyKey = "publicKey"
)

// TenantSpec describes a consumer and its request for access.
type TenantSpec struct {
	// ClusterID is the cluster ID of the consumer.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule=`oldSelf == "" || self == oldSelf`,message="clusterID is immutable: create another Tenant for another cluster"
	ClusterID string `json:"clusterID,omitempty"`
	// PublicKey is the consumer's public key, in PEM.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the consumer's certificate request, in PEM.
	CSR []byte `json:"csr,omitempty"`
	// Signature is the signature of the provider's nonce with the consumer's private key.
	Signature []byte `json:"signature,omitempty"`
	// ProxyURL is the URL of a proxy through which the consumer must reach the API server, if any. Liqo copies it to every authParams
	// that it issues to the consumer.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// +kubebuilder:default=KeysExchange
	AuthzPolicy AuthzPolicy `json:"authzPolicy,omitempty"`
	// +kubebuilder:default=Active
	TenantCondition TenantCondition `json:"tenantCondition,omitempty"`
}

// TenantStatus is the access that the provider granted to the consumer.
type TenantStatus struct {
	AuthParams      *AuthParams `json:"authParams,omitempty"`
	TenantNamespace string      `json:"tenantNamespace,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Tenant represents a consumer of this provider.
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
