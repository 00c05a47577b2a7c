package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerLocation selects the cluster that runs the server side of the tunnel. The other cluster dials it.
// +kubebuilder:validation:Enum=Provider;Consumer
type ServerLocation string

// Locations of the gateway server.
const (
	ServerAtProvider ServerLocation = "Provider"
	ServerAtConsumer ServerLocation = "Consumer"
)

// NetworkFacts describes the network of a cluster, as far as the cluster has reported it.
type NetworkFacts struct {
	// CIDR lists the address ranges of the cluster.
	CIDR CIDRs `json:"cidr,omitempty"`
	// PublicKey is the WireGuard public key of the cluster's gateway, 32 bytes.
	// +kubebuilder:validation:MaxLength=48
	PublicKey []byte `json:"publicKey,omitempty"`
	// Endpoint is the endpoint of the cluster's gateway, if the gateway is the server side of the tunnel.
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// DialedEndpoint replaces parts of the endpoint that a peer reports.
//
// +kubebuilder:validation:XValidation:rule="(has(self.addresses) && size(self.addresses) > 0) || (has(self.port) && self.port != 0)",message="dial is empty: give addresses or port, or leave dial out to connect to the endpoint that the peer reports"
type DialedEndpoint struct {
	// Addresses lists IP addresses or host names, in order of preference. If empty, those that the peer reports are dialed.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.contains(':') ? a.matches('^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$') : a.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="addresses must be IP addresses or host names, without a port"
	// +kubebuilder:validation:XValidation:rule="self.all(a, !a.matches('(^|[.])[0-9]+$') || a.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.]|$)){4}$'))",message="addresses has a value that ends in a number and is no IPv4 address"
	Addresses []string `json:"addresses,omitempty"`
	// Port is the UDP port. If it is 0, the port that the peer reports is dialed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// NetworkRequestSpec is the request of the consumer, with the facts of its network.
type NetworkRequestSpec struct {
	// Server selects the cluster that runs the gateway server. It has no effect if a gateway exists already.
	// +kubebuilder:default=Provider
	Server ServerLocation `json:"server,omitempty"`
	// ServiceType is the type of the gateway server's Service if the consumer runs it; if empty, the default of the consumer's installation.
	// The field has no effect if the provider runs the gateway server, because only the provider decides how its own gateway is exposed.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// Dial is where the gateway client of the consumer dials the gateway server of the provider, if not at the endpoint that the provider reports: for example at
	// an address in a VPN. It has no effect in the provider, and none if the consumer runs the gateway server.
	Dial *DialedEndpoint `json:"dial,omitempty"`
	// Consumer describes the network of the consumer. The consumer's controller manager fills it in.
	Consumer NetworkFacts `json:"consumer,omitempty"`
}

// NetworkRequestStatus is the response of the provider.
type NetworkRequestStatus struct {
	// Provider describes the network of the provider.
	Provider NetworkFacts `json:"provider,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkRequest asks a provider to connect its network with the network of a consumer. Liqo replicates it to the provider. Each cluster
// then creates a Configuration, a gateway and a PublicKey from the facts that the other cluster reports. Garbage collection deletes them
// after the last request.
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

// Negotiated reports whether the content of a network object comes only from a peer's NetworkRequest, for example the ranges of a Configuration. No
// administrator of this cluster entered it. Negotiated objects have LabelNegotiated, which they keep after the request and the owner reference to it
// were removed. Negotiated objects of earlier versions have only the owner reference.
func Negotiated(o metav1.Object) bool {
	return o.GetLabels()[LabelNegotiated] == "true" ||
		slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == "NetworkRequest" })
}
