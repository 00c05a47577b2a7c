package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCache returns a cache of the objects that by selects, which the manager starts. The cache drops the managed fields, unless by has another transformation. Errors call
// the objects what.
func NewCache(mgr ctrl.Manager, what string, by map[client.Object]cache.ByObject) (cache.Cache, error) {
	out, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: by, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache of %s: %w", what, err)
	}
	if err := mgr.Add(out); err != nil {
		return nil, fmt.Errorf("adding the cache of %s: %w", what, err)
	}
	return out, nil
}

// Follow calls changed for each object in a cache and for each later version of it, and gone for each object that is deleted. synced reports whether changed was called
// for all objects of the initial list.
func Follow[T client.Object](ctx context.Context, in cache.Informers, kind T, changed, gone func(T), options ...cache.InformerGetOption) (synced func() bool, err error) {
	informer, err := in.GetInformer(ctx, kind, options...)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	call := func(f func(T), obj any) {
		if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		if object, ok := obj.(T); ok {
			f(object)
		}
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { call(changed, obj) }, UpdateFunc: func(_, obj any) { call(changed, obj) }, DeleteFunc: func(obj any) { call(gone, obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	return registered.HasSynced, nil
}

// Reduced returns the transformation of a cache that stores objects of type T as reduce returns them. An informer may call it twice for an object.
func Reduced[T client.Object](reduce func(T) T) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if object, ok := obj.(T); ok {
			return reduce(object), nil
		}
		return obj, nil
	}
}

// Identity returns the part of an object's metadata that every reduced object keeps.
func Identity(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
		DeletionTimestamp: o.DeletionTimestamp,
	}
}

// KeepLabels copies the named labels that an object has.
func KeepLabels(to *metav1.ObjectMeta, from map[string]string, names ...string) {
	for _, name := range names {
		if value, there := from[name]; there {
			metav1.SetMetaDataLabel(to, name, value)
		}
	}
}

// Selecting returns a selector by one label. It panics if the label or a value is invalid: both are constants.
func Selecting(label string, operator selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(label, operator, values)
	if err != nil {
		panic(fmt.Sprintf("selecting by label %s: %v", label, err))
	}
	return labels.NewSelector().Add(*requirement)
}
