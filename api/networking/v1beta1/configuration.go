package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelCIDRType (on the Network of a peer's range) is the purpose of the range: CIDRTypePod or CIDRTypeExternal.
	LabelCIDRType = "configuration.liqo.io/cidr-type"
	// CIDRTypePod marks a pod CIDR of the peer.
	CIDRTypePod = "pod"
	// CIDRTypeExternal marks an external CIDR of the peer.
	CIDRTypeExternal = "external"

	// ConditionCIDRsConfigured is a condition type of Configurations. It is true while every range of the peer is mapped to a local range,
	// as status.remote shows. It is outdated unless its observedGeneration is the generation of the Configuration.
	ConditionCIDRsConfigured = "NetworkCIDRsConfigured"
	// ReasonCIDRsConfigured is the reason of ConditionCIDRsConfigured while it is true.
	ReasonCIDRsConfigured = "NetworkCIDRsConfigured"
	// ReasonWaitingForNetworks is the reason of ConditionCIDRsConfigured while Networks have no range yet, or are not ready.
	ReasonWaitingForNetworks = "WaitingForNetworks"
)

// CIDRs are the address ranges of a cluster that its peers use, as IPv4 in CIDR notation. In each list, the first range is the primary
// one.
type CIDRs struct {
	// Pod lists the ranges of the cluster's pods.
	// +kubebuilder:validation:items:Format=cidr
	Pod []string `json:"pod,omitempty"`
	// External has the range of the addresses under which IP objects expose local addresses to peers. Only the first entry is used.
	// +kubebuilder:validation:items:Format=cidr
	External []string `json:"external,omitempty"`
}

// ClusterConfig describes the network of one cluster.
type ClusterConfig struct {
	CIDR CIDRs `json:"cidr,omitempty"`
}

// ConfigurationSpec describes the networks of both clusters of a peering.
type ConfigurationSpec struct {
	// Local is the network of the local cluster. Liqo fills it in from the Networks of the installation and overwrites other values.
	Local *ClusterConfig `json:"local,omitempty"`
	// Remote is the network of the peer, with the ranges that the peer itself uses.
	Remote ClusterConfig `json:"remote,omitempty"`
}

// RemoteRange maps a range of the peer to the range that represents it in the local cluster.
type RemoteRange struct {
	// Type is the purpose of the range: "pod" or "external".
	// +kubebuilder:validation:Enum=pod;external
	Type string `json:"type"`
	// CIDR is the range that the peer itself uses, with all host bits zero.
	CIDR string `json:"cidr"`
	// SeenAs is the range by which the local cluster reaches CIDR. It has the same prefix length.
	SeenAs string `json:"seenAs"`
}

// ConfigurationStatus describes the local ranges of a peer.
type ConfigurationStatus struct {
	// Remote lists the local ranges to which the peer's ranges are mapped, in the order of spec.remote. Each list ends before the first range
	// that is not mapped yet. Remote is unset while one of the lists would be empty.
	Remote *ClusterConfig `json:"remote,omitempty"`
	// Ranges lists every range of the peer that is mapped, together with its local range.
	// +listType=map
	// +listMapKey=cidr
	Ranges []RemoteRange `json:"ranges,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Configuration describes the network of a peer: the ranges that the peer uses, and the local ranges that they are mapped to. Its name
// and its label liqo.io/remote-cluster-id are the peer's cluster ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=conf,categories=liqo
// +kubebuilder:printcolumn:name="Desired Pod CIDR ",type=string,JSONPath=`.spec.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Remapped Pod CIDR",type=string,JSONPath=`.status.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Configured",type=string,JSONPath=`.status.conditions[?(@.type=="NetworkCIDRsConfigured")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Desired External CIDR",type=string,JSONPath=`.spec.remote.cidr.external`,priority=1
// +kubebuilder:printcolumn:name="Remapped External CIDR",type=string,JSONPath=`.status.remote.cidr.external`,priority=1
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.metadata.labels.liqo\.io/remote-cluster-id`,priority=1
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ConfigurationSpec   `json:"spec,omitempty"`
	Status ConfigurationStatus `json:"status,omitempty"`
}

// ConfigurationList is a list of Configurations.
//
// +kubebuilder:object:root=true
type ConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Configuration `json:"items"`
}
