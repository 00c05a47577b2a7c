package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Role is the part that the other cluster plays in a peering.
// +kubebuilder:validation:Enum=Consumer;Provider;ConsumerAndProvider;Unknown
type Role string

// Roles of the remote cluster.
const (
	RoleConsumer            Role = "Consumer"
	RoleProvider            Role = "Provider"
	RoleConsumerAndProvider Role = "ConsumerAndProvider"
	RoleUnknown             Role = "Unknown"
)

// ConditionType is what a condition of a ForeignCluster speaks about.
// +kubebuilder:validation:Enum=APIServerStatus;NetworkConnectionStatus;NetworkGatewayServerStatus;NetworkGatewayClientStatus;NetworkGatewayPresence;NetworkConfigurationStatus;AuthIdentityControlPlaneStatus;AuthTenantStatus;OffloadingVirtualNodeStatus;OffloadingNodeStatus
type ConditionType string

// Condition types of a ForeignCluster.
const (
	APIServerStatus                ConditionType = "APIServerStatus"
	NetworkConfigurationStatus     ConditionType = "NetworkConfigurationStatus"
	NetworkGatewayPresence         ConditionType = "NetworkGatewayPresence"
	NetworkGatewayServerStatus     ConditionType = "NetworkGatewayServerStatus"
	NetworkGatewayClientStatus     ConditionType = "NetworkGatewayClientStatus"
	NetworkConnectionStatus        ConditionType = "NetworkConnectionStatus"
	AuthIdentityControlPlaneStatus ConditionType = "AuthIdentityControlPlaneStatus"
	AuthTenantStatus               ConditionType = "AuthTenantStatus"
	OffloadingVirtualNodeStatus    ConditionType = "OffloadingVirtualNodeStatus"
	OffloadingNodeStatus           ConditionType = "OffloadingNodeStatus"
)

// ConditionStatus is the state a condition of a ForeignCluster reports.
// +kubebuilder:validation:Enum=None;Pending;Established;Error;Ready;NotReady;SomeNotReady
type ConditionStatus string

// Condition states of a ForeignCluster.
const (
	StatusNone         ConditionStatus = "None"
	StatusPending      ConditionStatus = "Pending"
	StatusEstablished  ConditionStatus = "Established"
	StatusError        ConditionStatus = "Error"
	StatusReady        ConditionStatus = "Ready"
	StatusNotReady     ConditionStatus = "NotReady"
	StatusSomeNotReady ConditionStatus = "SomeNotReady"
)

// Condition is one observation about a peering.
type Condition struct {
	Type ConditionType `json:"type"`
	// +kubebuilder:default=None
	Status             ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time     `json:"lastTransitionTime,omitempty"`
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
}

// Module is the state of one of the three parts of a peering.
type Module struct {
	// Enabled tells whether objects of this module exist for the peering.
	Enabled    bool        `json:"enabled"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Modules are the three parts of a peering.
type Modules struct {
	Networking     Module `json:"networking"`
	Authentication Module `json:"authentication"`
	Offloading     Module `json:"offloading"`
}

// TenantNamespaces are the namespaces that hold the peering, here and there.
type TenantNamespaces struct {
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
}

// PeeringType is the way that requests to the other API server take.
// +kubebuilder:validation:Enum=OutOfBand;InBand
type PeeringType string

// Types of a peering.
const (
	// OutOfBand: the API server is called at its address.
	OutOfBand PeeringType = "OutOfBand"
	// InBand: the API server is called through a proxy, that of the tunnel or another one.
	InBand PeeringType = "InBand"
)

// Phase is the state of a part of a peering in one word.
// +kubebuilder:validation:Enum=None;Pending;Established;Disconnecting;Error
type Phase string

// Phases of a part of a peering.
const (
	PhaseNone          Phase = "None"
	PhasePending       Phase = "Pending"
	PhaseEstablished   Phase = "Established"
	PhaseDisconnecting Phase = "Disconnecting"
	PhaseError         Phase = "Error"
)

// Summary is a peering at a glance: what kubectl shows in columns. The conditions tell why.
type Summary struct {
	// Type is how the other API server is called.
	Type PeeringType `json:"type,omitempty"`
	// Outgoing: this cluster uses resources of the other one.
	Outgoing Phase `json:"outgoing,omitempty"`
	// Incoming: the other cluster uses resources of this one.
	Incoming Phase `json:"incoming,omitempty"`
	// Networking between the two.
	Networking Phase `json:"networking,omitempty"`
	// Authentication, in the directions that there are.
	Authentication Phase `json:"authentication,omitempty"`
}

// ForeignClusterSpec names the other cluster.
type ForeignClusterSpec struct {
	// ClusterID of the other cluster.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID is immutable: create another ForeignCluster for another cluster"
	ClusterID string `json:"clusterID"`
}

// ForeignClusterStatus is the one place to look at a peering; it is rebuilt whole at every pass.
type ForeignClusterStatus struct {
	// Role of the other cluster.
	// +kubebuilder:default=Unknown
	Role Role `json:"role"`
	// Peering is all of it at a glance.
	Peering            Summary          `json:"peering,omitempty"`
	Modules            Modules          `json:"modules,omitempty"`
	TenantNamespace    TenantNamespaces `json:"tenantNamespace,omitempty"`
	APIServerURL       string           `json:"apiServerUrl,omitempty"`
	ForeignProxyURL    string           `json:"foreignProxyUrl,omitempty"`
	Conditions         []Condition      `json:"conditions,omitempty"`
	ObservedGeneration int64            `json:"observedGeneration,omitempty"`
}

// ForeignCluster is a cluster we peer with; its name is that cluster's ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fc,categories=liqo
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.status.role`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.peering.type`
// +kubebuilder:printcolumn:name="Outgoing Peering",type=string,JSONPath=`.status.peering.outgoing`
// +kubebuilder:printcolumn:name="Incoming Peering",type=string,JSONPath=`.status.peering.incoming`
// +kubebuilder:printcolumn:name="Networking",type=string,JSONPath=`.status.peering.networking`
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.status.peering.authentication`
// +kubebuilder:printcolumn:name="Offloading",type=string,JSONPath=`.status.modules.offloading.conditions[?(@.type=="OffloadingNodeStatus")].status`,priority=1
// +kubebuilder:printcolumn:name="API Server",type=string,JSONPath=`.status.conditions[?(@.type=="APIServerStatus")].status`,priority=1
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.spec.clusterID`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ForeignCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ForeignClusterSpec   `json:"spec,omitempty"`
	Status ForeignClusterStatus `json:"status,omitempty"`
}

// ForeignClusterList is a list of ForeignClusters.
//
// +kubebuilder:object:root=true
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ForeignCluster `json:"items"`
}
