package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
)

// Labels of what belongs to a gateway.
const (
	// LabelComponent (on a gateway's Deployment and pods) is ComponentGateway.
	LabelComponent = "networking.liqo.io/component"
	// ComponentGateway is the value of LabelComponent.
	ComponentGateway = "gateway"
	// LabelActive is "true" on the pod of a gateway that is at work.
	LabelActive = "networking.liqo.io/active"
	// LabelGatewayResource is "true" on a PublicKey and on the Secret with the keys of a gateway.
	LabelGatewayResource = "networking.liqo.io/gateway-resource"
	// LabelGatewayName and LabelGatewayNamespace name the GatewayServer or GatewayClient that an object was made for.
	LabelGatewayName      = "networking.liqo.io/gateway-name"
	LabelGatewayNamespace = "networking.liqo.io/gateway-namespace"
	// LabelGatewayTemplate is "true" on the CustomResourceDefinitions of gateway templates.
	LabelGatewayTemplate = "networking.liqo.io/gatewaytemplate"
	// LabelNegotiated is "true" on the Configuration, PublicKey and gateway that were made for a NetworkRequest: only the peer named what is in them. Whoever
	// removes it, and the owner references to NetworkRequests, makes the object an administrator's.
	LabelNegotiated = "networking.liqo.io/negotiated"
	// LabelHostUnreachable is "true" on an IP that gateways must not map.
	LabelHostUnreachable = "networking.liqo.io/host-unreachable"
)

const (
	// FinalizerClusterRoleBinding holds a gateway until the ClusterRoleBinding of its ServiceAccount is gone.
	FinalizerClusterRoleBinding = "networking.liqo.io/clusterrolebinding"
	// GatewayChildPrefix precedes the gateway's name in the names of its Deployment, Service, Secret and Connection.
	GatewayChildPrefix = "gw-"
	// GatewayPort is the port of the tunnel, over UDP, where none is given.
	GatewayPort = 51840
	// SecretPrivateKey is the private key, of 32 bytes, in the Secret of a gateway.
	SecretPrivateKey = "privateKey"
	// SecretPublicKey is the public one, of 32 bytes.
	SecretPublicKey = "publicKey"
)

// GatewayChild is the name of what is made for a gateway.
func GatewayChild(gateway string) string { return GatewayChildPrefix + gateway }

// Endpoint is where the tunnel of a GatewayServer is reached from outside its cluster.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && self.port != 0 && has(self.ports) && size(self.ports) > 0)",message="port and ports exclude each other: give one of them"
// +kubebuilder:validation:XValidation:rule="(has(self.port) && self.port != 0) || (has(self.ports) && size(self.ports) > 0)",message="port is missing: give the port of the tunnel"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q == p))",message="ports names a port twice"
type Endpoint struct {
	// Addresses are IP addresses or host names, the best first.
	Addresses []string `json:"addresses,omitempty"`
	Port      int32    `json:"port,omitempty"`
	// Ports in place of port, for tunnels over several of them.
	// +kubebuilder:validation:MaxItems=64
	Ports []int32 `json:"ports,omitempty"`
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// InternalEndpoint is where the gateway at work is inside its own cluster.
type InternalEndpoint struct {
	// IP of the pod.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip,omitempty"`
	// Node that runs it.
	Node string `json:"node,omitempty"`
}
