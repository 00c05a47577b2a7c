// Package api holds the strings that every concern shares: label and annotation keys of peering objects, the names that
// are derived from a cluster ID, and the categories of the custom resources. The kinds live in the packages below it, one per API
// group and version; strings that belong to a single kind stand beside that kind.
package api

// Labels found on more than one kind.
const (
	// LabelRemoteClusterID names the other cluster of a peering; every lookup by cluster goes through it.
	LabelRemoteClusterID = "liqo.io/remote-cluster-id"
	// LabelTenantNamespace marks (with "true") a namespace that holds the objects of one peering.
	LabelTenantNamespace = "liqo.io/tenant-namespace"
	// LabelReplication is "true" on an object to be copied to the cluster in LabelRemoteID, "false" on the copy.
	LabelReplication = "liqo.io/replication"
	// LabelRemoteID is the destination of a replicated object, on the source.
	LabelRemoteID = "liqo.io/remoteID"
	// LabelOriginID is the source cluster of a replicated object, on the copy.
	LabelOriginID = "liqo.io/originID"
	// LabelReplicated is "true" on the copy of a replicated object.
	LabelReplicated = "liqo.io/replicated"
	// LabelType tells virtual nodes, and what belongs to them, from ordinary ones; see TypeVirtualNode.
	LabelType = "liqo.io/type"
	// LabelVirtualNode names the VirtualNode that a Deployment or Pod of a virtual kubelet serves.
	LabelVirtualNode = "liqo.io/virtual-node"
	// LabelManaged is on every object of an installation, made by the chart or at run time.
	LabelManaged = "liqo.io/managed"
	// LabelWebhookSkip ("true") keeps an object away from the admission webhooks.
	LabelWebhookSkip = "liqo.io/webhook-skip"
	// LabelResourceSliceName names the ResourceSlice that an Identity or VirtualNode was made for.
	LabelResourceSliceName = "liqo.io/resourceslice-name"

	// LabelOrigin is the cluster ID a reflected object comes from.
	LabelOrigin = "offloading.liqo.io/origin"
	// LabelDestination is the cluster ID a reflected object was sent to.
	LabelDestination = "offloading.liqo.io/destination"
)

// Values of the labels above.
const (
	// True is the value of every boolean label.
	True = "true"
	// False is the value of LabelReplication on a copy.
	False = "false"
	// TypeVirtualNode is the value of LabelType.
	TypeVirtualNode = "virtual-node"
)

// AnnotationRemoteTenantNamespace (on a kubeconfig Secret) is the tenant namespace in the cluster that the kubeconfig leads to.
const AnnotationRemoteTenantNamespace = "liqo.io/remote-tenant-namespace"

// Annotations of the controller manager's own objects.
const (
	// AnnotationUninstalling ("true" on the controller manager's Deployment) relaxes checks while an installation goes away.
	AnnotationUninstalling = "liqo.io/uninstalling"
)

// Names and namespaces of an installation.
const (
	// Namespace is where Liqo is installed unless the user says otherwise.
	Namespace = "liqo"
	// StorageNamespace holds the real volumes behind the virtual storage class.
	StorageNamespace = "liqo-storage"
	// TenantNamespacePrefix precedes the remote cluster ID in the default name of a tenant namespace.
	TenantNamespacePrefix = "liqo-tenant-"
	// ClusterIDConfigMap holds this cluster's ID under ClusterIDKey.
	ClusterIDConfigMap = "liqo-clusterid-configmap"
	// ClusterIDKey is the key of the cluster ID in ClusterIDConfigMap.
	ClusterIDKey = "CLUSTER_ID"
)

// TenantNamespace is the default name of the namespace that holds the peering with a cluster.
func TenantNamespace(remoteClusterID string) string { return TenantNamespacePrefix + remoteClusterID }

// TaintVirtualNode keeps pods that did not ask for it off virtual nodes; its value is True, its effect NoExecute.
const TaintVirtualNode = "virtual-node.liqo.io/not-allowed"

// FieldManager owns the fields that reflection writes in a remote cluster.
const FieldManager = "reflection.liqo.io"
