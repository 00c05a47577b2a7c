package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// conflictDelay is the pause after a write conflict, for the cache to catch up.
const conflictDelay = 20 * time.Millisecond

// Ensure brings the object named by obj to the state that mutate sets, and reports whether it wrote anything. It reads the object
// into obj (from the cache, if c has one), calls mutate, and creates the object or patches only the differences. If mutate
// returns an error, Ensure writes nothing and returns that error. Fields that mutate does not touch keep their values.
func Ensure(ctx context.Context, c client.Client, obj client.Object, mutate func() error) (bool, error) {
	key := client.ObjectKeyFromObject(obj)
	err := c.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		if err := mutate(); err != nil {
			return false, err
		}
		if err := c.Create(ctx, obj); err != nil {
			return false, fmt.Errorf("creating %s: %w", describe(c, obj), err)
		}
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", describe(c, obj), err)
	}
	before := obj.DeepCopyObject().(client.Object)
	if err := mutate(); err != nil {
		return false, err
	}
	if key != client.ObjectKeyFromObject(obj) {
		return false, fmt.Errorf("changing %s: mutate must not rename it", describe(c, before))
	}
	if equality.Semantic.DeepEqual(before, obj) {
		return false, nil
	}
	if err := c.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("patching %s: %w", describe(c, obj), err)
	}
	return true, nil
}

// Delete deletes obj. A missing object is no error. If obj has a UID, only the object with this UID is deleted, never a later one
// of the same name.
func Delete(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	if uid := obj.GetUID(); uid != "" {
		opts = append(opts, client.Preconditions{UID: ptr(uid)})
	}
	err := c.Delete(ctx, obj, opts...)
	if apierrors.IsConflict(err) && obj.GetUID() != "" { // another object has the name now, so ours is gone
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", describe(c, obj), err)
	}
	return nil
}

// DeleteUnchanged deletes obj only in the version that the caller has read, for decisions that depend on its content. A missing object is no error. If the object
// was changed or replaced, the error is a Conflict.
func DeleteUnchanged(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	version := obj.GetResourceVersion()
	opts = append(opts, client.Preconditions{UID: ptr(obj.GetUID()), ResourceVersion: &version})
	if err := c.Delete(ctx, obj, opts...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", describe(c, obj), err)
	}
	return nil
}

func ptr(uid types.UID) *types.UID { return &uid }

// KindsOf returns the plural kind of the objects of a typed list, for error messages: "Identities" for an *IdentityList.
func KindsOf(list client.ObjectList) string {
	name := fmt.Sprintf("%T", list)
	name = strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "List")
	if stem, ends := strings.CutSuffix(name, "y"); ends && !strings.HasSuffix(stem, "e") {
		return stem + "ies"
	}
	return name + "s"
}

// describe names an object in error messages: its kind, namespace and name.
func describe(c client.Client, obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := apiutil.GVKForObject(obj, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}
