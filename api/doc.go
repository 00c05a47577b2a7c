// Package api holds definitions that several API groups share: label and annotation keys of peering objects, names that are derived from a cluster
// ID, the order in which objects take precedence, and the selection of nodes that other clusters reach.
//
// The subpackages define the kinds, one package per API group and version. A string that belongs to a single kind is declared next to it.
package api

// Labels that more than one kind carries.
const (
	// LabelRemoteClusterID is the cluster ID of the peer. Every lookup of objects by cluster selects this label.
	LabelRemoteClusterID = "liqo.io/remote-cluster-id"
	// LabelTenantNamespace marks (with "true") a namespace that holds the objects of one peering.
	LabelTenantNamespace = "liqo.io/tenant-namespace"
	// LabelReplication is "true" on an object that is replicated to the cluster in LabelRemoteID, and "false" on its copy there.
	LabelReplication = "liqo.io/replication"
	// LabelRemoteID (on the source of a replicated object) is the ID of the destination cluster.
	LabelRemoteID = "liqo.io/remoteID"
	// LabelOriginID (on the copy of a replicated object) is the ID of the source cluster.
	LabelOriginID = "liqo.io/originID"
	// LabelReplicated is "true" on the copy of a replicated object.
	LabelReplicated = "liqo.io/replicated"
	// LabelType distinguishes virtual nodes, and the objects that belong to them, from ordinary nodes; see TypeVirtualNode.
	LabelType = "liqo.io/type"
	// LabelVirtualNode (on the Deployment and Pods of a virtual kubelet) is the name of its VirtualNode.
	LabelVirtualNode = "liqo.io/virtual-node"
	// LabelStorageProvisioner ("true") marks the storage namespace, which has the backing claims of Liqo's StorageClass.
	LabelStorageProvisioner = "liqo.io/storage-provisioner"
	// LabelManaged ("true") marks the objects that Liqo created, through the chart or at run time.
	LabelManaged = "liqo.io/managed"
	// LabelWebhookSkip ("true") exempts an object from the admission webhooks of other versions. This version neither sets nor reads it.
	LabelWebhookSkip = "liqo.io/webhook-skip"
	// LabelResourceSliceName (on an Identity or VirtualNode) is the name of the ResourceSlice that it was created for.
	LabelResourceSliceName = "liqo.io/resourceslice-name"

	// LabelOrigin is the ID of the cluster that a reflected object was copied from.
	LabelOrigin = "offloading.liqo.io/origin"
	// LabelDestination is the ID of the cluster that a reflected object was copied to.
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

// AnnotationRemoteTenantNamespace (on a kubeconfig Secret) is the tenant namespace in the cluster that the kubeconfig gives access to.
const AnnotationRemoteTenantNamespace = "liqo.io/remote-tenant-namespace"

// AnnotationSourceUID (on the copy of a replicated object) is the UID of its source in the other cluster. Two sources of one name are different objects: the
// other cluster may have lost the first one. Copies that an earlier release created lack it as long as their first source exists.
const AnnotationSourceUID = "liqo.io/source-uid"

// Annotations by which a PersistentVolumeClaim, or a Pod's template for one, configures the claim in the provider.
const (
	// AnnotationRemoteStorageClass names the storage class in the provider.
	AnnotationRemoteStorageClass = "liqo.io/remote-storage-class"
	// AnnotationRemoteAccessModes lists the access modes in the provider, separated by commas.
	AnnotationRemoteAccessModes = "liqo.io/remote-access-modes"
)

// AnnotationReflectTo lists, on an object of an offloaded namespace, the IDs of the clusters to which it is reflected, separated by commas. Other clusters of the
// namespace do not receive it; with an empty list no cluster does. It also includes the object where only annotated objects are reflected (type AllowList).
const AnnotationReflectTo = "liqo.io/reflect-to"

// AnnotationShareWithConsumer ("true"), on an object or on a remote namespace of a provider, says that the consumer may use what the provider puts there: it reads
// Secrets, and executes commands in pods. Policy liqo-remote-namespaces refuses Secrets, pods and workloads without it.
const AnnotationShareWithConsumer = "liqo.io/share-with-consumer"

// AnnotationRemoteClaim replaces, on a Pod for a virtual node, a claim in the remote pod. With the value PLACEHOLDER=CLAIM, a volume that names claim
// PLACEHOLDER in the spec of the pod mounts PersistentVolumeClaim CLAIM of the remote namespace. Claim PLACEHOLDER need not exist.
const AnnotationRemoteClaim = "storage.liqo.io/remote-claim"

// AnnotationRealStorageClass names, on a Namespace, the StorageClass that holds the data of the claims of this namespace in this cluster. Without it,
// the installation decides.
const AnnotationRealStorageClass = "liqo.io/real-storage-class"

// AnnotationDeleteVolumes ("true", on a NamespaceOffloading or a VirtualNode, or on a Tenant of the provider) permits Liqo to delete volumes with data
// in a provider when a user deletes the object. Without it, the deletion waits until there are no such volumes. It is for one change of a NamespaceOffloading:
// the controller manager removes it when the clusters that the change left out have released the remote namespace.
const AnnotationDeleteVolumes = "liqo.io/delete-volumes"

// Annotations of the controller manager's own objects.
const (
	// AnnotationUninstalling ("true" on the controller manager's Deployment) relaxes checks during an uninstallation. This version neither
	// sets nor reads it.
	AnnotationUninstalling = "liqo.io/uninstalling"
)

// Names and namespaces of an installation.
const (
	// Namespace is the default namespace of an installation.
	Namespace = "liqo"
	// StorageNamespace is the default name of the storage namespace, which has the backing claims of Liqo's StorageClass.
	StorageNamespace = "liqo-storage"
	// TenantNamespacePrefix precedes the remote cluster ID in the default name of a tenant namespace.
	TenantNamespacePrefix = "liqo-tenant-"
	// ClusterIDConfigMap is the name of the ConfigMap that holds the ID of the local cluster under ClusterIDKey.
	ClusterIDConfigMap = "liqo-clusterid-configmap"
	// ClusterIDKey is the key of the cluster ID in ClusterIDConfigMap.
	ClusterIDKey = "CLUSTER_ID"
)

// TenantNamespace returns the default name of the namespace that holds the objects of the peering with a cluster.
func TenantNamespace(remoteClusterID string) string { return TenantNamespacePrefix + remoteClusterID }

// TaintVirtualNode is the key of the taint of virtual nodes: only pods that tolerate it run there. Its value is True, its effect NoExecute.
const TaintVirtualNode = "virtual-node.liqo.io/not-allowed"

// FieldManager is the field manager with which reflection writes objects, in the local and in the remote cluster.
const FieldManager = "reflection.liqo.io"
