package reflection

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
)

// write executes the single write of a step on obj.
func (r *reflector) write(ctx context.Context, t *watchedNamespace, step offload.Step, obj client.Object) error {
	opts := r.engine.opts
	ctx, cancel := context.WithTimeout(ctx, opts.RequestTimeout)
	defer cancel()
	switch step.Action {
	case offload.CreateRemote:
		if err := opts.Remote.Create(ctx, obj, client.FieldOwner(api.FieldManager)); err != nil {
			return err
		}
		r.wrote(t, obj)
		return nil
	case offload.PatchRemote:
		old, _ := step.Old.(client.Object)
		if err := patch(ctx, opts.Remote, old, obj, step.Locked); err != nil {
			return gone(err)
		}
		r.wrote(t, obj)
		return nil
	case offload.DeleteRemote:
		if err := remove(ctx, opts.Remote, obj); err != nil {
			return err
		}
		r.deleted(t, obj, opts.Clock.Now())
		return nil
	case offload.PatchLocalStatus:
		old, _ := step.Old.(client.Object)
		data, err := statusPatch(old, obj)
		if err != nil {
			return err
		}
		// Decode the response into an empty object: fields that the response lacks must not survive from the request.
		answer, ok := r.Local.Object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("executing %s: %T is not an object", step.Action, r.Local.Object)
		}
		answer.SetNamespace(obj.GetNamespace())
		answer.SetName(obj.GetName())
		if err := opts.Local.Status().Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, data)); err != nil {
			return gone(err)
		}
		r.wroteHere(t, answer)
		return nil
	case offload.CreateLocal:
		if err := opts.Local.Create(ctx, obj, client.FieldOwner(api.FieldManager)); err != nil {
			if apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil // if the existing object is ours, the watch reports it; otherwise a retry can't succeed
			}
			return err
		}
		r.wroteHere(t, obj)
		return nil
	case offload.PatchLocal:
		old, _ := step.Old.(client.Object)
		if err := patch(ctx, opts.Local, old, obj, step.Locked); err != nil {
			return gone(err)
		}
		r.wroteHere(t, obj)
		return nil
	case offload.DeleteLocal:
		if err := remove(ctx, opts.Local, obj, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
		r.removedHere(t, obj)
		return nil
	default:
		return errUnknownAction(step.Action)
	}
}

// patch turns old into obj, on condition that the object still has the UID of old: another object may have its name by now. If locked is true, it
// must also have the resource version of old.
func patch(ctx context.Context, c client.Client, old, obj client.Object, locked bool) error {
	data, err := client.MergeFrom(old).Data(obj)
	if err != nil {
		return fmt.Errorf("comparing two states of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("reading the difference of two states of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	meta, _ := fields["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		fields["metadata"] = meta
	}
	meta["uid"] = old.GetUID()
	if locked {
		meta["resourceVersion"] = old.GetResourceVersion()
	}
	if data, err = json.Marshal(fields); err != nil {
		return fmt.Errorf("marshalling a patch of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data), client.FieldOwner(api.FieldManager))
}

// statusPatch returns the strategic merge patch that turns old into obj, on condition that the object still has the same UID.
func statusPatch(old, obj client.Object) ([]byte, error) {
	before, err := withUID(old, "")
	if err != nil {
		return nil, err
	}
	after, err := withUID(obj, obj.GetUID())
	if err != nil {
		return nil, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(before, after, obj)
	if err != nil {
		return nil, fmt.Errorf("comparing two states of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return data, nil
}

func withUID(obj client.Object, uid types.UID) ([]byte, error) {
	had := obj.GetUID()
	if had != uid {
		obj = obj.DeepCopyObject().(client.Object)
		obj.SetUID(uid)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("marshalling %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return data, nil
}

// remove deletes the object with exactly that UID. If it no longer exists, that is no error.
func remove(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	uid := obj.GetUID()
	opts = append(opts, client.Preconditions(metav1.Preconditions{UID: &uid}))
	return gone(c.Delete(ctx, obj, opts...))
}

// gone returns err, or nil if err means that the object no longer exists or that another object has its name by now: the watch reports both.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// wrote records the result of our own write of a remote object.
func (r *reflector) wrote(t *watchedNamespace, obj client.Object) {
	if s := r.storeOf(t, obj); s != nil {
		s.wrote(obj)
	}
}

// deleted records that we have deleted a remote object, which is terminating from now on.
func (r *reflector) deleted(t *watchedNamespace, obj client.Object, now time.Time) {
	if s := r.storeOf(t, obj); s != nil {
		s.deleted(obj, now)
	}
}

// storeOf returns the store of remote objects of the type of obj, nil if there is none.
func (r *reflector) storeOf(t *watchedNamespace, obj client.Object) *store {
	if t == nil {
		return nil
	}
	for i, resource := range r.Remote {
		if fmt.Sprintf("%T", resource.Object) == fmt.Sprintf("%T", obj) {
			return t.stores[r][i]
		}
	}
	return nil
}

// isLocal reports whether an object is of the kind that is watched in this cluster.
func (r *reflector) isLocal(obj client.Object) bool {
	return fmt.Sprintf("%T", obj) == fmt.Sprintf("%T", r.Local.Object)
}

// wroteHere records the result of our own write of a local object.
func (r *reflector) wroteHere(t *watchedNamespace, obj client.Object) {
	if r.isLocal(obj) {
		if s := r.store(t); s != nil {
			s.wrote(obj)
		}
	} else if r.Other != nil {
		r.Other(obj)
	}
}

// removedHere records that our deletion removed a local object.
func (r *reflector) removedHere(t *watchedNamespace, obj client.Object) {
	if s := r.store(t); s != nil && r.isLocal(obj) {
		s.removed(obj)
	}
}
