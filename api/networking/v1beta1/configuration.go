package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelCIDRType (on the Network of a peer's range) tells with CIDRTypePod or CIDRTypeExternal what the range is for.
	LabelCIDRType = "configuration.liqo.io/cidr-type"
	// CIDRTypePod marks a pod CIDR of the peer.
	CIDRTypePod = "pod"
	// CIDRTypeExternal marks an external CIDR of the peer.
	CIDRTypeExternal = "external"

	// ConditionCIDRsConfigured of a Configuration is true while every range of the peer has a place here, shown in status.remote. It
	// counts only with the Configuration's own generation.
	ConditionCIDRsConfigured = "NetworkCIDRsConfigured"
	// ReasonCIDRsConfigured is the reason of that condition while it is true.
	ReasonCIDRsConfigured = "NetworkCIDRsConfigured"
	// ReasonWaitingForNetworks is its reason while Networks have no range yet.
	ReasonWaitingForNetworks = "WaitingForNetworks"
)

// CIDRs are the ranges of a cluster that its peers talk to: those of its pods, and the one that holds an address for everything else.
// They are IPv4, in CIDR notation; the first of each is the primary one.
type CIDRs struct {
	// +kubebuilder:validation:items:Format=cidr
	Pod []string `json:"pod,omitempty"`
	// Only the first is used.
	// +kubebuilder:validation:items:Format=cidr
	External []string `json:"external,omitempty"`
}

// ClusterConfig is the network of one cluster.
type ClusterConfig struct {
	CIDR CIDRs `json:"cidr,omitempty"`
}

// ConfigurationSpec is what two clusters know of each other's network.
type ConfigurationSpec struct {
	// Local is this cluster's network. It follows the Networks of the installation, whatever is entered.
	Local *ClusterConfig `json:"local,omitempty"`
	// Remote is the other cluster's network, as it is there.
	Remote ClusterConfig `json:"remote,omitempty"`
}

// RemoteRange is a range of the other cluster, and where it appears here.
type RemoteRange struct {
	// Type is what the range is for: "pod" or "external".
	// +kubebuilder:validation:Enum=pod;external
	Type string `json:"type"`
	// CIDR is the range as the other cluster knows it, without bits set after its prefix.
	CIDR string `json:"cidr"`
	// SeenAs is where it appears here: a range of the same length.
	SeenAs string `json:"seenAs"`
}

// ConfigurationStatus is what became of it.
type ConfigurationStatus struct {
	// Remote is where the other cluster's ranges appear here, in the order of spec.remote, up to the first that has no place yet.
	Remote *ClusterConfig `json:"remote,omitempty"`
	// Ranges are all of them that have a place here, each with the one that it is for.
	// +listType=map
	// +listMapKey=cidr
	Ranges []RemoteRange `json:"ranges,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Configuration is the network of a peer: its ranges there, and where they appear here. It is named by the peer's cluster ID and carries
// it as label liqo.io/remote-cluster-id.
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
