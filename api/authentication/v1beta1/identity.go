package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwsConfig is what authenticates against a provider on EKS, where client certificates are not accepted.
type AwsConfig struct {
	AwsAccessKeyID     string `json:"awsAccessKeyID"`
	AwsSecretAccessKey string `json:"awsSecretAccessKey"`
	AwsRegion          string `json:"awsRegion"`
	AwsClusterName     string `json:"awsClusterName"`
	AwsUserArn         string `json:"awsUserArn"`
}

// AuthParams is all that a consumer needs to reach the API server of its provider.
type AuthParams struct {
	// CA is the PEM bundle of the provider's API server; empty when it is publicly trusted.
	CA []byte `json:"ca,omitempty"`
	// SignedCRT is the PEM client certificate signed for the consumer's request.
	SignedCRT []byte `json:"signedCRT,omitempty"`
	// APIServer is the URL of the provider's API server.
	APIServer string `json:"apiServer,omitempty"`
	// ProxyURL is an HTTP CONNECT proxy on the way to APIServer.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// AwsConfig replaces the certificate on EKS.
	AwsConfig *AwsConfig `json:"awsConfig,omitempty"`
}

// IdentityType tells what an Identity is good for.
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
	// LabelIdentityType (on a kubeconfig Secret) is the IdentityType it was made for.
	LabelIdentityType = "liqo.io/identity-type"
	// IdentityControlPlanePrefix precedes the provider's cluster ID in the name of the control-plane Identity.
	IdentityControlPlanePrefix = "controlplane-"
	// IdentityResourceSlicePrefix precedes the ResourceSlice's name in the name of its Identity.
	IdentityResourceSlicePrefix = "resourceslice-"
	// KubeconfigSecretPrefix precedes the Identity's name in the name of its Secret.
	KubeconfigSecretPrefix = "kubeconfig-"
	// KubeconfigSecretKey is the key of the kubeconfig in that Secret.
	KubeconfigSecretKey = "kubeconfig"
)

// IdentitySpec is an identity that a provider granted.
type IdentitySpec struct {
	// ClusterID of the provider.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID  string       `json:"clusterID,omitempty"`
	Type       IdentityType `json:"type,omitempty"`
	AuthParams AuthParams   `json:"authParams,omitempty"`
	// Namespace is the tenant namespace in the provider.
	Namespace string `json:"namespace,omitempty"`
}

// IdentityStatus tells where the kubeconfig is.
type IdentityStatus struct {
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Identity is a consumer's way into a provider; it becomes a kubeconfig Secret.
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
