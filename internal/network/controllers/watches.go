package controllers

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// anyChange passes updates that change anything but the resource version.
func anyChange() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.DeepCopyObject().(client.Object), e.ObjectNew.DeepCopyObject().(client.Object)
		before.SetResourceVersion(after.GetResourceVersion())
		return !equality.Semantic.DeepEqual(before, after)
	}}
}

// ofThisCluster passes the Networks or IPs of this cluster itself: they are in the namespace of the installation and have the label.
func ofThisCluster(namespace, label string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == namespace && o.GetLabels()[label] != "" })
}

// watch returns a source for changes of a kind in the cache of s.
func (s *surroundings) watch(obj client.Object, to handler.MapFunc) source.Source {
	return source.Kind(s.cache, obj, handler.TypedEnqueueRequestsFromMapFunc[client.Object](to), anyChange())
}

// toGateway maps a child to the gateway that it was created for. It may also enqueue a gateway of the other kind with that name, which is
// harmless.
func toGateway(_ context.Context, o client.Object) []reconcile.Request {
	name, namespace := o.GetLabels()[networkingv1beta1.LabelGatewayName], o.GetLabels()[networkingv1beta1.LabelGatewayNamespace]
	if name == "" || namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// staleCache returns a conflict error, for a reconcile that found the cache older than the API server. The controller handles it like any other
// conflict: it reconciles again soon and logs nothing.
func staleCache(o client.Object, why error) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: fmt.Sprintf("%T", o)}, o.GetName(), why)
}

// toAll maps any changed object to all objects of the list's kind. If near is true, it maps only to those in the namespace of the changed object.
func toAll(c client.Reader, list client.ObjectList, near bool) handler.MapFunc {
	kind := reflect.TypeOf(list).Elem()
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var opts []client.ListOption
		if near {
			opts = append(opts, client.InNamespace(o.GetNamespace()))
		}
		return kube.Requests(ctx, c, reflect.New(kind).Interface().(client.ObjectList), opts...)
	}
}
