package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network/facts"
)

// retryRefused is the default time during which this process repeats a request for the DaemonSet that the API server refused. API servers accept a
// token for 10 s after the deletion of its account, so retryRefused is longer.
const retryRefused = 11 * time.Second

// uninstallation detects whether a DaemonSet was deleted, and not just one of its pods. It watches the DaemonSet in advance, because an
// uninstallation deletes accounts and permissions at the same time, so that a later request may be refused.
type uninstallation struct {
	namespace, name string
	cache           cache.Cache
	client          client.Client
	retryRefused    time.Duration
	deleted         atomic.Bool
}

// newUninstallation prepares the watch. Without a name, check always returns false.
func newUninstallation(cfg *rest.Config, namespace, name string) (*uninstallation, error) {
	u := &uninstallation{namespace: namespace, name: name, retryRefused: retryRefused}
	if name == "" {
		return u, nil
	}
	kind := u.object()
	var err error
	if u.cache, err = cache.New(cfg, cache.Options{
		Scheme: facts.Scheme(), Mapper: facts.Mapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			kind: {Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}}},
		},
	}); err != nil {
		return nil, fmt.Errorf("creating a cache of DaemonSet %s/%s: %w", namespace, name, err)
	}
	if u.client, err = client.New(cfg, client.Options{Scheme: facts.Scheme(), Mapper: facts.Mapper()}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return u, nil
}

func (u *uninstallation) object() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	object.Namespace, object.Name = u.namespace, u.name
	return object
}

// run watches the DaemonSet until ctx ends.
func (u *uninstallation) run(ctx context.Context) error {
	if u.name == "" {
		return nil
	}
	started := make(chan error, 1)
	go func() { started <- u.cache.Start(ctx) }()
	seen := func(o *metav1.PartialObjectMetadata) { u.deleted.Store(o.DeletionTimestamp != nil) }
	deleted := func(*metav1.PartialObjectMetadata) { u.deleted.Store(true) }
	if _, err := kube.Follow(ctx, u.cache, u.object(), seen, deleted, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching DaemonSet %s/%s: %w", u.namespace, u.name, err)
	}
	if err := <-started; err != nil && ctx.Err() == nil {
		return fmt.Errorf("watching DaemonSet %s/%s: %w", u.namespace, u.name, err)
	}
	return nil
}

// check reports whether the DaemonSet is deleted or being deleted. If the watch has not shown a deletion, check reads the DaemonSet from the API
// server. Without a clear answer, check assumes that the DaemonSet exists: the next agent on the node checks again. If the API server keeps
// answering Unauthorized, it no longer knows the account of this pod, so the account was deleted too. Forbidden only means that
// permissions are missing.
func (u *uninstallation) check(ctx context.Context, log *slog.Logger) bool {
	if u.name == "" {
		return false
	}
	if u.deleted.Load() {
		return true
	}
	end := time.Now().Add(u.retryRefused)
	for {
		object := u.object()
		err := u.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		unknown := apierrors.IsUnauthorized(err)
		switch {
		case err == nil:
			return object.DeletionTimestamp != nil
		case apierrors.IsNotFound(err):
			return true
		case !unknown && !apierrors.IsForbidden(err) || time.Now().After(end):
			if !unknown {
				log.Error("Failed to read the DaemonSet of this pod: leaving the network configuration of the node as it is",
					"namespace", u.namespace, "name", u.name, "error", err)
			}
			return unknown
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(u.retryRefused / 10):
		}
	}
}
