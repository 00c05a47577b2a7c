package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// Overwrite copies the content of from to the object to. Both must have the same type.
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

// withAll returns a new map with the entries of both; those of more take precedence. If more is empty, it returns have itself.
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

// Requests returns requests for the objects that opts select, see Matching.
func Requests(ctx context.Context, c client.Reader, list client.ObjectList, opts ...client.ListOption) []reconcile.Request {
	return Matching(ctx, c, list, func(client.Object) bool { return true }, opts...)
}

// Matching returns requests for those of the objects that opts select for which match returns true. match must not change its argument. If the cache returns an error, it
// has not started yet. Then Matching returns none, because every object is enqueued when the cache starts.
func Matching[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, match func(T) bool, opts ...client.ListOption) []reconcile.Request {
	if err := c.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	var out []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function never fails
		if object := item.(T); match(object) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
		return nil
	})
	return out
}

// Uncached is a client that reads single objects from the API server. Its other requests are those of Client.
type Uncached struct {
	client.Client
	Reader client.Reader
}

// Get reads the object from the API server.
func (u Uncached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return u.Reader.Get(ctx, key, obj, opts...)
}
