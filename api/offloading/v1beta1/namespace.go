package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingName is the only name that a NamespaceOffloading may have, so there is at most one per namespace.
const NamespaceOffloadingName = "offloading"

const (
	// LabelSchedulingEnabled ("true") marks a local namespace whose pods may be offloaded.
	LabelSchedulingEnabled = "liqo.io/scheduling-enabled"
	// AnnotationManagedByNamespaceMap (on a remote namespace) identifies the NamespaceMap that it was created for, as <namespace>/<name>.
	AnnotationManagedByNamespaceMap = "liqo.io/managed-by-namespace-map"
	// AnnotationNamespaceMapUID (on a remote namespace) is the UID of the last NamespaceMap of the consumer that contained it, or that of its copy if the
	// copy does not name its source (api.AnnotationSourceUID).
	AnnotationNamespaceMapUID = "liqo.io/namespace-map-uid"
	// AnnotationRemoteNamespaceName (on a remote namespace) is the name of this remote namespace. It differs in a copy of the namespace, see NamespaceMapOf.
	AnnotationRemoteNamespaceName = "liqo.io/remote-namespace-name"
	// DrainedRoleBinding is the name of a RoleBinding in the remote namespaces of a consumer whose Tenant is drained or being deleted. It permits the
	// consumer only to read this RoleBinding. By it, the virtual kubelets of the consumer recognize why the provider refuses everything else.
	DrainedRoleBinding = "liqo-drained"
	// DrainedClusterRole is the name of the ClusterRole of that RoleBinding.
	DrainedClusterRole = "liqo-virtual-kubelet-drained"
	// AnnotationOriginalName (on a remote namespace) is the name of the namespace in the consumer.
	AnnotationOriginalName = "liqo.io/original-name"
	// AnnotationConsumerUsers (on a remote namespace) is the suffix of the user names of the consumer's virtual kubelets. The admission policies
	// recognize them by it.
	AnnotationConsumerUsers = "offloading.liqo.io/consumer-users"
)

// NamespaceMapOf returns the NamespaceMap, as <namespace>/<name>, that a remote namespace was created for, or an object in a remote namespace. It is empty for all
// other objects, also for a copy of a remote namespace: a backup tool or an export copies the annotations along, but the copy has another name. Namespaces
// that an earlier release marked do not name themselves.
func NamespaceMapOf(o metav1.Object) string {
	annotations := o.GetAnnotations()
	if name, named := annotations[AnnotationRemoteNamespaceName]; named && name != o.GetName() {
		return ""
	}
	return annotations[AnnotationManagedByNamespaceMap]
}

// NamespaceMappingStrategy determines the name of the remote namespace.
// +kubebuilder:validation:Enum=EnforceSameName;DefaultName;SelectedName
type NamespaceMappingStrategy string

// Mapping strategies.
const (
	// EnforceSameName uses the local name.
	EnforceSameName NamespaceMappingStrategy = "EnforceSameName"
	// DefaultName appends the consumer's cluster ID to the local name.
	DefaultName NamespaceMappingStrategy = "DefaultName"
	// SelectedName uses spec.remoteNamespaceName.
	SelectedName NamespaceMappingStrategy = "SelectedName"
)

// PodOffloadingStrategy determines where the pods of a namespace may run.
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type PodOffloadingStrategy string

// Pod offloading strategies.
const (
	PodsLocal          PodOffloadingStrategy = "Local"
	PodsRemote         PodOffloadingStrategy = "Remote"
	PodsLocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
)

// OffloadingPhase summarizes the state of a NamespaceOffloading.
type OffloadingPhase string

// Offloading phases.
const (
	PhaseReady             OffloadingPhase = "Ready"
	PhaseNoClusterSelected OffloadingPhase = "NoClusterSelected"
	PhaseInProgress        OffloadingPhase = "InProgress"
	PhaseSomeFailed        OffloadingPhase = "SomeFailed"
	PhaseAllFailed         OffloadingPhase = "AllFailed"
	PhaseTerminating       OffloadingPhase = "Terminating"
)

// RemoteNamespaceConditionType is the type of a RemoteNamespaceCondition.
type RemoteNamespaceConditionType string

// Remote namespace condition types and reasons.
const (
	// RemoteNamespaceRequired is true if the cluster was selected, with ReasonClusterSelected. Otherwise, its reason is
	// ReasonClusterNotSelected, ReasonNamespaceProtected if the namespace must not be offloaded to any cluster, or ReasonVolumesKept if the remote
	// namespace stays only because volumes in it hold data.
	RemoteNamespaceRequired RemoteNamespaceConditionType = "OffloadingRequired"
	// RemoteNamespaceReady is true if the remote namespace exists and is not being deleted.
	RemoteNamespaceReady RemoteNamespaceConditionType = "Ready"

	ReasonClusterSelected     = "ClusterSelected"
	ReasonClusterNotSelected  = "ClusterNotSelected"
	ReasonNamespaceProtected  = "NamespaceProtected"
	ReasonVolumesKept         = "VolumesKept"
	ReasonNamespaceCreated    = "NamespaceCreated"
	ReasonCreationLoopBackOff = "CreationLoopBackOff"
	ReasonTerminating         = "Terminating"
	ReasonCreating            = "Creating"
)

// RemoteNamespaceCondition is one aspect of the state of the remote namespace in one cluster.
type RemoteNamespaceCondition struct {
	Type               RemoteNamespaceConditionType `json:"type"`
	Status             corev1.ConditionStatus       `json:"status"`
	LastTransitionTime metav1.Time                  `json:"lastTransitionTime,omitempty"`
	Reason             string                       `json:"reason,omitempty"`
	Message            string                       `json:"message,omitempty"`
}

