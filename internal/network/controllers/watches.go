package controllers

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// news lets an update pass when anything but the book-keeping of the API server changed.
func news() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.DeepCopyObject().(client.Object), e.ObjectNew.DeepCopyObject().(client.Object)
		before.SetResourceVersion(after.GetResourceVersion())
		return !equality.Semantic.DeepEqual(before, after)
	}}
}

// watch is a source of the news of a kind in the cache of the surroundings.
func (s *surroundings) watch(obj client.Object, to handler.MapFunc) source.Source {
	return source.Kind(s.cache, obj, handler.TypedEnqueueRequestsFromMapFunc[client.Object](to), news())
}

// toGateway maps a child to the gateway that it was made for; a gateway of the other kind does no harm.
func toGateway(_ context.Context, o client.Object) []reconcile.Request {
	name, namespace := o.GetLabels()[networkingv1beta1.LabelGatewayName], o.GetLabels()[networkingv1beta1.LabelGatewayNamespace]
	if name == "" || namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// requests returns the keys of the objects that the options select. A cache that can't answer is a cache that is not started: every object
// is looked at when it is.
func requests(ctx context.Context, c client.Reader, list client.ObjectList, opts ...client.ListOption) []reconcile.Request {
	if err := c.List(ctx, list, opts...); err != nil {
		return nil
	}
	var out []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function never fails
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return out
}

// behind is the outcome of a pass that found the API server ahead of the cache: as after any lost race, the next one comes soon and nobody
// is told.
func behind(o client.Object, why error) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName(), why)
}

// every maps any news to all objects of the list's kind, those of the news' own namespace if near.
func every(c client.Reader, list client.ObjectList, near bool) handler.MapFunc {
	kind := reflect.TypeOf(list).Elem()
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var opts []client.ListOption
		if near {
			opts = append(opts, client.InNamespace(o.GetNamespace()))
		}
		return requests(ctx, c, reflect.New(kind).Interface().(client.ObjectList), opts...)
	}
}
