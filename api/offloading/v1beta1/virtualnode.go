package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

const (
	// LabelComponent (on the pods of a virtual kubelet) is ComponentVirtualKubelet.
	LabelComponent = "offloading.liqo.io/component"
	// ComponentVirtualKubelet is the value of LabelComponent.
	ComponentVirtualKubelet = "virtual-kubelet"
	// VkOptionsTemplateDefault is the VkOptionsTemplate used where none is named, in the namespace of the installation.
	VkOptionsTemplateDefault = "virtual-kubelet-default"
	// VirtualKubeletDeploymentPrefix precedes the VirtualNode's name in the name of its Deployment.
	VirtualKubeletDeploymentPrefix = "vk-"
	// LabelStorageAvailable (on a virtual Node) tells with "true" or "false" whether it offers storage classes.
	LabelStorageAvailable = "storage.liqo.io/available"
)

// VirtualNodeConditionType is what a condition of a VirtualNode speaks about.
// +kubebuilder:validation:Enum=VirtualKubelet;Node
type VirtualNodeConditionType string

// VirtualNode condition types.
const (
	VirtualNodeVirtualKubelet VirtualNodeConditionType = "VirtualKubelet"
	VirtualNodeNode           VirtualNodeConditionType = "Node"
)

// VirtualNodeConditionStatus is the state of the virtual kubelet or of its Node.
// +kubebuilder:validation:Enum=None;Running;Creating;Draining;Deleting
type VirtualNodeConditionStatus string

// VirtualNode condition states.
const (
	VirtualNodeNone     VirtualNodeConditionStatus = "None"
	VirtualNodeRunning  VirtualNodeConditionStatus = "Running"
	VirtualNodeCreating VirtualNodeConditionStatus = "Creating"
	VirtualNodeDraining VirtualNodeConditionStatus = "Draining"
	VirtualNodeDeleting VirtualNodeConditionStatus = "Deleting"
)

// VirtualNodeCondition is one observation about a VirtualNode.
type VirtualNodeCondition struct {
	Type VirtualNodeConditionType `json:"type"`
	// +kubebuilder:default=None
	Status             VirtualNodeConditionStatus `json:"status"`
	LastTransitionTime metav1.Time                `json:"lastTransitionTime,omitempty"`
	Reason             string                     `json:"reason,omitempty"`
	Message            string                     `json:"message,omitempty"`
}

// ObjectMeta is the part of an object's metadata that a template may set.
type ObjectMeta struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
}

// DeploymentTemplate is the Deployment of a virtual kubelet.
type DeploymentTemplate struct {
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec appsv1.DeploymentSpec `json:"spec,omitempty"`
}

// Affinity is the part of a pod's affinity that a provider may impose.
type Affinity struct {
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
}

// OffloadingPatch is what changes in every pod that is offloaded through a VirtualNode.
type OffloadingPatch struct {
	NodeSelector            map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations             []corev1.Toleration `json:"tolerations,omitempty"`
	Affinity                *Affinity           `json:"affinity,omitempty"`
	RuntimeClassName        *string             `json:"runtimeClassName,omitempty"`
	AnnotationsNotReflected []string            `json:"annotationsNotReflected,omitempty"`
	LabelsNotReflected      []string            `json:"labelsNotReflected,omitempty"`
}

// VirtualNodeSpec is a provider, or a part of it, to be shown as a node.
type VirtualNodeSpec struct {
	// ClusterID of the provider.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID string `json:"clusterID,omitempty"`
	// CreateNode tells whether a Node is made; without it the VirtualNode only carries reflection.
	CreateNode *bool `json:"createNode,omitempty"`
	// DisableNetworkCheck keeps the Node ready while the network to the provider is down.
	DisableNetworkCheck *bool `json:"disableNetworkCheck,omitempty"`
	// KubeconfigSecretRef is the identity the virtual kubelet uses, in this namespace.
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// Template is the virtual kubelet's Deployment; rendered from the VkOptionsTemplate where empty.
	Template *DeploymentTemplate `json:"template,omitempty"`
	// VkOptionsTemplateRef names the options of the virtual kubelet.
	VkOptionsTemplateRef *corev1.ObjectReference `json:"vkOptionsTemplateRef,omitempty"`
	OffloadingPatch      *OffloadingPatch        `json:"offloadingPatch,omitempty"`
	Images               []corev1.ContainerImage `json:"images,omitempty"`
	// ResourceQuota.Hard is the capacity of the Node.
	ResourceQuota       corev1.ResourceQuotaSpec       `json:"resourceQuota,omitempty"`
	Labels              map[string]string              `json:"labels,omitempty"`
	Annotations         map[string]string              `json:"annotations,omitempty"`
	Taints              []corev1.Taint                 `json:"taints,omitempty"`
	StorageClasses      []authv1beta1.StorageType      `json:"storageClasses,omitempty"`
	IngressClasses      []authv1beta1.IngressType      `json:"ingressClasses,omitempty"`
	LoadBalancerClasses []authv1beta1.LoadBalancerType `json:"loadBalancerClasses,omitempty"`
}

// VirtualNodeStatus is what became of it.
type VirtualNodeStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []VirtualNodeCondition `json:"conditions,omitempty"`
}

// VirtualNode shows a provider as a Node of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vn;vnode;virno;vno,categories=liqo
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Create Node",type=boolean,JSONPath=`.spec.createNode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.conditions[?(@.type=="Node")].status`,priority=1
// +kubebuilder:printcolumn:name="VirtualKubelet",type=string,JSONPath=`.status.conditions[?(@.type=="VirtualKubelet")].status`,priority=1
type VirtualNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualNodeSpec   `json:"spec,omitempty"`
	Status VirtualNodeStatus `json:"status,omitempty"`
}

// VirtualNodeList is a list of VirtualNodes.
//
// +kubebuilder:object:root=true
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualNode `json:"items"`
}