// NamespaceOffloadingSpec determines the clusters to which a namespace is offloaded.
//
// +kubebuilder:validation:XValidation:rule="self.namespaceMappingStrategy == oldSelf.namespaceMappingStrategy",message="spec.namespaceMappingStrategy is immutable: delete the NamespaceOffloading and create it again"
// +kubebuilder:validation:XValidation:rule=`(has(self.remoteNamespaceName) ? self.remoteNamespaceName : "") == (has(oldSelf.remoteNamespaceName) ? oldSelf.remoteNamespaceName : "")`,message="spec.remoteNamespaceName is immutable: delete the NamespaceOffloading and create it again"
// +kubebuilder:validation:XValidation:rule=`(self.namespaceMappingStrategy == 'SelectedName') == (has(self.remoteNamespaceName) && self.remoteNamespaceName != "")`,message="spec.remoteNamespaceName goes with namespaceMappingStrategy SelectedName, and only with it"
type NamespaceOffloadingSpec struct {
	// +kubebuilder:default=DefaultName
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`
	// RemoteNamespaceName is the name of the remote namespace, for mapping strategy SelectedName.
	// +kubebuilder:validation:MaxLength=63
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// +kubebuilder:default=LocalAndRemote
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty"`
	// ClusterSelector selects virtual nodes by their labels; if unset, it selects all of them.
	ClusterSelector *corev1.NodeSelector `json:"clusterSelector,omitempty"`
}

// NamespaceOffloadingStatus is the observed state of a NamespaceOffloading.
type NamespaceOffloadingStatus struct {
	OffloadingPhase     OffloadingPhase `json:"offloadingPhase,omitempty"`
	RemoteNamespaceName string          `json:"remoteNamespaceName,omitempty"`
	// RemoteNamespacesConditions holds the conditions of each remote namespace, by cluster ID.
	RemoteNamespacesConditions map[string][]RemoteNamespaceCondition `json:"remoteNamespacesConditions,omitempty"`
	ObservedGeneration         int64                                 `json:"observedGeneration,omitempty"`
}

// NamespaceOffloading offloads its namespace to other clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=nso;nsof;nsoff;nsoffloading,categories=liqo
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'offloading'",message="metadata.name must be \"offloading\": there is one NamespaceOffloading per namespace"
// +kubebuilder:printcolumn:name="NamespaceMappingStrategy",type=string,JSONPath=`.spec.namespaceMappingStrategy`
// +kubebuilder:printcolumn:name="PodOffloadingStrategy",type=string,JSONPath=`.spec.podOffloadingStrategy`
// +kubebuilder:printcolumn:name="OffloadingPhase",type=string,JSONPath=`.status.offloadingPhase`
// +kubebuilder:printcolumn:name="RemoteNamespaceName",type=string,JSONPath=`.status.remoteNamespaceName`,priority=10
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceOffloading struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespaceOffloadingSpec   `json:"spec"`
	Status NamespaceOffloadingStatus `json:"status,omitempty"`
}

// NamespaceOffloadingList is a list of NamespaceOffloadings.
//
// +kubebuilder:object:root=true
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceOffloading `json:"items"`
}

// MappingPhase is the state of one remote namespace.
// +kubebuilder:validation:Enum=Accepted;CreationLoopBackOff;Terminating
type MappingPhase string

// Mapping phases.
const (
	MappingAccepted            MappingPhase = "Accepted"
	MappingCreationLoopBackOff MappingPhase = "CreationLoopBackOff"
	MappingTerminating         MappingPhase = "Terminating"
)

// RemoteNamespaceStatus is the state of one remote namespace, as the provider reports it.
type RemoteNamespaceStatus struct {
	RemoteNamespace string       `json:"remoteNamespace,omitempty"`
	Phase           MappingPhase `json:"phase,omitempty"`
}

// NamespaceMapSpec lists the remote namespaces that the consumer requests.
type NamespaceMapSpec struct {
	// DesiredMapping maps local to remote namespace names.
	DesiredMapping map[string]string `json:"desiredMapping,omitempty"`
	// ReleasedMapping maps local to remote namespace names that the consumer no longer requests, until the provider has deleted them. The provider
	// deletes their claims with them. A namespace of this map that is in neither mapping stays while it has claims: the consumer may have been
	// restored from a backup that does not contain it.
	ReleasedMapping map[string]string `json:"releasedMapping,omitempty"`
}

// NamespaceMapStatus lists the remote namespaces that the provider has.
type NamespaceMapStatus struct {
	// CurrentMapping holds the state of each remote namespace, by local namespace name.
	CurrentMapping map[string]RemoteNamespaceStatus `json:"currentMapping,omitempty"`
	// ReleasedMapping repeats spec.releasedMapping as the provider has read it. A released namespace that is here, and not in CurrentMapping, is deleted,
	// or stays because another NamespaceMap granted it.
	ReleasedMapping map[string]string `json:"releasedMapping,omitempty"`
}

// NamespaceMap lists the namespaces that a consumer offloads to one provider. Liqo replicates it to the provider. Its name is the
// provider's cluster ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=nm;nsmap,categories=liqo
// +kubebuilder:printcolumn:name="Local",type=string,JSONPath=`.metadata.labels.liqo\.io/replication`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespaceMapSpec   `json:"spec,omitempty"`
	Status NamespaceMapStatus `json:"status,omitempty"`
}

// NamespaceMapList is a list of NamespaceMaps.
//
// +kubebuilder:object:root=true
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceMap `json:"items"`
}
