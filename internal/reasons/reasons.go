// Package reasons defines the reasons of the Events that Liqo emits and of the conditions that it sets. Other packages use these constants, or those
// of the API packages, so that a reason means the same everywhere, and the reference page lists all of them.
package reasons

// Reasons of several kinds of objects.
const (
	Reconciled           = "Reconciled"
	Error                = "Error"
	Invalid              = "Invalid"
	NameTaken            = "NameTaken"
	Duplicate            = "Duplicate"
	TenantNotFound       = "TenantNotFound"
	NamespaceTerminating = "NamespaceTerminating"
	WaitingForCache      = "WaitingForCache"
)

// Reasons of authentication.
const (
	NonceGenerated              = "NonceGenerated"
	NonceSigned                 = "NonceSigned"
	NonceNotFound               = "NonceNotFound"
	InvalidNonce                = "InvalidNonce"
	SignatureVerificationFailed = "SignatureVerificationFailed"
	InvalidCSR                  = "InvalidCSR"
	TenantNamespaceNotFound     = "TenantNamespaceNotFound"
	WrongNamespace              = "WrongNamespace"
	WaitingForSignature         = "WaitingForSignature"
	DeletingCopies              = "DeletingCopies"
	EndingPods                  = "EndingPods"
	WaitingForDeletion          = "WaitingForDeletion"
	InvalidAuthParams           = "InvalidAuthParams"
	IdentityEnsured             = "IdentityEnsured"
	IdentityNotFound            = "IdentityNotFound"
	KubeconfigEnsured           = "KubeconfigEnsured"
	WaitingForKubeconfig        = "WaitingForKubeconfig"
	CertificateRenewed          = "CertificateRenewed"
	WaitingForInvitation        = "WaitingForInvitation"
	InvitationInvalid           = "InvitationInvalid"
	InvitationExpired           = "InvitationExpired"
	InvitationRefused           = "InvitationRefused"
	InvitationUnconfirmed       = "InvitationUnconfirmed"
	ProviderUnreachable         = "ProviderUnreachable"
	DeletingTenant              = "DeletingTenant"
	VirtualNodeNotFound         = "VirtualNodeNotFound"
	IdentityManagerApproval     = "IdentityManagerApproval"
	LiqoApproval                = "LiqoApproval"
)

// Reasons of addresses.
const (
	Conflict          = "Conflict"
	Exhausted         = "Exhausted"
	WaitingForNetwork = "WaitingForNetwork"
	PodAddress        = "PodAddress"
	NotExternal       = "NotExternal"
	InUse             = "InUse"
	Remapped          = "Remapped"
	ServiceRefused    = "ServiceRefused"
)

// Reasons of the network between two clusters.
const (
	KeysSecretEnforced       = "KeysSecretEnforced"
	KeysSecretEnforcedFailed = "KeysSecretEnforcedFailed"
	MissingSecretRef         = "MissingSecretRef"
	DeploymentEnforced       = "DeploymentEnforced"
	ServiceEnforced          = "ServiceEnforced"
	TemplateNotFound         = "TemplateNotFound"
	InvalidTemplate          = "InvalidTemplate"
	RejectedByAPIServer      = "RejectedByAPIServer"
	WaitingForEndpoint       = "WaitingForEndpoint"
	GatewayStarting          = "GatewayStarting"
	PublicKeyNotFound        = "PublicKeyNotFound"
	Negotiating              = "Negotiating"
	NoLoadBalancer           = "NoLoadBalancer"
)

