package reasons

import (
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Reason is one line of the reference page.
type Reason struct {
	Name string
	// Objects are the kinds of objects with Events and conditions of this reason.
	Objects string
	// Shown is where users find the reason: in Events, in a condition, or in the log of the controller manager.
	Shown string
	// Meaning describes the event, or the condition for which the object waits, and the fix if users have to act.
	Meaning string
}

// Area is a section of the reference page.
type Area struct {
	Title   string
	Reasons []Reason
}

// Places where users find a reason.
const (
	event      = "Event"
	ready      = "condition Ready"
	readyEvent = "condition Ready, Event"
	logged     = "log"
	// Conditions of an Identity and of a ForeignCluster that asks for a peering.
	readyOutgoing = "conditions Ready, OutgoingPeering"
)

// Areas returns all reasons, in the order of the reference page.
func Areas() []Area {
	return []Area{
		{"Several kinds", several()}, {"Authentication and resources", authentication()}, {"ForeignCluster", foreignCluster()}, {"Peerings that a ForeignCluster asks for", outgoingPeering()},
		{"Addresses", addresses()}, {"Network", network()}, {"Offloading", offloading()}, {"Virtual nodes", virtualNodes()}, {"Storage", storage()},
	}
}

func several() []Reason {
	return []Reason{
		{Reconciled, "every kind with condition Ready, Tenant", readyEvent,
			"The cluster matches the spec of the object. The Event of a Tenant says that the provider signed the consumer's certificate and granted " +
				"its permissions."},
		{Error, "every kind with condition Ready", ready,
			"The last attempt failed with the error in the message. The controller manager retries with growing delays."},
		{Invalid, "every kind with condition Ready, VirtualNode, ShadowEndpointSlice", "conditions Ready, VirtualKubelet, Node, Event",
			"The object is invalid, and Liqo ignores it until a user changes it. The message names the field, the value and the fix."},
		{NameTaken, "Tenant, GatewayServer, GatewayClient, ShadowPod, ShadowEndpointSlice, IP, ResourceSlice, Secret", readyEvent,
			"Another object has the name that Liqo needs, and Liqo does not change it. The message names that object: delete it, or create yours again under another name."},
		{Duplicate, "Tenant, GatewayServer, GatewayClient, IP", readyEvent,
			"Another object serves the same purpose and takes precedence: an older Tenant of the cluster, another gateway to it, or an IP for the " +
				"same address. Delete one of the two."},
		{TenantNotFound, "ResourceOffer, ResourceSlice, Renew", "condition Ready, log",
			"The provider has no Tenant of the consumer. Peer the clusters, or correct the cluster ID in the object."},
		{NamespaceTerminating, "ShadowPod, ShadowEndpointSlice", logged, "The remote namespace is being deleted, so the provider creates nothing in it."},
		{WaitingForCache, "ShadowPod, ShadowEndpointSlice, VirtualNode", logged,
			"The controller manager waits until its cache has a recent change. It retries within seconds."},
	}
}

func authentication() []Reason {
	return []Reason{
		{NonceGenerated, "Secret", event, "The provider wrote a nonce for the consumer into the Secret."},
		{NonceSigned, "Secret", event, "The consumer wrote its signature of the provider's nonce into the Secret."},
		{NonceNotFound, "Tenant", ready, "The provider has no nonce for the consumer. Create one with liqoctl create nonce."},
		{InvalidNonce, "Secret", logged, "The Secret of the consumer has no valid nonce. Create it again with the nonce of the provider."},
		{SignatureVerificationFailed, "Tenant", readyEvent,
			"The signature in the Tenant does not fit the nonce and the public key. Create the Tenant again, from the current nonce: liqoctl " +
				"generate tenant."},
		{InvalidCSR, "Tenant, CertificateSigningRequest", "condition Ready, Event, log",
			"The certificate request has another subject or key than it must have. The message names the field. Create the request again, for " +
				"example with liqoctl generate tenant."},
		{TenantNamespaceNotFound, "Tenant, Identity, Secret", "condition Ready, log",
			"The namespace of the object is not in the cache of the controller manager yet."},
		{WrongNamespace, "Tenant, Identity, Secret", "condition Ready, log",
			"The object is not in the tenant namespace of its cluster. Create it in the namespace that the message names."},
		{WaitingForSignature, "Tenant, ResourceSlice, Renew", "condition Ready, log",
			"The signer of the provider's Kubernetes has not signed the CertificateSigningRequest in the message. Check kube-controller-manager."},
		{WaitingForDeletion, "Tenant, ResourceSlice, Renew", "condition Ready, log",
			"The ServiceAccount that the message names is being deleted. If that lasts, a finalizer on it holds it: find out which program set it."},
		{DeletingCopies, "Tenant, Secret", "condition Ready, log", "The other cluster still has copies of replicated objects, which are being deleted."},
		{EndingPods, "Tenant", "condition Ready",
			"The Tenant is drained or being deleted, and pods of its cluster still terminate. If that lasts, a finalizer or a failed node holds them."},
		{authv1beta1.ReasonAuthenticationAccepted, "ResourceSlice", "condition Authentication, Event", "The provider signed the certificate of the ResourceSlice."},
		{authv1beta1.ReasonAuthenticationDenied, "ResourceSlice", "condition Authentication, Event",
			"The provider refuses the certificate request of the ResourceSlice. The message says why."},
		{authv1beta1.ReasonTooMany, "ResourceSlice", "condition Authentication, Event",
			"The consumer has as many ResourceSlices as the provider allows. Delete one, or ask the provider's administrator for a higher limit."},
		{authv1beta1.ReasonResourcesAccepted, "ResourceSlice", "condition Resources, Event",
			"The provider granted the resources in the status, maybe fewer than requested."},
		{authv1beta1.ReasonResourcesDenied, "ResourceSlice", "condition Resources, Event",
			"The provider granted nothing. The message says why, for example that the tenant is drained."},
		{authv1beta1.ReasonDefaultClassDisabled, "ResourceSlice", "condition Resources, Event",
			"The provider grants nothing to ResourceSlices of class default. Use the class of a controller that the provider runs."},
		{InvalidAuthParams, "Identity", ready,
			"The Identity has a wrong URL, CA or certificate. The message names the field. Create it again: liqoctl generate identity."},
		{IdentityEnsured, "Identity, ResourceSlice", event, "The consumer wrote the access that the provider granted into an Identity."},
		{IdentityNotFound, "Secret", logged, "The Identity of the kubeconfig in the Secret does not exist, or is not in the cache yet."},
		{KubeconfigEnsured, "Identity", event, "The consumer wrote the kubeconfig of the Identity into a Secret."},
		{WaitingForKubeconfig, "Identity", ready, "The provider admitted the consumer, which has not written the kubeconfig yet."},
		{CertificateRenewed, "Identity", event, "The provider renewed the certificate of the Identity."},
		{WaitingForInvitation, "Identity", ready,
			"The peer sent an invitation, and no administrator of this cluster accepted it. liqoctl peer NAME accepts it."},
		{InvitationInvalid, "Identity, ForeignCluster", readyOutgoing,
			"Secret liqo-invitation has a wrong URL, token or proxy. Ask the provider for another one: liqoctl generate peer-command."},
		{InvitationExpired, "Identity, ForeignCluster", readyOutgoing,
			"The token in Secret liqo-invitation has expired. Ask the provider for another one: liqoctl generate peer-command."},
		{InvitationRefused, "Identity, ForeignCluster", readyOutgoing,
			"The provider's authentication service rejected the enrollment. The message says why."},
		{InvitationUnconfirmed, "Identity, ForeignCluster", readyOutgoing,
			"A Tenant with the ID of the provider enrolled with a token for any cluster, so it may be another cluster. The message has both keys, and how an administrator confirms that they belong to one cluster."},
		{ProviderUnreachable, "Identity, ForeignCluster", readyOutgoing,
			"The provider's authentication service or API server does not respond. Check its URL, and the network to it. The consumer retries."},
		{DeletingTenant, "Secret", logged, "The consumer deletes its Tenant in the provider, which ends the peering there, and retries until the provider responds."},
		{VirtualNodeNotFound, "CertificateSigningRequest", logged, "The VirtualNode whose virtual kubelet requests a serving certificate is not in the cache yet."},
		{IdentityManagerApproval, "CertificateSigningRequest", "condition Approved", "The provider checked and approved the certificate request of a consumer."},
		{LiqoApproval, "CertificateSigningRequest", "condition Approved", "The consumer checked and approved the serving certificate request of a virtual kubelet."},
	}
}

func foreignCluster() []Reason {
	const cluster = "ForeignCluster"
	counted := func(word, condition, meaning string) Reason {
		return Reason{word + "Ready, " + word + "SomeNotReady, " + word + "NotReady", cluster, condition, meaning}
	}
	return []Reason{
		{APIServerReady, cluster, "condition APIServerStatus", "The provider's API server responds."},
		{APIServerNotReady, cluster, "condition APIServerStatus",
			"The provider's API server does not respond. Check its address in the message, and the proxy or the network to it."},
		{TooManyCopies, cluster, "condition APIServerStatus",
			"The provider has more copies of this cluster's objects, or larger ones, than this cluster reads: 1000 of a kind, 16 MiB of a kind, 32 MiB in one " +
				"response. Ask the administrator of the provider to delete those that are not needed."},
		counted(CountedTenant, "condition AuthTenantStatus", "Whether the peer can use its Tenant in this cluster."),
		counted(CountedIdentity, "conditions AuthIdentityControlPlaneStatus, OutgoingPeering", "Whether this cluster can use its Identity in the peer."),
		{NetworkConfigurationPresent, cluster, "condition NetworkConfigurationStatus", "The address ranges of the peer are mapped in this cluster."},
		{NetworkConfigurationMissing, cluster, "condition NetworkConfigurationStatus",
			"There is no Configuration with the address ranges of the peer. Run liqoctl network connect."},
		{GatewayPresence, cluster, "condition NetworkGatewayPresence", "There is a gateway to the peer."},
		{GatewayMissing, cluster, "condition NetworkGatewayPresence", "There is no GatewayServer or GatewayClient to the peer. Run liqoctl network connect."},
		counted(CountedGateways, "conditions NetworkGatewayServerStatus, NetworkGatewayClientStatus", "How many gateways to the peer are ready."),
		{ConnectionEstablished, cluster, "condition NetworkConnectionStatus", "The peer answers through the tunnel. The message has the latency."},
		{ConnectionPending, cluster, "condition NetworkConnectionStatus", "The peer has not answered through the tunnel yet."},
		{ConnectionError, cluster, "condition NetworkConnectionStatus", "The peer no longer answers through the tunnel. The message says why."},
		{ConnectionMissing, cluster, "condition NetworkConnectionStatus", "No gateway has reported the state of its tunnel yet."},
		counted(CountedVirtualNodes, "condition OffloadingVirtualNodeStatus", "How many VirtualNodes of the peer have a running virtual kubelet."),
		counted(CountedNodes, "condition OffloadingNodeStatus", "How many virtual nodes of the peer are ready."),
	}
}

func outgoingPeering() []Reason {
	const cluster, outgoing = "ForeignCluster", "condition OutgoingPeering, Event"
	return []Reason{
		{NameDiffers, cluster, outgoing, "metadata.name and spec.clusterID differ. Create the ForeignCluster again, with the cluster ID as its name."},
		{OwnClusterID, cluster, outgoing, "spec.clusterID is the ID of this cluster, which cannot peer with itself."},
		{DeclaredUnreachable, cluster, outgoing, "An annotation declares the cluster unreachable for good. Remove it to peer again."},
		{NamespaceTaken, cluster, outgoing, "A namespace has the name of the tenant namespace, but not its labels. Add the labels in the message, or delete the namespace if it is not in use."},
		{AddressMissing, cluster, outgoing,
			"spec.foreignAuthUrl is empty. Set it to the URL of the provider's authentication service, which liqoctl generate peer-command prints there."},
		{AddressInvalid, cluster, outgoing, "spec.foreignAuthUrl is not the URL of an authentication service. The message says why."},
		{ProxyInvalid, cluster, outgoing, "spec.foreignProxyUrl is not the URL of a proxy. The message says why."},
		{TokenMissing, cluster, outgoing,
			"The Secret in the message has no token. Add the token that liqoctl generate peer-command prints in the provider."},
		{TokenInvalid, cluster, outgoing, "The token in the Secret is damaged, or for another cluster. Ask the provider for another one."},
		{TokenExpired, cluster, outgoing, "The token in the Secret has expired. Ask the provider for another one."},
		{TokenWithoutFingerprint, cluster, outgoing,
			"The token has no fingerprint of the provider's key, and spec.foreignAuthUrl was discovered or is not the URL in the Secret. Ask the provider for a token that was made without --trusted-certificate. If the address was not discovered, you can also set data.url of the Secret."},
		{CreatingNamespace, cluster, outgoing, "The controller manager creates the tenant namespace."},
		{NamespaceDeleting, cluster, outgoing, "The tenant namespace of an earlier peering is being deleted."},
		{EarlierPeering, cluster, outgoing, "An object of an earlier peering is being deleted. The message names it."},
		{Enrolling, cluster, outgoing, "The consumer enrolls with the provider's authentication service. The message says what it waits for."},
		{AskingForResources, cluster, outgoing, "The controller manager creates the ResourceSlice, and the NetworkRequest if the network is negotiated."},
		{WaitingForResources, cluster, outgoing, "The virtual node is not ready yet. The message says what it waits for."},
		{PeeringEstablished, cluster, outgoing, "The clusters are peered, and the virtual node is ready."},
		{ReleasingResources, cluster, outgoing, "The peering ends: the object in the message, or a remote namespace, is being deleted."},
		{ReleasingNetwork, cluster, outgoing, "The peering ends: the network that was negotiated for it is being deleted."},
		{NetworkInUse, cluster, outgoing, "The resources are released. The network and the Identity stay until the other cluster no longer uses this one."},
		{Resigning, cluster, outgoing, "The peering ends: the consumer deletes its Identity, and its Tenant in the provider."},
		{NotPeered, cluster, outgoing, "This cluster uses no resources of the other cluster."},
	}
}

func addresses() []Reason {
	return []Reason{
		{Conflict, "Network, IP", readyEvent, "A range or an address overlaps another one, which the message names. Change or delete one of the two."},
		{Exhausted, "Network, IP", readyEvent, "No range or address is free. Add a pool (value ipam.pools), or a larger external CIDR."},
		{WaitingForNetwork, "IP", ready, "The Network of the address has no range yet."},
		{PodAddress, "IP", readyEvent, "spec.ip is the address of a pod of this cluster, which peers reach without an IP. Delete the IP."},
		{NotExternal, "IP", readyEvent, "The address is outside the external CIDR, so peers cannot reach it. Delete the IP, and create it again without spec.networkRef."},
		{InUse, "Network", readyEvent, "The Network is being deleted, and IPs still have addresses of it. Delete these IPs."},
		{Remapped, "Network", event, "The range is in use in this cluster, so it appears here under another range."},
		{ServiceRefused, "IP", readyEvent, "The API server does not accept spec.serviceTemplate of the IP. The message says why."},
	}
}

func network() []Reason {
	const gateway = "GatewayServer, GatewayClient"
	return []Reason{
		{KeysSecretEnforced, gateway, event, "The controller manager created the Secret with the keys of the gateway."},
		{KeysSecretEnforcedFailed, gateway, readyEvent,
			"The Secret of the gateway has no valid keys. Correct it, or delete it so that Liqo creates new keys."},
		{MissingSecretRef, gateway, readyEvent, "The Secret in spec.secretRef does not exist. Create it."},
		{DeploymentEnforced, gateway, event, "The controller manager created or updated the Deployment of the gateway."},
		{ServiceEnforced, "GatewayServer", event, "The controller manager created or updated the Service of the gateway."},
		{TemplateNotFound, gateway, ready, "The template of the gateway does not exist. Create it, or name another one."},
		{InvalidTemplate, gateway, ready, "The template of the gateway cannot be rendered. The message names the field."},
		{RejectedByAPIServer, gateway, ready, "The API server rejects an object of the gateway, for example because the template or the endpoint requests a node port that is in use."},
		{WaitingForEndpoint, "GatewayServer", ready,
			"The Service of the gateway has no address yet. The message says what it waits for, for example a load balancer."},
		{NoLoadBalancer, "GatewayServer", event,
			"The Service of the gateway has no address of a load balancer, so peers dial its node port. Set spec.endpoint.serviceType to NodePort to use it without waiting."},
		{GatewayStarting, gateway, ready, "No pod of the gateway is available yet."},
		{PublicKeyNotFound, gateway, "condition Connected",
			"The public key of the peer's gateway is missing. Run liqoctl network connect, or create the PublicKey that the message names."},
		{networkingv1beta1.Connecting, gateway + ", Connection", "condition Connected", "The peer has not answered through the tunnel yet."},
		{networkingv1beta1.Connected, gateway + ", Connection", "condition Connected", "The peer answers through the tunnel."},
		{networkingv1beta1.ReasonCIDRsConfigured, "Configuration", "condition NetworkCIDRsConfigured", "Every range of the peer is mapped in this cluster."},
		{networkingv1beta1.ReasonWaitingForNetworks, "Configuration", "conditions NetworkCIDRsConfigured, Ready",
			"Some ranges of the peer are not mapped yet. The message says which, and why."},
		{Negotiating, "NetworkRequest", ready, "One of the two clusters has not reported its ranges, its key or its endpoint yet."},
	}
}

func offloading() []Reason {
	const namespace, pod = "NamespaceOffloading", "ShadowPod"
	return []Reason{
		{offloadingv1beta1.ReasonClusterSelected, namespace, "condition OffloadingRequired", "The cluster selector selects the cluster."},
		{offloadingv1beta1.ReasonClusterNotSelected, namespace, "condition OffloadingRequired", "The cluster selector does not select the cluster."},
		{offloadingv1beta1.ReasonNamespaceProtected, namespace, "condition OffloadingRequired, Event",
			"The namespace is protected and never offloaded. The message says by which rule."},
		{offloadingv1beta1.ReasonCreating, namespace, "condition Ready", "The provider has not reported the remote namespace yet."},
		{offloadingv1beta1.ReasonNamespaceCreated, namespace, "condition Ready", "The provider created the remote namespace."},
		{offloadingv1beta1.ReasonCreationLoopBackOff, namespace, "condition Ready",
			"The provider cannot create the remote namespace. The message lists the possible causes. The provider retries."},
		{offloadingv1beta1.ReasonTerminating, namespace + ", NamespaceMap, VirtualNode", "condition Ready, log", "The provider is deleting the remote namespaces."},
		{offloadingv1beta1.ReasonVolumesKept, namespace + ", VirtualNode, NamespaceMap", "conditions OffloadingRequired, Node, Event, log",
			"The end of the offloading would delete data of volumes in the provider, so it waits. The message names the claims. Copy the data and " +
				"delete the claims, or abandon the data with annotation liqo.io/delete-volumes=true. On a NamespaceMap in a provider, " +
				"the message names a remote namespace with claims, which stays because the NamespaceMap that granted it was deleted or replaced, or does not release it. No annotation ends it: copy the data and delete the claims."},
		{PodsNotRescheduled, namespace, event,
			"Some pods are older than the strategy of their namespace, which does not apply to them. Delete these pods, so that their controllers create them again."},
		{WaitingForAdmission, namespace, logged, "The API server does not call the webhook for new pods of the namespace yet."},
		{MissingOriginLabel, "NamespaceMap", logged, "The NamespaceMap has no label with the cluster ID of its origin. Only replication should create it."},
		{MissingConsumerLabel, "ShadowEndpointSlice", logged, "The namespace is not a remote namespace: it has no label with the cluster ID of a consumer."},
		{FailedCreatePod, pod, event, "The provider could not create the remote pod. The message says why."},
		{FailedUpdatePod, pod, event, "The provider could not apply a change to the remote pod. The message says why. The pod runs without the change."},
		{QuotaExceeded, pod, event, "The quota of the consumer has no room for the pod. Request more in a ResourceSlice, or delete other pods."},
		{ReportedByConsumer, "Pod", "conditions of readiness gates", "The consumer reported this condition of the local pod."},
		{offloadingv1beta1.PodOffloadingBackOff, "Pod", "reason of the pod",
			"The pod is bound to a virtual node, and its namespace is not offloaded there. Offload the namespace, or delete the pod."},
		{offloadingv1beta1.PodOffloadingAborted, "Pod", "reason of the pod",
			"The provider ended the offloading of the pod, or its namespace is no longer offloaded."},
		{offloadingv1beta1.PodRemoteTerminated, "Pod", "reason of the pod", "The pod ended in the provider, and the remote pod no longer exists."},
		{RemotePodTerminating, "Pod", ready, "The remote pod is being deleted or is gone, and the provider will create it again."},
		{RemoteUnavailable, "Pod", ready, "The provider is unreachable, so the state of the pod is unknown."},
		{offloadingv1beta1.ReasonAddressRefused, "ShadowEndpointSlice, ShadowPod", "condition EndpointsAccepted, Event, log",
			"The consumer reported an address that cannot be its own. The message names it."},
		{offloadingv1beta1.ReasonNoTranslation, "ShadowEndpointSlice, ShadowPod", "condition EndpointsAccepted, Event, log",
			"The provider has not mapped the ranges of the consumer yet."},
		{ConsumerUnreachable, "ShadowEndpointSlice", logged, "The consumer is unreachable. When that lasts, the provider marks the endpoints not ready."},
		{SuccessfulReflection, "reflected objects", event, "The provider has the present version of the object."},
		{FailedReflection, "reflected objects", event,
			"The provider rejected the object, has another one of its name, or gives a claim no volume. The message says why."},
		{IngressWithdrawn, "Ingress", event,
			"The provider deleted the Ingress of a consumer, because the provider itself or another consumer serves one of its hosts. Use another host."},
	}
}

func virtualNodes() []Reason {
	const virtualNode, kubelet, node = "VirtualNode", "condition VirtualKubelet", "condition Node"
	return []Reason{
		{ResourceSliceNotAccepted, "ResourceSlice", logged, "The provider has not accepted the ResourceSlice yet."},
		{WaitingForIdentity, "ResourceSlice", logged, "The Identity of the ResourceSlice has no kubeconfig yet."},
		{VirtualNodeCreated, "ResourceSlice", event, "The controller manager created the VirtualNode of the ResourceSlice."},
		{VirtualNodeTerminating, "ResourceSlice", logged, "The VirtualNode of the ResourceSlice is being deleted."},
		{NodeNameTaken, virtualNode + ", ForeignCluster", "conditions VirtualKubelet, Node, OutgoingPeering",
			"Another VirtualNode or a real Node has the name. Create the VirtualNode again under another name."},
		{VkOptionsTemplateNotFound, virtualNode, kubelet,
			"The VkOptionsTemplate that the message names does not exist. Create it, or name another one in spec.vkOptionsTemplateRef."},
		{VkCreating, virtualNode, kubelet, "No pod of the virtual kubelet is available yet."},
		{VkCreated, virtualNode, event, "The controller manager created the Deployment of the virtual kubelet."},
		{VkRunning, virtualNode, kubelet, "The virtual kubelet runs."},
		{VkDeleting, virtualNode, kubelet, "The controller manager deletes the Deployment of the virtual kubelet."},
		{VkDeleted, virtualNode, kubelet + ", Event", "The Deployment of the virtual kubelet is deleted."},
		{NodeNotWanted, virtualNode, node, "spec.createNode is false, so there is no Node."},
		{NodeCreating, virtualNode, node, "The virtual kubelet has not created the Node yet."},
		{NodeCreated, virtualNode, node, "The Node exists."},
		{NodeDraining, virtualNode, node, "The VirtualNode is being deleted, and the pods on its Node are being evicted."},
		{NodeDeleting, virtualNode, node, "The Node is being deleted."},
		{NodeDeleted, virtualNode, node, "The Node is deleted."},
		{DrainTimedOut, virtualNode, event, "Some pods on the Node did not terminate in time, and the deletion goes on without them. The message names them."},
		{string(offloadingv1beta1.VirtualNodeDraining), "ResourceSlice, VirtualNode", logged, "The pods on the virtual node have to terminate first."},
		{KubeletReady, "Node", ready, "The provider responds."},
		{KubeletNotReady, "Node", ready, "The provider does not respond, or the network to it does not work. The message says which."},
		{AccessRevoked, "Node, ForeignCluster, ResourceSlice",
			ready + " of the Node, condition AuthIdentityControlPlaneStatus of the ForeignCluster, all conditions of the ResourceSlice, Event",
			"The provider denies all access, or (Node, ResourceSlice and Event) rejects the identity. The message says what to do: its administrator admits a drained consumer again with liqoctl activate tenant."},
		{NodesInterrupted, "Node", "condition ProviderNodesInterrupted, Event",
			"Nodes of the provider, for example spot instances, are about to be terminated or do not work. The message names them. Their pods may end, and the " +
				"virtual node has less capacity until other nodes replace them."},
		{NoNodeInterrupted, "Node", "condition ProviderNodesInterrupted, Event",
			"The interrupted nodes of the provider were removed, or accept pods again."},
		{LiqoNetworkingUp, "Node", "condition NetworkUnavailable", "The network to the provider works."},
		{LiqoNetworkingDown, "Node", "condition NetworkUnavailable", "The network to the provider does not work. Run liqoctl info peer, or liqoctl doctor."},
		{RemoteClusterHasSufficientMemory, "Node", "condition MemoryPressure", "Constant: memory is the provider's concern."},
		{RemoteClusterHasNoDiskPressure, "Node", "condition DiskPressure", "Constant: disks are the provider's concern."},
		{RemoteClusterHasNoPIDPressure, "Node", "condition PIDPressure", "Constant: process IDs are the provider's concern."},
	}
}

func storage() []Reason {
	return []Reason{
		{ProvisioningSucceeded, "PersistentVolumeClaim", event, "Liqo created the volume of the claim."},
		{ProvisioningFailed, "PersistentVolumeClaim, Pod", event,
			"Liqo cannot create the volume of the claim, and retries. The message says why."},
		{VolumeRecovered, "PersistentVolume", event,
			"A provider has data of a claim, and this cluster had no volume for it, for example after a restore from a backup. Liqo created the volume again, which retains the data. The " +
				"message says how to use the data and how to delete it."},
	}
}
