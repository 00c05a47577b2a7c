package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of a Network.
const (
	// LabelNetworkType (on a Network of the local cluster) is the purpose of the Network: a NetworkType. Networks of peers lack this label.
	LabelNetworkType = "ipam.liqo.io/network-type"
	// LabelNetworkNotRemapped ("true") marks a Network whose range is fixed: Liqo never allocates a range other than spec.cidr.
	LabelNetworkNotRemapped = "ipam.liqo.io/network-not-remapped"
	// LabelNetworkShared ("true") marks a Network with a fixed range that may overlap other fixed ranges of the local cluster.
	LabelNetworkShared = "ipam.liqo.io/network-shared"
	// LabelNetworkNegotiated ("true") marks a Network whose range comes from the peer, and was not reviewed by an administrator of the local cluster. Either the
	// peer sent the range in a NetworkRequest, or liqoctl read it in the peer while the local cluster did not know its own pod range or service range. Liqo
	// always allocates the local range of such a Network from the pools, so that it overlaps no addresses that the local cluster depends on.
	LabelNetworkNegotiated = "ipam.liqo.io/network-negotiated"
	// LabelNetworkReported ("true") marks a Network whose range comes from the peer, in a NetworkRequest or through liqoctl. Liqo allocates another local
	// range also if the range overlaps a network around the nodes or the API servers of the local cluster.
	LabelNetworkReported = "ipam.liqo.io/network-reported"
)

// NetworkType is a value of LabelNetworkType.
type NetworkType = string

// Purposes of a Network of the local cluster.
const (
	NetworkTypePod      NetworkType = "pod-cidr"
	NetworkTypeService  NetworkType = "service-cidr"
	NetworkTypeExternal NetworkType = "external-cidr"
	NetworkTypeInternal NetworkType = "internal-cidr"
	NetworkTypeReserved NetworkType = "reserved"
)

// Names of the Networks that the chart creates in the namespace of the installation. If there are several pod CIDRs, the CIDR follows the
// name, with dashes in place of dots and slashes. The same holds for reserved subnets.
const (
	NetworkPod      = NetworkTypePod
	NetworkService  = NetworkTypeService
	NetworkExternal = NetworkTypeExternal
	NetworkInternal = NetworkTypeInternal
)

const (
	// AnnotationPreinstalled ("true") marks a Network that the chart created. It gets no finalizer, which could block an uninstallation.
	AnnotationPreinstalled = "liqo.io/preinstalled"
	// FinalizerNetwork keeps a Network while IPs have addresses from it.
	FinalizerNetwork = "network.ipam.liqo.io/finalizer"
)

// NetworkSpec describes the requested range.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.preAllocated) || (has(self.preAllocated) && self.preAllocated == oldSelf.preAllocated)",message="spec.preAllocated is immutable once set: delete the Network and create it again"
type NetworkSpec struct {
	// CIDR is the requested IPv4 range.
	// +kubebuilder:validation:Format=cidr
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.cidr is immutable: delete the Network and create it again"
	// +kubebuilder:validation:XValidation:rule="!self.contains(':')",message="spec.cidr must be an IPv4 range: IPv6 is not supported by this version"
	CIDR string `json:"cidr"`
	// PreAllocated is the number of addresses at the start of the range that are never allocated to IPs.
	// +kubebuilder:validation:Minimum=0
	PreAllocated int32 `json:"preAllocated,omitempty"`
}

// NetworkStatus is the range that was allocated.
type NetworkStatus struct {
	// CIDR is the allocated range: spec.cidr if it is free, otherwise another range of the same length. It does not change once allocated.
	// +kubebuilder:validation:Format=cidr
	CIDR string `json:"cidr,omitempty"`
	// Conditions contains "Ready". It is false while no range can be allocated, or while the allocated range conflicts with another. Its
	// message names the ranges.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Network is an address range: either of the local cluster, or of a peer together with the local range that it is mapped to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=net,categories=liqo
// +kubebuilder:printcolumn:name="Desired CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Remapped CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec"`
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkList is a list of Networks.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}
