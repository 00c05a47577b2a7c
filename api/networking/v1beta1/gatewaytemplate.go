package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// ServerTemplateDefault is the WgGatewayServerTemplate of the installation, in its namespace.
	ServerTemplateDefault = "wireguard-server"
	// ClientTemplateDefault is the WgGatewayClientTemplate of the installation, in its namespace.
	ClientTemplateDefault = "wireguard-client"
)

// ObjectKind names a kind.
type ObjectKind struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// GatewayTemplateSpec is what gateways are made from.
type GatewayTemplateSpec struct {
	// ObjectKind is what the template describes. It is kept for manifests that carry it.
	ObjectKind ObjectKind `json:"objectKind,omitempty"`
	// Template is an object whose strings may be templates of Go's text/template over a gateway: .Name, .Namespace, .Spec, .ClusterID,
	// .GatewayUID and .SecretName. Its spec.deployment and, for servers, spec.service have metadata and spec of those kinds.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template,omitempty"`
}

// WgGatewayServerTemplate is what GatewayServers are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wggst;wgst,categories=liqo
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WgGatewayServerTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GatewayTemplateSpec `json:"spec,omitempty"`
}

// WgGatewayServerTemplateList is a list of WgGatewayServerTemplates.
//
// +kubebuilder:object:root=true
type WgGatewayServerTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WgGatewayServerTemplate `json:"items"`
}

// WgGatewayClientTemplate is what GatewayClients are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wggct;wgct,categories=liqo
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WgGatewayClientTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GatewayTemplateSpec `json:"spec,omitempty"`
}

// WgGatewayClientTemplateList is a list of WgGatewayClientTemplates.
//
// +kubebuilder:object:root=true
type WgGatewayClientTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WgGatewayClientTemplate `json:"items"`
}