// Reasons of offloading.
const (
	PodsNotRescheduled        = "PodsNotRescheduled"
	WaitingForAdmission       = "WaitingForAdmission"
	MissingOriginLabel        = "MissingOriginLabel"
	MissingConsumerLabel      = "MissingConsumerLabel"
	FailedCreatePod           = "FailedCreatePod"
	FailedUpdatePod           = "FailedUpdatePod"
	QuotaExceeded             = "QuotaExceeded"
	ReportedByConsumer        = "ReportedByConsumer"
	RemotePodTerminating      = "RemotePodTerminating"
	RemoteUnavailable         = "RemoteUnavailable"
	ConsumerUnreachable       = "ConsumerUnreachable"
	SuccessfulReflection      = "SuccessfulReflection"
	FailedReflection          = "FailedReflection"
	IngressWithdrawn          = "IngressWithdrawn"
	ResourceSliceNotAccepted  = "ResourceSliceNotAccepted"
	WaitingForIdentity        = "WaitingForIdentity"
	VirtualNodeCreated        = "VirtualNodeCreated"
	VirtualNodeTerminating    = "VirtualNodeTerminating"
	NodeNameTaken             = "NodeNameTaken"
	VkOptionsTemplateNotFound = "VkOptionsTemplateNotFound"
	VkCreating                = "VkCreating"
	VkCreated                 = "VkCreated"
	VkRunning                 = "VkRunning"
	VkDeleting                = "VkDeleting"
	VkDeleted                 = "VkDeleted"
	NodeNotWanted             = "NodeNotWanted"
	NodeCreating              = "NodeCreating"
	NodeCreated               = "NodeCreated"
	NodeDraining              = "NodeDraining"
	NodeDeleting              = "NodeDeleting"
	NodeDeleted               = "NodeDeleted"
	DrainTimedOut             = "DrainTimedOut"
)

// Reasons of storage. Other provisioners use the first two as well.
const (
	ProvisioningSucceeded = "ProvisioningSucceeded"
	ProvisioningFailed    = "ProvisioningFailed"
	VolumeRecovered       = "VolumeRecovered"
)

// Reasons of the conditions of a virtual Node.
const (
	KubeletReady                     = "KubeletReady"
	KubeletNotReady                  = "KubeletNotReady"
	AccessRevoked                    = "AccessRevoked"
	LiqoNetworkingUp                 = "LiqoNetworkingUp"
	NodesInterrupted                 = "NodesInterrupted"
	NoNodeInterrupted                = "NoNodeInterrupted"
	LiqoNetworkingDown               = "LiqoNetworkingDown"
	RemoteClusterHasSufficientMemory = "RemoteClusterHasSufficientMemory"
	RemoteClusterHasNoDiskPressure   = "RemoteClusterHasNoDiskPressure"
	RemoteClusterHasNoPIDPressure    = "RemoteClusterHasNoPIDPressure"
)

// Reasons of the conditions of a ForeignCluster. Conditions that count objects have one of the Counted words, followed by Ready, SomeNotReady or
// NotReady.
const (
	APIServerReady              = "APIServerReady"
	APIServerNotReady           = "APIServerNotReady"
	TooManyCopies               = "TooManyCopies"
	NetworkConfigurationPresent = "NetworkConfigurationPresence"
	NetworkConfigurationMissing = "NetworkConfigurationMissing"
	GatewayPresence             = "GatewayPresence"
	GatewayMissing              = "GatewayMissing"
	ConnectionEstablished       = "ConnectionEstablished"
	ConnectionPending           = "ConnectionPending"
	ConnectionError             = "ConnectionError"
	ConnectionMissing           = "ConnectionMissing"
	CountedTenant               = "Tenant"
	CountedIdentity             = "Identity"
	CountedGateways             = "Gateways"
	CountedVirtualNodes         = "VirtualNodes"
	CountedNodes                = "Nodes"
)

// Reasons of condition OutgoingPeering of a ForeignCluster, which reports the progress of the peering that its spec requests.
const (
	NameDiffers             = "NameDiffers"
	OwnClusterID            = "OwnClusterID"
	DeclaredUnreachable     = "DeclaredUnreachable"
	NamespaceTaken          = "NamespaceTaken"
	AddressMissing          = "AddressMissing"
	AddressInvalid          = "AddressInvalid"
	ProxyInvalid            = "ProxyInvalid"
	TokenMissing            = "TokenMissing"
	TokenInvalid            = "TokenInvalid"
	TokenExpired            = "TokenExpired"
	TokenWithoutFingerprint = "TokenWithoutFingerprint"
	CreatingNamespace       = "CreatingNamespace"
	NamespaceDeleting       = "NamespaceDeleting"
	EarlierPeering          = "EarlierPeering"
	Enrolling               = "Enrolling"
	IdentityNotReady        = CountedIdentity + "NotReady"
	AskingForResources      = "AskingForResources"
	WaitingForResources     = "WaitingForResources"
	PeeringEstablished      = "PeeringEstablished"
	ReleasingResources      = "ReleasingResources"
	ReleasingNetwork        = "ReleasingNetwork"
	NetworkInUse            = "NetworkInUse"
	Resigning               = "Resigning"
	NotPeered               = "NotPeered"
)
