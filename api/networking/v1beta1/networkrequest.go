package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerLocation tells which of two clusters has the end of the tunnel that the other one dials.
// +kubebuilder:validation:Enum=Provider;Consumer
type ServerLocation string

// Locations of the gateway server.
const (
	ServerAtProvider ServerLocation = "Provider"
	ServerAtConsumer ServerLocation = "Consumer"
)

// NetworkFacts are what a cluster tells another one of its network, as far as it is known.
type NetworkFacts struct {
	// CIDR are the ranges of the cluster.
	CIDR CIDRs `json:"cidr,omitempty"`
	// PublicKey is the WireGuard key of its gateway, 32 bytes.
	// +kubebuilder:validation:MaxLength=48
	PublicKey []byte `json:"publicKey,omitempty"`
	// Endpoint is where its gateway is dialled, if it is the server.
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// NetworkRequestSpec is what the consumer asks for and tells.
type NetworkRequestSpec struct {
	// Server tells where the gateway server is to be, where there is no gateway yet.
	// +kubebuilder:default=Provider
	Server ServerLocation `json:"server,omitempty"`
	// Consumer are the facts of the cluster that asks; its controller manager fills them in.
	Consumer NetworkFacts `json:"consumer,omitempty"`
}

// NetworkRequestStatus is what the provider answers.
type NetworkRequestStatus struct {
	// Provider are the facts of the cluster that is asked.
	Provider NetworkFacts `json:"provider,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkRequest asks a provider to connect its network with that of a consumer. It is replicated to the provider; on both sides the
// Configuration, the gateway and the PublicKey are made from what the other one tells, and go when the last request for them goes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=netreq,categories=liqo
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.spec.server`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkRequestSpec   `json:"spec,omitempty"`
	Status NetworkRequestStatus `json:"status,omitempty"`
}

// NetworkRequestList is a list of NetworkRequests.
//
// +kubebuilder:object:root=true
type NetworkRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NetworkRequest `json:"items"`
}
