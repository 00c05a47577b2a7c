package kube

import (
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// AddLabels sets the labels on the object, and keeps its other labels.
func AddLabels(object client.Object, labels map[string]string) {
	object.SetLabels(withAll(object.GetLabels(), labels))
}

// AddAnnotations sets the annotations on the object, and keeps its other annotations.
func AddAnnotations(object client.Object, annotations map[string]string) {
	object.SetAnnotations(withAll(object.GetAnnotations(), annotations))
}

// withAll returns a new map with the entries of both. An entry of more wins. It returns have if there is nothing to add.
func withAll(have, more map[string]string) map[string]string {
	if len(more) == 0 {
		return have
	}
	all := make(map[string]string, len(have)+len(more))
	maps.Copy(all, have)
	maps.Copy(all, more)
	return all
}

// Items returns the objects of a list.
func Items(list client.ObjectList) ([]client.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	out := make([]client.Object, 0, len(items))
	for _, item := range items {
		if object, ok := item.(client.Object); ok {
			out = append(out, object)
		}
	}
	return out, nil
}

// Absent reports whether the error means that an object or its whole kind does not exist.
func Absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
