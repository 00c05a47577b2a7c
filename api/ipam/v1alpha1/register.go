// Package v1alpha1 is version v1alpha1 of the API group ipam.liqo.io.
//
// +kubebuilder:object:generate=true
// +groupName=ipam.liqo.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/api"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "ipam.liqo.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = api.AddToScheme(GroupVersion,
	&IP{}, &IPList{},
	&Network{}, &NetworkList{},
)
