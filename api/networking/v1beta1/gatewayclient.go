package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayClientSpec configures a gateway that dials its peer.
type GatewayClientSpec struct {
	// Endpoint is the endpoint to dial: status.endpoint of the peer's GatewayServer.
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// MTU is the maximum MTU of the tunnel in bytes, 576 to 65535; 0: computed from the MTU of the pod network alone.
	MTU int `json:"mtu,omitempty"`
	// SecretRef names a Secret in the same namespace that holds the keys; if empty, Liqo creates one.
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// ClientTemplateRef names the WgGatewayClientTemplate of the gateway.
	ClientTemplateRef corev1.ObjectReference `json:"clientTemplateRef,omitempty"`
}

// GatewayClientStatus is the observed state of a GatewayClient.
type GatewayClientStatus struct {
	// InternalEndpoint locates the active pod.
	InternalEndpoint *InternalEndpoint `json:"internalEndpoint,omitempty"`
	// SecretRef names the Secret that holds the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// ClientRef names the Deployment of the gateway.
	ClientRef *corev1.ObjectReference `json:"clientRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayClient is the client side of a tunnel: it dials the peer. Its name and its label liqo.io/remote-cluster-id are the peer's
// cluster ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gwc;gwclient,categories=liqo
// +kubebuilder:printcolumn:name="Template Kind",type=string,JSONPath=`.spec.clientTemplateRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.clientTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,JSONPath=`.spec.clientTemplateRef.namespace`,priority=1
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.endpoint.protocol`,priority=1
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.spec.mtu`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayClient struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GatewayClientSpec   `json:"spec,omitempty"`
	Status GatewayClientStatus `json:"status,omitempty"`
}

// GatewayClientList is a list of GatewayClients.
//
// +kubebuilder:object:root=true
type GatewayClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayClient `json:"items"`
}
