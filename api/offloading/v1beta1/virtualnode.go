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
	// VkOptionsTemplateDefault is the name of the default VkOptionsTemplate, in the namespace of the installation.
	VkOptionsTemplateDefault = "virtual-kubelet-default"
	// VirtualKubeletDeploymentPrefix precedes the VirtualNode's name in the name of its Deployment.
	VirtualKubeletDeploymentPrefix = "vk-"
	// LabelStorageAvailable (on a virtual Node) is "true" if the provider offers storage classes, otherwise "false".
	LabelStorageAvailable = "storage.liqo.io/available"
)

// VirtualNodeConditionType is the object that a condition of a VirtualNode describes.
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

// VirtualNodeCondition is the state of one object of a VirtualNode.
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

// DeploymentTemplate describes the Deployment of a virtual kubelet.
type DeploymentTemplate struct {
	Metadata ObjectMeta `json:"metadata,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec appsv1.DeploymentSpec `json:"spec,omitempty"`
}

// Affinity is the part of a pod's affinity that an OffloadingPatch may set.
type Affinity struct {
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
}

// OffloadingPatch describes changes to every pod that is offloaded through a VirtualNode.
type OffloadingPatch struct {
	NodeSelector            map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations             []corev1.Toleration `json:"tolerations,omitempty"`
	Affinity                *Affinity           `json:"affinity,omitempty"`
	RuntimeClassName        *string             `json:"runtimeClassName,omitempty"`
	AnnotationsNotReflected []string            `json:"annotationsNotReflected,omitempty"`
	LabelsNotReflected      []string            `json:"labelsNotReflected,omitempty"`
}

// VirtualNodeSpec describes a virtual node: a provider, or a part of its resources, that appears as a Node.
type VirtualNodeSpec struct {
	// ClusterID is the cluster ID of the provider.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID string `json:"clusterID,omitempty"`
	// CreateNode selects whether Liqo creates a Node. Without a Node, the virtual kubelet only reflects objects. It defaults to the
	// VkOptionsTemplate's setting.
	CreateNode *bool `json:"createNode,omitempty"`
	// DisableNetworkCheck keeps the Node ready while the network to the provider is down. It defaults to the VkOptionsTemplate's setting.
	DisableNetworkCheck *bool `json:"disableNetworkCheck,omitempty"`
	// KubeconfigSecretRef names the Secret, in the same namespace, with the kubeconfig that the virtual kubelet uses for the provider.
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// Template describes the virtual kubelet's Deployment. If empty, Liqo renders the Deployment from the VkOptionsTemplate.
	Template *DeploymentTemplate `json:"template,omitempty"`
	// VkOptionsTemplateRef names the VkOptionsTemplate with the options of the virtual kubelet.
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
	// InterruptedNodes are the provider's nodes that are about to be terminated or do not work, as the provider reports them in the ResourceSlice.
	InterruptedNodes []authv1beta1.InterruptedNode `json:"interruptedNodes,omitempty"`
}

// VirtualNodeStatus is the observed state of a VirtualNode.
type VirtualNodeStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []VirtualNodeCondition `json:"conditions,omitempty"`
}

// VirtualNode represents a provider as a Node of the same name.
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
