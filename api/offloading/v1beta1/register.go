// Package v1beta1 is version v1beta1 of the API group offloading.liqo.io.
//
// +kubebuilder:object:generate=true
// +groupName=offloading.liqo.io
package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/api"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "offloading.liqo.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = api.AddToScheme(GroupVersion,
	&NamespaceMap{}, &NamespaceMapList{},
	&NamespaceOffloading{}, &NamespaceOffloadingList{},
	&Quota{}, &QuotaList{},
	&ShadowEndpointSlice{}, &ShadowEndpointSliceList{},
	&ShadowPod{}, &ShadowPodList{},
	&VirtualNode{}, &VirtualNodeList{},
	&VkOptionsTemplate{}, &VkOptionsTemplateList{},
)
