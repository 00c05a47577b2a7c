package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReflectionType determines which objects of a kind are reflected.
type ReflectionType string

// Reflection types.
const (
	// DenyList reflects all objects except those annotated liqo.io/skip-reflection.
	DenyList ReflectionType = "DenyList"
	// AllowList reflects only objects annotated liqo.io/allow-reflection.
	AllowList ReflectionType = "AllowList"
	// CustomLiqo stands for the fixed rules of kinds that support neither DenyList nor AllowList.
	CustomLiqo ReflectionType = "CustomLiqo"
)

// ReflectorConfig configures the reflection of one kind.
type ReflectorConfig struct {
	// NumWorkers is the number of objects that are processed concurrently; 0 disables reflection of the kind.
	NumWorkers uint           `json:"workers"`
	Type       ReflectionType `json:"type,omitempty"`
}

// VkOptionsTemplateSpec holds the options of virtual kubelets.
type VkOptionsTemplateSpec struct {
	ContainerImage          string                        `json:"containerImage"`
	PullPolicy              corev1.PullPolicy             `json:"pullPolicy,omitempty"`
	ImagePullSecrets        []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	CreateNode              bool                          `json:"createNode"`
	DisableNetworkCheck     bool                          `json:"disableNetworkCheck"`
	Replicas                *int32                        `json:"replicas,omitempty"`
	ExtraArgs               []string                      `json:"extraArgs,omitempty"`
	ExtraLabels             map[string]string             `json:"extraLabels,omitempty"`
	ExtraAnnotations        map[string]string             `json:"extraAnnotations,omitempty"`
	NodeExtraLabels         map[string]string             `json:"nodeExtraLabels,omitempty"`
	NodeExtraAnnotations    map[string]string             `json:"nodeExtraAnnotations,omitempty"`
	LabelsNotReflected      []string                      `json:"labelsNotReflected,omitempty"`
	AnnotationsNotReflected []string                      `json:"annotationsNotReflected,omitempty"`
	// ReflectorsConfig configures reflection by kind, in lower case.
	ReflectorsConfig map[string]ReflectorConfig   `json:"reflectorsConfig,omitempty"`
	Resources        *corev1.ResourceRequirements `json:"resources,omitempty"`
	Tolerations      []corev1.Toleration          `json:"tolerations,omitempty"`
	MetricsEnabled   bool                         `json:"metricsEnabled"`
	MetricsAddress   string                       `json:"metricsAddress,omitempty"`
}

// VkOptionsTemplate holds options that virtual kubelets share.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vkot;vkopt,categories=liqo
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VkOptionsTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VkOptionsTemplateSpec `json:"spec,omitempty"`
}

// VkOptionsTemplateList is a list of VkOptionsTemplates.
//
// +kubebuilder:object:root=true
type VkOptionsTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VkOptionsTemplate `json:"items"`
}
