package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelShadowPod ("true") marks a local Pod that is offloaded.
	LabelShadowPod = "liqo.io/shadowPod"
	// LabelManagedBy (on a remote Pod or EndpointSlice) is ManagedByShadowPod or ManagedByShadowEndpointSlice.
	LabelManagedBy = "liqo.io/managed-by"
	// ManagedByShadowPod is the value of LabelManagedBy on a Pod that belongs to a ShadowPod.
	ManagedByShadowPod = "shadowpod"
	// LabelCreatorUser (on a ShadowPod) is the user that created it, as CreatorLabel encodes it. A mutating webhook sets it.
	LabelCreatorUser = "liqo.io/creator-user"
	// LabelNodeName (on a ShadowPod and its Pod) is the name of the virtual node that the local Pod is bound to.
	LabelNodeName = "offloading.liqo.io/nodename"
)

// Reasons of offloaded pods.
const (
	// PodOffloadingBackOff is the reason of a Pending pod on a virtual node whose namespace is not offloaded.
	PodOffloadingBackOff = "OffloadingBackOff"
	// PodOffloadingAborted is the reason of a Failed pod whose offloading the provider ended, or whose namespace is no longer offloaded.
	PodOffloadingAborted = "OffloadingAborted"
	// PodRemoteTerminated is the reason of a finished pod whose remote Pod no longer exists.
	PodRemoteTerminated = "RemotePodTerminated"
)

// ShadowPodSpec describes the Pod that the provider keeps running.
type ShadowPodSpec struct {
	// Pod is the complete spec of the Pod. The provider's API server validates it when the provider creates the Pod.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +mapType=atomic
	Pod corev1.PodSpec `json:"pod,omitempty"`
}

// ShadowPodStatus is the state of the Pod in the provider.
type ShadowPodStatus struct {
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	// +kubebuilder:default=Unknown
	Phase corev1.PodPhase `json:"phase"`
	// Pod holds status that the Pod itself does not, or no longer, report to the consumer. After a Pod has finished, it holds the final
	// conditions, reason and exit codes. If the provider refused to resize the Pod, it holds the condition PodResizePending.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +mapType=atomic
	Pod *corev1.PodStatus `json:"pod,omitempty"`
}

// ShadowPod makes the provider run a Pod of the same name, even while the consumer is unreachable.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=shp;shpod,categories=liqo
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ShadowPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShadowPodSpec   `json:"spec,omitempty"`
	Status ShadowPodStatus `json:"status,omitempty"`
}

// ShadowPodList is a list of ShadowPods.
//
// +kubebuilder:object:root=true
type ShadowPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ShadowPod `json:"items"`
}

// LimitsEnforcement determines which requests and limits a Quota demands of every container.
// +kubebuilder:validation:Enum=Hard;Soft;None
type LimitsEnforcement string

// Enforcement levels.
const (
	// EnforcementNone demands none: only declared requests and limits count.
	EnforcementNone LimitsEnforcement = "None"
	// EnforcementSoft demands cpu and memory requests.
	EnforcementSoft LimitsEnforcement = "Soft"
	// EnforcementHard demands cpu and memory requests, and for each request a limit of the same amount.
	EnforcementHard LimitsEnforcement = "Hard"
)

// QuotaSpec limits the resources of the pods of one user of a tenant.
type QuotaSpec struct {
	// User is the common name of the certificate of the user.
	// +kubebuilder:validation:MinLength=1
	User              string              `json:"user"`
	LimitsEnforcement LimitsEnforcement   `json:"limitsEnforcement,omitempty"`
	Resources         corev1.ResourceList `json:"resources"`
	// Cordoned stops the user from creating pods, and from increasing the resources of existing pods.
	Cordoned *bool `json:"cordoned,omitempty"`
}

// Quota limits the resources of the pods that a consumer runs in this provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=qt,categories=liqo
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.limitsEnforcement`
// +kubebuilder:printcolumn:name="Cordoned",type=boolean,JSONPath=`.spec.cordoned`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`,priority=1
type Quota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec QuotaSpec `json:"spec"`
}

// QuotaList is a list of Quotas.
//
// +kubebuilder:object:root=true
type QuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Quota `json:"items"`
}
