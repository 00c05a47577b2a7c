package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayClientSpec is a gateway that dials its peer.
type GatewayClientSpec struct {
	// Endpoint is what to dial: status.endpoint of the peer's GatewayServer.
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// MTU is an upper bound for that of the tunnel, in bytes; the path alone decides when 0.
	MTU int `json:"mtu,omitempty"`
	// SecretRef names a Secret of this namespace with the keys; one is made where empty.
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// ClientTemplateRef names the WgGatewayClientTemplate that the gateway is made from.
	ClientTemplateRef corev1.ObjectReference `json:"clientTemplateRef,omitempty"`
}

// GatewayClientStatus is what became of it.
type GatewayClientStatus struct {
	// InternalEndpoint is the pod at work.
	InternalEndpoint *InternalEndpoint `json:"internalEndpoint,omitempty"`
	// SecretRef is the Secret with the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// ClientRef is the Deployment.
	ClientRef *corev1.ObjectReference `json:"clientRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayClient is the end of a tunnel that dials the peer. It carries the peer's cluster ID as name and as label
// liqo.io/remote-cluster-id.
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
