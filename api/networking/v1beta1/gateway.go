package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
)

// Labels of the objects that belong to a gateway.
const (
	// LabelComponent (on a gateway's Deployment and pods) is ComponentGateway.
	LabelComponent = "networking.liqo.io/component"
	// ComponentGateway is the value of LabelComponent.
	ComponentGateway = "gateway"
	// LabelActive ("true") marks the active pod of a gateway, which forwards the traffic; the others are on standby.
	LabelActive = "networking.liqo.io/active"
	// LabelGatewayResource ("true") marks PublicKeys, and the Secrets with the keys of gateways.
	LabelGatewayResource = "networking.liqo.io/gateway-resource"
	// LabelGatewayName and LabelGatewayNamespace identify the GatewayServer or GatewayClient that an object was created for.
	LabelGatewayName      = "networking.liqo.io/gateway-name"
	LabelGatewayNamespace = "networking.liqo.io/gateway-namespace"
	// LabelGatewayTemplate ("true") marks the CustomResourceDefinitions of gateway templates.
	LabelGatewayTemplate = "networking.liqo.io/gatewaytemplate"
	// LabelNegotiated ("true") marks the Configuration, PublicKey and gateway that were created for a NetworkRequest. Only the peer
	// supplied their content, and Liqo keeps them up to date. To take over such an object, an administrator removes this label and the
	// owner references to NetworkRequests.
	LabelNegotiated = "networking.liqo.io/negotiated"
	// AnnotationReportedByPeer ("true" on a Configuration) means that liqoctl read the ranges in the cluster of the peer, and that no administrator of this
	// cluster entered them. They are checked like those of a NetworkRequest. To use other ranges, an administrator removes the annotation.
	AnnotationReportedByPeer = "networking.liqo.io/reported-by-peer"
	// LabelHostUnreachable ("true" on an IP object) stops gateways from exposing its address to peers.
	LabelHostUnreachable = "networking.liqo.io/host-unreachable"
)

const (
	// FinalizerClusterRoleBinding keeps a gateway until the ClusterRoleBinding of its ServiceAccount is deleted.
	FinalizerClusterRoleBinding = "networking.liqo.io/clusterrolebinding"
	// GatewayChildPrefix precedes the gateway's name in the names of its Deployment, Service, Secret and Connection.
	GatewayChildPrefix = "gw-"
	// GatewayPort is the default UDP port of the tunnel.
	GatewayPort = 51840
	// SecretPrivateKey is the key, in the Secret of a gateway, of the WireGuard private key of 32 bytes.
	SecretPrivateKey = "privateKey"
	// SecretPublicKey is the key, in the Secret of a gateway, of the WireGuard public key of 32 bytes.
	SecretPublicKey = "publicKey"
)

// GatewayChild returns the name of the Deployment, Service, Secret and Connection of a gateway.
func GatewayChild(gateway string) string { return GatewayChildPrefix + gateway }

// Endpoint is where clients outside the cluster reach the tunnel of a GatewayServer.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && self.port != 0 && has(self.ports) && size(self.ports) > 0)",message="port and ports exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="(has(self.port) && self.port != 0) || (has(self.ports) && size(self.ports) > 0)",message="port is missing: give the port of the tunnel"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q == p))",message="ports names a port twice"
type Endpoint struct {
	// Addresses lists IP addresses or host names, in order of preference.
	Addresses []string `json:"addresses,omitempty"`
	Port      int32    `json:"port,omitempty"`
	// Ports is an alternative to port. A gateway has one tunnel, so it rejects more than one entry.
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// InternalEndpoint is the location of the active pod of a gateway inside its cluster.
type InternalEndpoint struct {
	// IP is the address of the pod.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip,omitempty"`
	// Node is the name of the node that runs the pod.
	Node string `json:"node,omitempty"`
}
