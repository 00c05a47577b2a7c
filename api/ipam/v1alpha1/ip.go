package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of an IP.
const (
	// LabelIPType tells what an IP that was made by the system is for: an IPType.
	LabelIPType = "ipam.liqo.io/ip-type"
	// LabelEndpointSlice names the EndpointSlice that an IP of the API server was made for.
	LabelEndpointSlice = "ipam.liqo.io/endpointslice"
	// LabelNetworkName and LabelNetworkNamespace, where an IP carries them, name the Network that its address is from.
	LabelNetworkName      = "ipam.liqo.io/network-name"
	LabelNetworkNamespace = "ipam.liqo.io/network-namespace"
)

// IPType is a value of LabelIPType.
type IPType = string

// What an IP is for.
const (
	// IPTypeAPIServer is the ClusterIP of Service default/kubernetes.
	IPTypeAPIServer IPType = "api-server"
	// IPTypeAPIServerProxy is the ClusterIP of our HTTP CONNECT proxy.
	IPTypeAPIServerProxy IPType = "api-server-proxy"
	// IPTypeAuthentication is the ClusterIP of our authentication service.
	IPTypeAuthentication IPType = "authentication"
	// IPTypeNode is the InternalIP of a node.
	IPTypeNode IPType = "node"
)

// Names of the IPs that the system makes in the namespace of the installation.
const (
	IPAPIServer      = IPTypeAPIServer
	IPAPIServerProxy = IPTypeAPIServerProxy
	IPAuthentication = IPTypeAuthentication
	// IPNodePrefix precedes the name of a node in the name of its IP.
	IPNodePrefix = "node-"
)

// Finalizers that other versions put on IPs. This one puts none: nothing outlives an IP. It takes these off IPs that are being deleted.
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

// ServiceTemplate is a Service to be made.
type ServiceTemplate struct {
	// Metadata of the Service; its name is that of the IP where empty, its namespace is always that of the IP.
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec corev1.ServiceSpec `json:"spec,omitempty"`
}

// IPSpec is an address that peers shall reach.
//
// +kubebuilder:validation:XValidation:rule="self.ip == oldSelf.ip",message="spec.ip is immutable: delete the IP and create it again"
type IPSpec struct {
	// IP is the address as it is known here, IPv4.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip"`
	// NetworkRef names the Network that gives the address for peers; the cluster's external CIDR where empty, the IP's own namespace where
	// it names none.
	NetworkRef *corev1.ObjectReference `json:"networkRef,omitempty"`
	// ServiceTemplate is a Service without selector to be made, with IP as its only endpoint.
	ServiceTemplate *ServiceTemplate `json:"serviceTemplate,omitempty"`
	// Masquerade makes IP see the address of a node of this cluster instead of that of the peer's pod.
	Masquerade *bool `json:"masquerade,omitempty"`
}

// IPStatus is the address that was given.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ip) || (has(self.ip) && self.ip == oldSelf.ip)",message="status.ip is immutable once set: delete the IP and create it again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cidr) || (has(self.cidr) && self.cidr == oldSelf.cidr)",message="status.cidr is immutable once set: delete the IP and create it again"
type IPStatus struct {
	// IP is the address under which peers reach spec.ip, each in its own view of CIDR.
	// +kubebuilder:validation:Format=ipv4
	IP string `json:"ip,omitempty"`
	// CIDR is the range of the Network that the address is from.
	// +kubebuilder:validation:Format=cidr
	CIDR string `json:"cidr,omitempty"`
	// Conditions: "Ready" is false, and says why, while no address can be given or the given one collides with another.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IP makes an address of this cluster, of a host, a service or a pod, known to peers.
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
