package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelShadowPod ("true") is put on a local Pod once it is offloaded.
	LabelShadowPod = "liqo.io/shadowPod"
	// LabelManagedBy (on a remote Pod) is ManagedByShadowPod.
	LabelManagedBy = "liqo.io/managed-by"
	// ManagedByShadowPod is the value of LabelManagedBy on a Pod that belongs to a ShadowPod.
	ManagedByShadowPod = "shadowpod"
	// LabelCreatorUser (on a ShadowPod) is the user that made it, stamped at admission.
	LabelCreatorUser = "liqo.io/creator-user"
	// LabelNodeName (on a ShadowPod and its Pod) is the virtual node the local Pod is bound to.
	LabelNodeName = "offloading.liqo.io/nodename"
)

// Reasons of offloaded pods.
const (
	// PodOffloadingBackOff is the reason of a Pending pod on a virtual node whose namespace is not offloaded.
	PodOffloadingBackOff = "OffloadingBackOff"
	// PodOffloadingAborted is the reason of a Failed pod whose offloading was taken back.
	PodOffloadingAborted = "OffloadingAborted"
	// PodRemoteTerminated is the reason of a finished pod whose remote Pod is gone.
	PodRemoteTerminated = "RemotePodTerminated"
)

// ShadowPodSpec holds the pod to keep present.
type ShadowPodSpec struct {
	// Pod to run, kept here whole; it is validated when the provider creates the Pod.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod corev1.PodSpec `json:"pod,omitempty"`
}

// ShadowPodStatus is the state of the Pod.
type ShadowPodStatus struct {
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	// +kubebuilder:default=Unknown
	Phase corev1.PodPhase `json:"phase"`
	// Pod is what the consumer must learn although the Pod does not, or no longer, report it: the end of a Pod that has finished (conditions, reason, exit
	// codes of its containers), and the condition PodResizePending of a change of resources that this cluster refused.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Pod *corev1.PodStatus `json:"pod,omitempty"`
}

// ShadowPod keeps a Pod of the same name present in the provider, whether or not the consumer can be reached.
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

// LimitsEnforcement is how strictly a Quota counts.
// +kubebuilder:validation:Enum=Hard;Soft;None
type LimitsEnforcement string

// Enforcement levels.
const (
	// EnforcementNone counts what is declared.
	EnforcementNone LimitsEnforcement = "None"
	// EnforcementSoft asks every container for cpu and memory requests.
	EnforcementSoft LimitsEnforcement = "Soft"
	// EnforcementHard asks for requests equal to limits.
	EnforcementHard LimitsEnforcement = "Hard"
)

// QuotaSpec bounds what one user of a tenant may run.
type QuotaSpec struct {
	// User is the common name of the certificate the quota is for.
	// +kubebuilder:validation:MinLength=1
	User              string              `json:"user"`
	LimitsEnforcement LimitsEnforcement   `json:"limitsEnforcement,omitempty"`
	Resources         corev1.ResourceList `json:"resources"`
	// Cordoned refuses every further pod.
	Cordoned *bool `json:"cordoned,omitempty"`
}

// Quota bounds what a consumer may run here.
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
