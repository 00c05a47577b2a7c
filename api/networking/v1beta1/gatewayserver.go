package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerEndpoint is how a GatewayServer is to be reached.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && self.port != 0 && has(self.ports) && size(self.ports) > 0)",message="port and ports exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodePort) && self.nodePort != 0 && has(self.nodePorts) && size(self.nodePorts) > 0)",message="nodePort and nodePorts exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="(has(self.port) && self.port != 0) || (has(self.ports) && size(self.ports) > 0)",message="port is missing: give the port of the tunnel, usually 51840"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q == p))",message="ports names a port twice"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePorts) || self.nodePorts.all(p, self.nodePorts.exists_one(q, q == p))",message="nodePorts names a port twice"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePorts) || size(self.nodePorts) == 0 || (has(self.ports) && size(self.ports) == size(self.nodePorts))",message="nodePorts needs as many entries as ports"
type ServerEndpoint struct {
	// Port of the tunnel, usually 51840.
	Port int32 `json:"port,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
	// NodePort to ask for; any when 0.
	NodePort int32 `json:"nodePort,omitempty"`
	// +kubebuilder:validation:MaxItems=64
	NodePorts []int32 `json:"nodePorts,omitempty"`
	// ServiceType of the Service in front of the gateway.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	// +kubebuilder:default=ClusterIP
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// LoadBalancerIP to ask for.
	LoadBalancerIP string `json:"loadBalancerIP,omitempty"`
}

// GatewayServerSpec is a gateway that waits for its peer to dial.
type GatewayServerSpec struct {
	// Endpoint is how the peer reaches it.
	Endpoint ServerEndpoint `json:"endpoint,omitempty"`
	// MTU is an upper bound for that of the tunnel, in bytes; the path alone decides when 0.
	MTU int `json:"mtu,omitempty"`
	// SecretRef names a Secret of this namespace with the keys; one is made where empty.
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// ServerTemplateRef names the WgGatewayServerTemplate that the gateway is made from.
	ServerTemplateRef  corev1.ObjectReference `json:"serverTemplateRef,omitempty"`
	ServiceLabels      map[string]string      `json:"serviceLabels,omitempty"`
	ServiceAnnotations map[string]string      `json:"serviceAnnotations,omitempty"`
}

// GatewayServerStatus is what became of it.
type GatewayServerStatus struct {
	// Endpoint is what the peer is to dial.
	Endpoint *Endpoint `json:"endpoint,omitempty"`
	// InternalEndpoint is the pod at work.
	InternalEndpoint *InternalEndpoint `json:"internalEndpoint,omitempty"`
	// SecretRef is the Secret with the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// ServerRef is the Deployment.
	ServerRef *corev1.ObjectReference `json:"serverRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayServer is the end of a tunnel that the peer dials. It carries the peer's cluster ID as name and as label
// liqo.io/remote-cluster-id.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=gws;gwserver,categories=liqo
// +kubebuilder:printcolumn:name="Template Kind",type=string,JSONPath=`.spec.serverTemplateRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.serverTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,JSONPath=`.spec.serverTemplateRef.namespace`,priority=1
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.status.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.status.endpoint.protocol`,priority=1
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.spec.mtu`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GatewayServerSpec   `json:"spec,omitempty"`
	Status GatewayServerStatus `json:"status,omitempty"`
}

// GatewayServerList is a list of GatewayServers.
//
// +kubebuilder:object:root=true
type GatewayServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayServer `json:"items"`
}
