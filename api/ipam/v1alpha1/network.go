package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of a Network.
const (
	// LabelNetworkType tells what a Network of this very cluster is for: a NetworkType. Networks of peers have none.
	LabelNetworkType = "ipam.liqo.io/network-type"
	// LabelNetworkNotRemapped ("true") marks a Network that is where it is: its range is told, not chosen.
	LabelNetworkNotRemapped = "ipam.liqo.io/network-not-remapped"
	// LabelNetworkShared ("true") marks a Network that may overlap other ranges of this cluster.
	LabelNetworkShared = "ipam.liqo.io/network-shared"
	// LabelNetworkNegotiated ("true") marks a Network whose range only the peer named, in a NetworkRequest: no administrator of this cluster
	// entered it. Its place here is always chosen from the pools, away from addresses that this cluster depends on.
	LabelNetworkNegotiated = "ipam.liqo.io/network-negotiated"
)

// NetworkType is a value of LabelNetworkType.
type NetworkType = string

// What a Network of this cluster is for.
const (
	NetworkTypePod      NetworkType = "pod-cidr"
	NetworkTypeService  NetworkType = "service-cidr"
	NetworkTypeExternal NetworkType = "external-cidr"
	NetworkTypeInternal NetworkType = "internal-cidr"
	NetworkTypeReserved NetworkType = "reserved"
)

// Names of the Networks that the chart makes in the namespace of the installation. With several pod CIDRs their names go on with the CIDR,
// dots and slashes replaced by dashes, as do those of reserved subnets.
const (
	NetworkPod      = NetworkTypePod
	NetworkService  = NetworkTypeService
	NetworkExternal = NetworkTypeExternal
	NetworkInternal = NetworkTypeInternal
)

const (
	// AnnotationPreinstalled ("true") marks what the chart made: it gets no finalizer, so that it never outlives the installation.
	AnnotationPreinstalled = "liqo.io/preinstalled"
	// FinalizerNetwork holds a Network while IPs have addresses of it.
	FinalizerNetwork = "network.ipam.liqo.io/finalizer"
)

// NetworkSpec is the range that somebody wants.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.preAllocated) || (has(self.preAllocated) && self.preAllocated == oldSelf.preAllocated)",message="spec.preAllocated is immutable once set: delete the Network and create it again"
type NetworkSpec struct {
	// CIDR wanted, IPv4.
	// +kubebuilder:validation:Format=cidr
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.cidr is immutable: delete the Network and create it again"
	// +kubebuilder:validation:XValidation:rule="!self.contains(':')",message="spec.cidr must be an IPv4 range: IPv6 is not supported by this version"
	CIDR string `json:"cidr"`
	// PreAllocated is how many addresses at the beginning of the range are given to no IP.
	// +kubebuilder:validation:Minimum=0
	PreAllocated int32 `json:"preAllocated,omitempty"`
}

// NetworkStatus is the range that was given.
type NetworkStatus struct {
	// CIDR given: that of the spec where it is free, else another one of the same length. Once given it does not change by itself.
	// +kubebuilder:validation:Format=cidr
	CIDR string `json:"cidr,omitempty"`
	// Conditions: "Ready" is false, and names the ranges, while no range can be given or the given one collides with another.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Network is an address range: one of this cluster, or one of a peer together with where it appears here.
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
