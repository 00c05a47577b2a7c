package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerEndpoint configures how clients reach a GatewayServer.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && self.port != 0 && has(self.ports) && size(self.ports) > 0)",message="port and ports exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodePort) && self.nodePort != 0 && has(self.nodePorts) && size(self.nodePorts) > 0)",message="nodePort and nodePorts exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="(has(self.port) && self.port != 0) || (has(self.ports) && size(self.ports) > 0)",message="port is missing: give the port of the tunnel, usually 51840"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q == p))",message="ports names a port twice"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePorts) || self.nodePorts.all(p, self.nodePorts.exists_one(q, q == p))",message="nodePorts names a port twice"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePorts) || size(self.nodePorts) == 0 || (has(self.ports) && size(self.ports) == size(self.nodePorts))",message="nodePorts needs as many entries as ports"
type ServerEndpoint struct {
	// Port is the port of the tunnel, usually 51840.
	Port int32 `json:"port,omitempty"`
	// Ports is an alternative to port. A gateway has one tunnel, so it rejects more than one entry.
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
	// NodePort is the node port to request; 0: any.
	NodePort int32 `json:"nodePort,omitempty"`
	// NodePorts is an alternative to nodePort, with one entry for each entry of ports.
	// +kubebuilder:validation:MaxItems=64
	NodePorts []int32 `json:"nodePorts,omitempty"`
	// ServiceType is the type of the gateway's Service. A gateway rejects ExternalName.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	// +kubebuilder:default=ClusterIP
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// LoadBalancerIP is the load balancer address to request.
	LoadBalancerIP string `json:"loadBalancerIP,omitempty"`
}

// GatewayServerSpec configures a gateway that the peer dials.
type GatewayServerSpec struct {
	// Endpoint configures how the peer reaches the gateway.
	Endpoint ServerEndpoint `json:"endpoint,omitempty"`
	// MTU is the maximum MTU of the tunnel in bytes, 576 to 65535; 0: computed from the MTU of the pod network alone.
	MTU int `json:"mtu,omitempty"`
	// SecretRef names a Secret in the same namespace that holds the keys; if empty, Liqo creates one.
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// ServerTemplateRef names the WgGatewayServerTemplate of the gateway.
	ServerTemplateRef  corev1.ObjectReference `json:"serverTemplateRef,omitempty"`
	ServiceLabels      map[string]string      `json:"serviceLabels,omitempty"`
	ServiceAnnotations map[string]string      `json:"serviceAnnotations,omitempty"`
}

// GatewayServerStatus is the observed state of a GatewayServer.
type GatewayServerStatus struct {
	// Endpoint is the endpoint that the peer must dial.
	Endpoint *Endpoint `json:"endpoint,omitempty"`
	// InternalEndpoint locates the active pod.
	InternalEndpoint *InternalEndpoint `json:"internalEndpoint,omitempty"`
	// SecretRef names the Secret that holds the keys.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// ServerRef names the Deployment of the gateway.
	ServerRef *corev1.ObjectReference `json:"serverRef,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayServer is the server side of a tunnel: the peer dials it. Its name and its label liqo.io/remote-cluster-id are the peer's
// cluster ID.
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
