package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AwsConfig holds an access key of an IAM user that a provider on EKS maps to the consumer. Providers of this version grant a token instead.
type AwsConfig struct {
	// AwsAccessKeyID is the ID of the access key.
	AwsAccessKeyID string `json:"awsAccessKeyID"`
	// AwsSecretAccessKey is the secret access key, in the clear.
	AwsSecretAccessKey string `json:"awsSecretAccessKey"`
	// AwsRegion is the region of the EKS cluster.
	AwsRegion string `json:"awsRegion"`
	// AwsClusterName is the name of the EKS cluster.
	AwsClusterName string `json:"awsClusterName"`
	// AwsUserArn is the ARN of the IAM user.
	AwsUserArn string `json:"awsUserArn"`
}

// SealedToken is a token of a ServiceAccount in the provider that only the holder of the consumer's private key can read.
type SealedToken struct {
	// Sealed is the token, encrypted to the consumer's public key (age-encryption.org/v1).
	Sealed []byte `json:"sealed"`
	// User and Group are the user and the group that the consumer impersonates with the token. The ServiceAccount of the token may impersonate them
	// and has no other right.
	User  string `json:"user"`
	Group string `json:"group,omitempty"`
	// Holder is the SHA-256 of the consumer's public key (PKIX, hexadecimal).
	Holder string `json:"holder"`
	// ServiceAccountUID is the UID of the ServiceAccount. The token is invalid once this ServiceAccount is deleted.
	ServiceAccountUID types.UID `json:"serviceAccountUID"`
	// IssuedAt and ExpiresAt bound the validity period of the token. Liqo replaces the token after two thirds of this period.
	IssuedAt  metav1.Time `json:"issuedAt"`
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// AuthParams holds the address of a provider's API server and the credentials for it.
type AuthParams struct {
	// CA is the PEM bundle of CA certificates for the provider's API server. It is empty if the server's certificate is publicly trusted.
	CA []byte `json:"ca,omitempty"`
	// SignedCRT is the client certificate in PEM that the provider issued for the consumer's certificate request.
	SignedCRT []byte `json:"signedCRT,omitempty"`
	// Token replaces the certificate if the provider's cluster signs no certificates for users. EKS is such a cluster.
	Token *SealedToken `json:"token,omitempty"`
	// APIServer is the URL of the provider's API server.
	APIServer string `json:"apiServer,omitempty"`
	// ProxyURL is the URL (http, https or socks5) of a proxy through which the consumer reaches the API server, if any.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// AwsConfig replaces the certificate if the provider is an EKS cluster that maps an IAM user to the consumer. Consumers of this version use it,
	// but providers of this version never set it.
	AwsConfig *AwsConfig `json:"awsConfig,omitempty"`
}

// IdentityType is the purpose of an Identity.
// +kubebuilder:validation:Enum=ControlPlane;ResourceSlice
type IdentityType string

// Identity types.
const (
	// IdentityControlPlane lets the controller manager replicate objects.
	IdentityControlPlane IdentityType = "ControlPlane"
	// IdentityResourceSlice lets the virtual kubelet of one ResourceSlice offload pods.
	IdentityResourceSlice IdentityType = "ResourceSlice"
)

const (
	// LabelIdentityType (on a kubeconfig Secret) is the IdentityType of its Identity.
	LabelIdentityType = "liqo.io/identity-type"
	// IdentityControlPlanePrefix precedes the provider's cluster ID in the name of the control-plane Identity.
	IdentityControlPlanePrefix = "controlplane-"
	// IdentityResourceSlicePrefix precedes the ResourceSlice's name in the name of its Identity.
	IdentityResourceSlicePrefix = "resourceslice-"
	// KubeconfigSecretPrefix precedes the Identity's name in the name of its Secret.
	KubeconfigSecretPrefix = "kubeconfig-"
	// KubeconfigSecretKey is the key of the kubeconfig in the Secret of an Identity.
	KubeconfigSecretKey = "kubeconfig"
)

// IdentitySpec describes the access that a provider granted.
type IdentitySpec struct {
	// ClusterID is the cluster ID of the provider.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID  string       `json:"clusterID,omitempty"`
	Type       IdentityType `json:"type,omitempty"`
	AuthParams AuthParams   `json:"authParams,omitempty"`
	// Namespace is the tenant namespace in the provider.
	Namespace string `json:"namespace,omitempty"`
}

// IdentityStatus names the Secret with the kubeconfig.
type IdentityStatus struct {
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Identity holds a consumer's access to a provider. Liqo creates a Secret with a kubeconfig from it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=id,categories=liqo
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="KubeconfigSecret",type=string,JSONPath=`.status.kubeconfigSecretRef.name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Identity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IdentitySpec   `json:"spec,omitempty"`
	Status IdentityStatus `json:"status,omitempty"`
}

// IdentityList is a list of Identities.
//
// +kubebuilder:object:root=true
type IdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Identity `json:"items"`
}
