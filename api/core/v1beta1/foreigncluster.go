package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Role is the role of the peer: Consumer if it may use resources of this cluster, Provider if this cluster may use its resources.
// +kubebuilder:validation:Enum=Consumer;Provider;ConsumerAndProvider;Unknown
type Role string

// Roles of the remote cluster.
const (
	RoleConsumer            Role = "Consumer"
	RoleProvider            Role = "Provider"
	RoleConsumerAndProvider Role = "ConsumerAndProvider"
	RoleUnknown             Role = "Unknown"
)

// ConditionType is the aspect of a peering that a condition of a ForeignCluster describes.
// +kubebuilder:validation:Enum=OutgoingPeering;APIServerStatus;NetworkConnectionStatus;NetworkGatewayServerStatus;NetworkGatewayClientStatus;NetworkGatewayPresence;NetworkConfigurationStatus;AuthIdentityControlPlaneStatus;AuthTenantStatus;OffloadingVirtualNodeStatus;OffloadingNodeStatus
type ConditionType string

// Condition types of a ForeignCluster.
const (
	// OutgoingPeering reports the progress of the peering that spec.outgoingPeeringEnabled requests.
	OutgoingPeering                ConditionType = "OutgoingPeering"
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

// ConditionStatus is the state that a condition of a ForeignCluster reports.
// +kubebuilder:validation:Enum=None;Pending;Established;Disconnecting;Error;Ready;NotReady;SomeNotReady
type ConditionStatus string

// Condition states of a ForeignCluster.
const (
	StatusNone          ConditionStatus = "None"
	StatusPending       ConditionStatus = "Pending"
	StatusEstablished   ConditionStatus = "Established"
	StatusDisconnecting ConditionStatus = "Disconnecting"
	StatusError         ConditionStatus = "Error"
	StatusReady         ConditionStatus = "Ready"
	StatusNotReady      ConditionStatus = "NotReady"
	StatusSomeNotReady  ConditionStatus = "SomeNotReady"
)

// Condition describes one aspect of the state of a peering.
type Condition struct {
	Type ConditionType `json:"type"`
	// +kubebuilder:default=None
	Status             ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time     `json:"lastTransitionTime,omitempty"`
	Reason             string          `json:"reason,omitempty"`
	Message            string          `json:"message,omitempty"`
}

// Module is the state of one of the three modules of a peering.
type Module struct {
	// Enabled is true if objects of this module exist for the peering.
	Enabled    bool        `json:"enabled"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Modules holds the state of the three modules of a peering.
type Modules struct {
	Networking     Module `json:"networking"`
	Authentication Module `json:"authentication"`
	Offloading     Module `json:"offloading"`
}

// TenantNamespaces names the namespaces that hold the objects of the peering, in the local cluster and in the peer.
type TenantNamespaces struct {
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
}

// PeeringType is the path of requests to the peer's API server.
// +kubebuilder:validation:Enum=OutOfBand;InBand
type PeeringType string

// Types of a peering.
const (
	// OutOfBand means that the API server is reached directly at its address.
	OutOfBand PeeringType = "OutOfBand"
	// InBand means that the API server is reached through a proxy: Liqo's own proxy behind the tunnel, or another one.
	InBand PeeringType = "InBand"
)

// Phase summarizes the state of a part of a peering.
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

// Summary is an overview of a peering, which kubectl shows in columns. The conditions give the reasons.
type Summary struct {
	// Type is the path of requests to the peer's API server.
	Type PeeringType `json:"type,omitempty"`
	// Outgoing is the state of the use of the peer's resources by this cluster.
	Outgoing Phase `json:"outgoing,omitempty"`
	// Incoming is the state of the use of this cluster's resources by the peer.
	Incoming Phase `json:"incoming,omitempty"`
	// Networking is the state of the network connection between the clusters.
	Networking Phase `json:"networking,omitempty"`
	// Authentication is the state of authentication, in each direction that is set up.
	Authentication Phase `json:"authentication,omitempty"`
}

// PeeringWish states whether this cluster is to use the resources of a peer.
// +kubebuilder:validation:Enum=Auto;No;Yes
type PeeringWish string

// Values of a PeeringWish.
const (
	// PeeringAuto establishes the peering if the peer was discovered and this cluster is configured to join discovered peers automatically. Otherwise
	// liqoctl or a user manages the peering.
	PeeringAuto PeeringWish = "Auto"
	// PeeringNo ends the peering.
	PeeringNo PeeringWish = "No"
	// PeeringYes establishes the peering.
	PeeringYes PeeringWish = "Yes"
)

// LabelDiscoveryType (on a ForeignCluster) is the way in which the peer was discovered. Only discovery sets it.
const LabelDiscoveryType = "discovery.liqo.io/discovery-type"

// Values of LabelDiscoveryType.
const (
	// DiscoveredLAN means that the peer announced itself in the local network (multicast DNS).
	DiscoveredLAN = "LAN"
	// DiscoveredDNS means that a DNS domain lists the peer.
	DiscoveredDNS = "DNS"
)

// Secret with the token for a peer's authentication service, in the namespace of the installation.
const (
	// TokenSecretPrefix precedes the peer's cluster ID in the name of the Secret.
	TokenSecretPrefix = "remote-token-"
	// TokenSecretKey is the key of the token.
	TokenSecretKey = "token"
	// TokenURLKey is the key of the authentication service's URL. Liqo sends a token without a fingerprint only to this URL.
	TokenURLKey = "url"
)

// ForeignClusterSpec identifies the peer, and states whether this cluster is to use its resources.
type ForeignClusterSpec struct {
	// ClusterID is the cluster ID of the peer.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID is immutable: create another ForeignCluster for another cluster"
	ClusterID string `json:"clusterID"`
	// OutgoingPeeringEnabled establishes (Yes) or ends (No) the use of the peer's resources by this cluster. Auto leaves a peering as it is,
	// unless this cluster is configured to join discovered peers automatically. Unless this cluster has an identity in the peer already, Yes
	// needs foreignAuthUrl, and a token in key token of Secret remote-token-<clusterID> in the namespace of the installation.
	// +kubebuilder:default=Auto
	OutgoingPeeringEnabled PeeringWish `json:"outgoingPeeringEnabled,omitempty"`
	// ForeignAuthURL is the URL of the peer's authentication service: https://host[:port].
	// +kubebuilder:validation:Pattern=`^https://`
	// +kubebuilder:validation:MaxLength=512
	ForeignAuthURL string `json:"foreignAuthUrl,omitempty"`
	// ForeignProxyURL is the URL of an HTTP CONNECT proxy in front of the peer's API server, if there is one.
	// +kubebuilder:validation:MaxLength=512
	ForeignProxyURL string `json:"foreignProxyUrl,omitempty"`
	// TTL is the validity of a discovered peer's announcement, in seconds. Discovery sets it.
	// +kubebuilder:validation:Minimum=0
	TTL int32 `json:"ttl,omitempty"`
}

// ForeignClusterStatus is the state of a peering. Liqo recomputes all of it at every reconciliation.
type ForeignClusterStatus struct {
	// Role is the role of the peer.
	// +kubebuilder:default=Unknown
	Role Role `json:"role"`
	// Peering is an overview of the peering.
	Peering            Summary          `json:"peering,omitempty"`
	Modules            Modules          `json:"modules,omitempty"`
	TenantNamespace    TenantNamespaces `json:"tenantNamespace,omitempty"`
	APIServerURL       string           `json:"apiServerUrl,omitempty"`
	ForeignProxyURL    string           `json:"foreignProxyUrl,omitempty"`
	Conditions         []Condition      `json:"conditions,omitempty"`
	ObservedGeneration int64            `json:"observedGeneration,omitempty"`
}

// ForeignCluster represents a peer of this cluster. Its name is the peer's cluster ID.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.outgoingPeeringEnabled) || self.spec.outgoingPeeringEnabled == 'Auto' || self.metadata.name == self.spec.clusterID",message="metadata.name must be the same as spec.clusterID: outgoingPeeringEnabled Yes and No are about the cluster of that ID"
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
