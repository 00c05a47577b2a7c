package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// Offered returns the StorageClasses that this cluster offers to its consumers. configured is the configured class of backing claims, accepted are the names of
// further classes.
func Offered(ctx context.Context, c client.Reader, configured string, accepted []string) ([]authv1beta1.StorageType, error) {
	var classes storagev1.StorageClassList
	if err := c.List(ctx, &classes); err != nil {
		return nil, fmt.Errorf("listing StorageClasses: %w", err)
	}
	return storage.Offer(configured, accepted, classes.Items), nil
}

// offers keeps the name of the default offered class in an annotation of each remote namespace of this cluster, for admission policy liqo-copies-claim.
type offers struct {
	client client.Client
	opts   Options
}

func (o *offers) setup(mgr ctrl.Manager) error {
	return kube.NewController(mgr, "storage-classes").
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, namespace client.Object) []reconcile.Request {
			return ofRemoteNamespace(namespace)
		})).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(o.remoteNamespaces)).
		Complete(o)
}

// ofRemoteNamespace returns the request of a namespace that was created for a consumer, none for other namespaces.
func ofRemoteNamespace(namespace client.Object) []reconcile.Request {
	if offloadingv1beta1.NamespaceMapOf(namespace) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(namespace)}}
}

func (o *offers) remoteNamespaces(ctx context.Context, _ client.Object) []reconcile.Request {
	var list corev1.NamespaceList
	if err := o.client.List(ctx, &list); err != nil {
		return nil // can't fail after the start: the cache holds this kind
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, ofRemoteNamespace(&list.Items[i])...)
	}
	return out
}

// Reconcile updates the annotation of one namespace. It is no kube.Reconciler, because namespaces have no status of Liqo.
func (o *offers) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace, err := get(ctx, o.client, &corev1.Namespace{}, req.NamespacedName)
	if err != nil || namespace == nil || len(ofRemoteNamespace(namespace)) == 0 {
		return reconcile.Result{}, err
	}
	offered, err := Offered(ctx, o.client, o.opts.RealClass, nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	standard := ""
	for _, class := range offered {
		if class.Default {
			standard = class.StorageClassName
		}
	}
	if namespace.Annotations[storage.AnnotationDefaultClass] == standard {
		return reconcile.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{storage.AnnotationDefaultClass: standard}}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("marshalling a patch of namespace %s: %w", req.Name, err)
	}
	if err := o.client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the default class to annotation %s of namespace %s: %w", storage.AnnotationDefaultClass, req.Name, err)
	}
	return reconcile.Result{}, nil
}
