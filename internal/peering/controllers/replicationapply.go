package controllers

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/internal/peering"
)

// errRefused means that another object has the name of the copy in the provider.
var errRefused = errors.New("not replicating")

func (r *replicator) apply(ctx context.Context, k *link, source, copy peering.Object, step peering.Step) error {
	in := func(err error) error {
		if err != nil {
			return fmt.Errorf("replicating %s %s/%s to cluster %s: %w", r.kind.Name, source.GetNamespace(), source.GetName(), k.clusterID, err)
		}
		return nil
	}
	switch {
	case step.Refuse != "":
		return fmt.Errorf("%w: %s", errRefused, step.Refuse)
	case step.Release:
		return r.release(ctx, source)
	case step.Create != nil:
		if err := r.hold(ctx, source); err != nil {
			return err
		}
		return r.create(ctx, k, step.Create)
	}
	if step.Update != nil {
		if err := k.live.Patch(ctx, step.Update, client.MergeFrom(copy)); err != nil && (!step.Delete || client.IgnoreNotFound(err) != nil) {
			return in(err)
		}
	}
	if step.Delete {
		uid := copy.GetUID()
		return in(client.IgnoreNotFound(k.live.Delete(ctx, copy, client.Preconditions{UID: &uid})))
	}
	if step.Status != nil {
		if err := r.client.Status().Patch(ctx, step.Status, client.MergeFrom(source)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("copying the status back to %s %s/%s: %w", r.kind.Name, source.GetNamespace(), source.GetName(), err)
		}
	}
	return nil
}

// create creates the copy. The cache has only the copies of this cluster, so another object may have the name.
func (r *replicator) create(ctx context.Context, k *link, copy peering.Object) error {
	err := k.live.Create(ctx, copy)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			err = fmt.Errorf("creating the copy of %s %s in cluster %s: %w", r.kind.Name, copy.GetName(), k.clusterID, err)
		}
		return err
	}
	present := r.kind.New()
	if get := k.live.Get(ctx, client.ObjectKeyFromObject(copy), present); get == nil && !peering.IsCopy(present, r.own) {
		return fmt.Errorf("%w: %s %s/%s in cluster %s was not created by this cluster",
			errRefused, r.kind.Name, copy.GetNamespace(), copy.GetName(), k.clusterID)
	}
	return err // the copy is ours, and the cache is outdated
}

// hold adds the finalizer that keeps a source until its copy is deleted.
func (r *replicator) hold(ctx context.Context, source peering.Object) error {
	before := source.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(source, peering.FinalizerReplicated) {
		return nil
	}
	return r.client.Patch(ctx, source, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *replicator) release(ctx context.Context, source peering.Object) error {
	before := source.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(source, peering.FinalizerReplicated) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, source, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
