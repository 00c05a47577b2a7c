package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConnectionType tells which side of the tunnel a gateway is.
// +kubebuilder:validation:Enum=Server;Client
type ConnectionType string

// Sides of a tunnel.
const (
	ConnectionServer ConnectionType = "Server"
	ConnectionClient ConnectionType = "Client"
)

// Values of a Connection's status.
const (
	// Connected tells that the peer's gateway answers through the tunnel.
	Connected = "Connected"
	// Connecting tells that it has not answered yet.
	Connecting = "Connecting"
	// ConnectionError tells that it does not answer any more, or that the tunnel can't be set up.
	ConnectionError = "Error"
)

// ConnectionSpec names the gateway.
type ConnectionSpec struct {
	// GatewayRef is the GatewayServer or GatewayClient.
	GatewayRef corev1.ObjectReference `json:"gatewayRef"`
	Type       ConnectionType         `json:"type"`
}

// ConnectionLatency is the last round trip that was measured.
type ConnectionLatency struct {
	// Value is a duration, "1.2ms".
	Value string `json:"value,omitempty"`
	// Timestamp is when it was measured.
	Timestamp metav1.Time `json:"timestamp,omitempty"`
}

// ConnectionStatus is what the gateway at work sees of the tunnel.
type ConnectionStatus struct {
	// Value is Connected, Connecting or Error.
	Value string `json:"value,omitempty"`
	// Latency is nil before the first round trip. Its time tells whether the gateway still reports.
	Latency *ConnectionLatency `json:"latency,omitempty"`
	// MTU of the tunnel that is in use, in bytes.
	MTU int `json:"mtu,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Connection is the tunnel to a peer; its name is that of the gateway's Deployment.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=conn,categories=liqo
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.value`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Latency",type=string,JSONPath=`.status.latency.value`,priority=1
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`,priority=1
type Connection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ConnectionSpec   `json:"spec,omitempty"`
	Status ConnectionStatus `json:"status,omitempty"`
}

// ConnectionList is a list of Connections.
//
// +kubebuilder:object:root=true
type ConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Connection `json:"items"`
}
