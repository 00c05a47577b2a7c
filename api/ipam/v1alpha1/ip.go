package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of an IP.
const (
	// LabelIPType (on an IP that Liqo created) is the purpose of the IP: an IPType.
	LabelIPType = "ipam.liqo.io/ip-type"
	// LabelEndpointSlice is the name of the EndpointSlice that an IP of the API server was created for. This version neither sets nor reads it.
	LabelEndpointSlice = "ipam.liqo.io/endpointslice"
	// LabelNetworkName and LabelNetworkNamespace identify the Network that provided an IP's address. This version neither sets nor reads them.
	LabelNetworkName      = "ipam.liqo.io/network-name"
	LabelNetworkNamespace = "ipam.liqo.io/network-namespace"
)

// IPType is a value of LabelIPType.
type IPType = string

// Purposes of an IP that Liqo created.
const (
	// IPTypeAPIServer exposes the ClusterIP of Service default/kubernetes.
	IPTypeAPIServer IPType = "api-server"
	// IPTypeAPIServerProxy exposes the ClusterIP of Liqo's HTTP CONNECT proxy.
	IPTypeAPIServerProxy IPType = "api-server-proxy"
	// IPTypeAuthentication exposes the ClusterIP of Liqo's authentication service.
	IPTypeAuthentication IPType = "authentication"
	// IPTypeNode exposes the InternalIP of a node.
	IPTypeNode IPType = "node"
)

// Names of the IPs that Liqo creates in the namespace of the installation.
const (
	IPAPIServer      = IPTypeAPIServer
	IPAPIServerProxy = IPTypeAPIServerProxy
	IPAuthentication = IPTypeAuthentication
	// IPNodePrefix precedes the name of a node in the name of its IP.
	IPNodePrefix = "node-"
)

// Finalizers that other versions add to IPs. This version adds none, because the deletion of an IP needs no cleanup. It removes them from
// IPs that are being deleted.
const (
	FinalizerIP        = "ip.ipam.liqo.io/finalizer"
	FinalizerIPMapping = "ipmapping-nat-controller.liqo.io/finalizer"
)

// ObjectMeta is the part of an object's metadata that a template may set.
type ObjectMeta struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

// ServiceTemplate describes a Service that Liqo creates.
type ServiceTemplate struct {
	// Metadata is the metadata of the Service. The name defaults to the name of the IP; the namespace is always the namespace of the IP.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec corev1.ServiceSpec `json:"spec,omitempty"`
}

// IPSpec describes an address to expose to peers.
//
// +kubebuilder:validation:XValidation:rule="self.ip == oldSelf.ip",message="spec.ip is immutable: delete the IP and create it again"
type IPSpec struct {
	// IP is the IPv4 address in the local cluster.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip"`
	// NetworkRef names the Network that provides the address for peers. It defaults to the external CIDR of the local cluster, and its
	// namespace to the namespace of the IP.
	NetworkRef *corev1.ObjectReference `json:"networkRef,omitempty"`
	// ServiceTemplate describes a Service without selector that Liqo creates. Its only endpoint is IP.
	ServiceTemplate *ServiceTemplate `json:"serviceTemplate,omitempty"`
	// Masquerade has no effect; it is accepted for compatibility. Traffic from peers always reaches spec.ip with the address of a local node as its
	// source, never with the address of the peer's pod.
	Masquerade *bool `json:"masquerade,omitempty"`
}

// IPStatus is the address that was allocated.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ip) || (has(self.ip) && self.ip == oldSelf.ip)",message="status.ip is immutable once set: delete the IP and create it again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cidr) || (has(self.cidr) && self.cidr == oldSelf.cidr)",message="status.cidr is immutable once set: delete the IP and create it again"
type IPStatus struct {
	// IP is the allocated address. Each peer maps CIDR to a range of its own, and reaches spec.ip at the same offset in that range.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip,omitempty"`
	// CIDR is the range of the Network that provided the address.
	// +kubebuilder:validation:Format=cidr
	CIDR string `json:"cidr,omitempty"`
	// Conditions contains "Ready". It is false while no address can be allocated, or while the allocated address conflicts with another.
	// Its message says why.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IP exposes an address of the local cluster, for example of a host or a Service, to its peers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=liqo
// +kubebuilder:printcolumn:name="Local IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Remapped IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Remapped IP CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type IP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IPSpec   `json:"spec"`
	Status IPStatus `json:"status,omitempty"`
}

// IPList is a list of IPs.
//
// +kubebuilder:object:root=true
type IPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IP `json:"items"`
}
