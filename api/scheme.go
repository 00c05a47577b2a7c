package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme returns a function that adds the kinds of an API group to a scheme.
func AddToScheme(version schema.GroupVersion, kinds ...runtime.Object) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(version, kinds...)
		metav1.AddToGroupVersion(scheme, version)
		return nil
	}
}
