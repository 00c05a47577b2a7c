package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// ServerTemplateDefault is the name of the default WgGatewayServerTemplate, in the namespace of the installation.
	ServerTemplateDefault = "wireguard-server"
	// ClientTemplateDefault is the name of the default WgGatewayClientTemplate, in the namespace of the installation.
	ClientTemplateDefault = "wireguard-client"
)

// ObjectKind identifies a kind.
type ObjectKind struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// GatewayTemplateSpec describes the objects of a gateway.
type GatewayTemplateSpec struct {
	// ObjectKind is the kind that the template describes. It has no effect; it is accepted for compatibility.
	ObjectKind ObjectKind `json:"objectKind,omitempty"`
	// ServiceType is the type of the Service that liqoctl and NetworkRequests choose for new GatewayServers of this template if the user
	// names none; if empty, LoadBalancer. It has no effect on existing GatewayServers, and none in a template of clients.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// Template is an object with the metadata and spec of a Deployment in spec.deployment and, for servers, of a Service in spec.service.
	// Its strings may be templates of Go's text/template, with .Name, .Namespace, .Spec, .ClusterID, .GatewayUID and .SecretName of the
	// gateway.
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template,omitempty"`
}

// WgGatewayServerTemplate is the template for the Deployment and Service of GatewayServers.
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

// WgGatewayClientTemplate is the template for the Deployment of GatewayClients.
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
