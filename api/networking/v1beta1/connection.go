package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConnectionType is the side of the tunnel that a gateway runs.
// +kubebuilder:validation:Enum=Server;Client
type ConnectionType string

// Sides of a tunnel.
const (
	ConnectionServer ConnectionType = "Server"
	ConnectionClient ConnectionType = "Client"
)

// Values of a Connection's status.
const (
	// Connected means that the peer's gateway answers through the tunnel.
	Connected = "Connected"
	// Connecting means that the peer's gateway has not answered yet.
	Connecting = "Connecting"
	// ConnectionError means that the peer's gateway no longer answers, or that no pod of the local gateway runs.
	ConnectionError = "Error"
)

// ConditionConnected is the type of the condition that mirrors the value of a Connection's status, for clients that read conditions. A gateway has it too.
const ConditionConnected = "Connected"

// ConnectionSpec identifies the local gateway of a tunnel.
type ConnectionSpec struct {
	// GatewayRef names the GatewayServer or GatewayClient.
	GatewayRef corev1.ObjectReference `json:"gatewayRef"`
	Type       ConnectionType         `json:"type"`
}

// ConnectionLatency is a measured round-trip time of the tunnel.
type ConnectionLatency struct {
	// Value is the round-trip time, for example "1.2ms".
	Value string `json:"value,omitempty"`
	// Timestamp is the time of the measurement.
	Timestamp metav1.Time `json:"timestamp,omitempty"`
}

// ConnectionStatus is the state of the tunnel, as the active pod of the gateway reports it.
type ConnectionStatus struct {
	// Value is Connected, Connecting or Error.
	Value string `json:"value,omitempty"`
	// Latency is unset before the first round trip. An old timestamp means that the gateway no longer reports.
	Latency *ConnectionLatency `json:"latency,omitempty"`
	// MTU is the current MTU of the tunnel, in bytes.
	MTU int `json:"mtu,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Connection shows the state of the tunnel to a peer. It has the name of the gateway's Deployment.
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
