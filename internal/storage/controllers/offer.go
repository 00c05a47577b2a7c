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
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// The ConfigMap with the classes that consumers may name. The chart creates it, and its admission policy liqo-copies-claim reads it.
const (
	offeredClasses = "liqo-storage-classes"
	defaultKey     = "default"
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

// offers writes the default offered class to the ConfigMap of the admission policy.
type offers struct {
	client client.Client
	// live reads from the API server, because the cache has no ConfigMaps.
	live client.Reader
	opts Options
}

func (o *offers) setup(mgr ctrl.Manager) error {
	all := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.opts.LiqoNamespace, Name: offeredClasses}}}
	}
	return kube.NewController(mgr, "storage-classes").
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(all)).
		Complete(o)
}

// Reconcile updates the ConfigMap. If there is none, the admission policy is not installed.
func (o *offers) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	config, err := get(ctx, o.live, &corev1.ConfigMap{}, req.NamespacedName)
	if err != nil || config == nil {
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
	if config.Data[defaultKey] == standard {
		return reconcile.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{defaultKey: standard}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("marshalling a patch of ConfigMap %s: %w", req.NamespacedName, err)
	}
	if err := o.client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the default class to ConfigMap %s: %w", req.NamespacedName, err)
	}
	return reconcile.Result{}, nil
}
