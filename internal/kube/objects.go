package kube

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Called returns the kind, name and namespace of an object for messages.
func Called(c client.Client, object client.Object) string {
	kind := fmt.Sprintf("%T", object)
	if gvk, err := apiutil.GVKForObject(object, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	if object.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", kind, object.GetName())
	}
	return fmt.Sprintf("%s %s in namespace %s", kind, object.GetName(), object.GetNamespace())
}

// Overwrite overwrites to with from. Both must have the same type.
func Overwrite(to client.Object, from runtime.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
}
