package reflect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
)

// work reconciles objects from the queue one by one until the queue is shut down.
func (r *reflector) work(ctx context.Context) error {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return nil
		}
		if r.Yields {
			r.engine.yield(ctx)
		}
		r.handle(ctx, key)
		r.queue.Done(key)
	}
}

// yield waits until the kinds that do not yield stop writing, but no longer than yieldMost. It blocks the calling worker, so each worker of a
// yielding kind writes one object in that time.
func (e *Engine) yield(ctx context.Context) {
	for end := e.opts.Clock.Now().Add(yieldMost); ; {
		now := e.opts.Clock.Now()
		rest := min(time.Unix(0, e.wrote.Load()).Add(yieldQuiet).Sub(now), end.Sub(now))
		if rest <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-e.opts.Clock.After(rest):
		}
	}
}

// handle executes one step of an object and requeues the object if necessary.
func (r *reflector) handle(ctx context.Context, key types.NamespacedName) {
	step, err := r.pass(ctx, key)
	if step.Action != offload.Nothing && !r.Yields {
		r.engine.wrote.Store(r.engine.opts.Clock.Now().UnixNano())
	}
	if err != nil {
		r.engine.opts.Failed(r.Name, key.Namespace)
	}
	log := r.engine.opts.Log.With("kind", r.Name, "namespace", key.Namespace, "name", key.Name)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
	case errors.As(err, new(refusal)):
		if step.Action != offload.Nothing { // log it only once: the user was warned just now
			log.Warn("The provider refused an object", "error", err)
		}
		r.queue.AddRateLimited(key)
	case err != nil:
		log.Error("Step failed", "step", step.Action.String(), "why", step.Why, "error", err, "failures", r.queue.NumRequeues(key)+1)
		r.queue.AddRateLimited(key)
	default:
		r.queue.Forget(key)
		if step.Action != offload.Nothing {
			log.Info("Step done", "step", step.Action.String(), "why", step.Why)
			if r.pace != nil {
				_ = r.pace.Wait(ctx) // fails only at shutdown
			}
		}
		switch {
		case step.Again:
			r.handle(ctx, key)
		case step.After > 0:
			r.queue.AddAfter(key, step.After)
		}
	}
}

// pass decides and executes one step. If the provider refuses a part of the object, pass leaves that part out and decides again without it.
func (r *reflector) pass(ctx context.Context, key types.NamespacedName) (offload.Step, error) {
	facts, t := r.facts(key)
	var refusals []string
	for read := false; ; {
		step := r.Next(facts)
		if step.Confirm && !read { // read only once: a refusal does not change the facts
			var err error
			if facts, err = r.read(ctx, t, key, facts); err != nil {
				return step, err
			}
			read, step = true, r.Next(facts)
		}
		if len(refusals) > 0 {
			step.Warning = "the cluster refused it: " + strings.Join(refusals, "; ")
		}
		err := r.do(ctx, t, key, facts.Local, step)
		switch {
		case err == nil && len(refusals) > 0:
			return step, refusal{errors.New(step.Warning)}
		case err == nil:
			return step, nil
		case step.Action == offload.CreateRemote && apierrors.IsAlreadyExists(err):
			// Either a previous process created it and the watch lags behind, or the object belongs to another creator. Read it to find out.
			facts, err := r.read(ctx, t, key, facts)
			if err != nil {
				return step, err
			}
			step = r.Next(facts)
			if step.Action == offload.CreateRemote {
				return step, fmt.Errorf("creating %s: it exists, and it does not", key)
			}
			return step, r.do(ctx, t, key, facts.Local, step)
		case refused(err) && step.Part != "":
			facts.LeftOut = append(facts.LeftOut, step.Part)
			if facts.Refusals == nil {
				facts.Refusals = map[string]string{}
			}
			facts.Refusals[step.Part] = err.Error()
			refusals = append(refusals, step.Part+": "+err.Error())
		case refused(err) && r.Refused != nil && facts.Local != nil:
			told, ok := r.Refused(facts.Local, step.Action, "the cluster refused it: "+err.Error())
			if !ok {
				return step, err
			}
			if err := r.do(ctx, t, key, facts.Local, told); err != nil {
				return told, err
			}
			return told, refusal{err}
		default:
			return step, err
		}
	}
}

// refusal is an error that the user was already warned about.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refused tells whether the provider's API server rejected the content of a request or denied permission. A terminating namespace does not count.
func refused(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) &&
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// facts collects from the caches everything that is known about an object.
func (r *reflector) facts(key types.NamespacedName) (Facts, *twin) {
	at, t := r.engine.mapping(key.Namespace)
	if stale := r.engine.opts.Stale; stale != nil && stale() {
		at, t = offload.Mapping{}, nil
	}
	facts := Facts{Key: key, Remote: make([]client.Object, len(r.Remote)), Mapping: at, Now: r.engine.opts.Clock.Now()}
	here := r.store(t)
	if here != nil {
		facts.Local = here.get(key)
	}
	if t == nil {
		return facts, nil
	}
	facts.RemoteSynced = here.hasSynced()
	for _, s := range t.beside[r] {
		facts.RemoteSynced = facts.RemoteSynced && s.hasSynced()
		facts.Beside = append(facts.Beside, Neighbours{s, t.local})
	}
	for i, s := range t.stores[r] {
		facts.RemoteSynced = facts.RemoteSynced && s.hasSynced()
		there := types.NamespacedName{Namespace: t.remote, Name: r.remoteName(i, key.Name)}
		if facts.Remote[i] = s.get(there); facts.Remote[i] == nil && r.Remote[i].Former != nil {
			facts.Remote[i] = s.get(types.NamespacedName{Namespace: t.remote, Name: r.Remote[i].Former(key.Name)})
		}
		if i == 0 {
			facts.Since = s.arrivedAt(there)
			if !s.hasSynced() { // while the cache is complete, only a read was refused, and the next read shows it again
				facts.RefusedSince = s.refusedAt()
			}
		}
	}
	if r.About != nil && facts.Remote[0] != nil {
		facts.About, facts.Twin = r.engine.pair(t, facts.Remote[0], r.About)
	}
	return facts, t
}

// read replaces the objects in facts by their current state on both API servers. If the provider refuses the read, the cached remote objects stay and
// facts.RefusedSince is set.
func (r *reflector) read(ctx context.Context, t *twin, key types.NamespacedName, facts Facts) (Facts, error) {
	var err error
	if facts.Local, err = r.engine.get(ctx, r.engine.opts.Local, key, r.Local); err != nil {
		return facts, fmt.Errorf("reading %s: %w", key, err)
	}
	if r.Refresh != nil {
		if err := r.Refresh(ctx, r.engine.opts.Local, facts); err != nil {
			return facts, fmt.Errorf("reading what %s depends on: %w", key, err)
		}
	}
	known := facts.Remote
	facts.Remote = make([]client.Object, len(r.Remote))
	for i, resource := range r.Remote {
		remoteKey := types.NamespacedName{Namespace: facts.Mapping.Namespace, Name: r.remoteName(i, key.Name)}
		if remoteKey.Namespace == "" || remoteKey.Name == "" {
			continue
		}
		facts.Remote[i], err = r.engine.get(ctx, r.engine.opts.Remote, remoteKey, resource)
		switch watched := r.Revoked && t != nil && i == 0; {
		case watched && apierrors.IsForbidden(err):
			facts.Remote, facts.RefusedSince = known, t.stores[r][0].refuse(false)
			return facts, nil
		case err != nil:
			return facts, fmt.Errorf("reading remote %s: %w", remoteKey, err)
		case watched:
			t.stores[r][0].allow()
		}
		if facts.Remote[i] == nil && resource.Former != nil {
			remoteKey.Name = resource.Former(key.Name)
			former, err := r.engine.get(ctx, r.engine.opts.Remote, remoteKey, resource)
			if err != nil {
				return facts, fmt.Errorf("reading remote %s: %w", remoteKey, err)
			}
			if former != nil && selects(resource.Labels, former) { // the user may have an object with that name
				facts.Remote[i] = former
			}
		}
	}
	return facts, nil
}

// selects tells whether an object matches a label selector.
func selects(selector string, obj client.Object) bool {
	parsed, err := labels.Parse(selector)
	return err == nil && parsed.Matches(labels.Set(obj.GetLabels()))
}

// get reads one object. It returns nil if the object does not exist or does not belong to the resource's set.
func (e *Engine) get(ctx context.Context, c client.Client, key types.NamespacedName, resource Resource) (client.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	obj, ok := resource.Object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", resource.Object)
	}
	err := c.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case resource.Matches != nil && !resource.Matches(obj):
		return nil, nil
	default:
		return obj, nil
	}
}

// do executes a step of the object with that name and reports the step's warning to the user. If an object to delete no longer exists, that is no
// error.
func (r *reflector) do(ctx context.Context, t *twin, key types.NamespacedName, local client.Object, step offload.Step) error {
	if step.Action != offload.Nothing {
		obj, ok := step.Object.(client.Object)
		if !ok {
			return fmt.Errorf("obeying %s: %T is not an object", step.Action, step.Object)
		}
		if r.Complete != nil && (step.Action == offload.CreateRemote || step.Action == offload.PatchRemote) {
			if err := r.complete(ctx, local, obj); err != nil {
				return err
			}
		}
		if err := r.write(ctx, t, step, obj); err != nil {
			return err
		}
		r.count(step.Action, obj, key.Namespace)
	}
	// Warn only after the write: a failed write is retried and would repeat the warning. A successful write without a warning does not clear the
	// previous warning, which may still be valid.
	if step.Warning != "" || step.Action == offload.Nothing || local == nil {
		r.tell(key, local, step.Warning)
	}
	if r.Announced && local != nil && (step.Action == offload.CreateRemote || step.Action == offload.PatchRemote) {
		r.engine.opts.Announce(local)
	}
	return nil
}

// count reports a create or patch to Options.Reflected. Deletions are not counted.
func (r *reflector) count(action offload.Action, obj client.Object, namespace string) {
	switch action {
	case offload.CreateRemote, offload.PatchRemote:
		kind := r.Name
		for _, resource := range r.Remote {
			if resource.Counted != "" && fmt.Sprintf("%T", resource.Object) == fmt.Sprintf("%T", obj) {
				kind = resource.Counted
			}
		}
		r.engine.opts.Reflected(kind, namespace)
	case offload.CreateLocal, offload.PatchLocal, offload.PatchLocalStatus:
		r.engine.opts.Reflected(r.Name, namespace)
	}
}

// tell warns the user about a local object, unless the same warning was the last one about this object. An empty warning clears the record.
func (r *reflector) tell(key types.NamespacedName, local client.Object, warning string) {
	r.mu.Lock()
	if warning == "" || local == nil {
		delete(r.told, key)
		r.mu.Unlock()
		return
	}
	news := string(local.GetUID()) + " " + warning
	known := r.told[key] == news
	r.told[key] = news
	r.mu.Unlock()
	if !known {
		r.engine.opts.Warn(local, warning)
	}
}

// complete calls Kind.Complete with a deadline of its own.
func (r *reflector) complete(ctx context.Context, local, obj client.Object) error {
	opts := r.engine.opts
	ctx, cancel := context.WithTimeout(ctx, opts.RequestTimeout)
	defer cancel()
	return r.Complete(ctx, opts.Local, local, obj, opts.Clock.Now())
}

// write executes the single write of a step on obj.
func (r *reflector) write(ctx context.Context, t *twin, step offload.Step, obj client.Object) error {
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
			return fmt.Errorf("obeying %s: %T is not an object", step.Action, r.Local.Object)
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

// patch turns old into obj, on condition that the object still has the UID of old: another object may have its name by now. If locked is true, it must
// also have the resource version of old.
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

// gone ignores that an object no longer exists or that another object has its name by now: the watch reports it.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// wrote records the result of our own write of a remote object.
func (r *reflector) wrote(t *twin, obj client.Object) {
	if s := r.storeOf(t, obj); s != nil {
		s.wrote(obj)
	}
}

// deleted records that we have deleted a remote object, which is terminating from now on.
func (r *reflector) deleted(t *twin, obj client.Object, now time.Time) {
	if s := r.storeOf(t, obj); s != nil {
		s.deleted(obj, now)
	}
}

// storeOf returns the store of remote objects of the type of obj, nil if there is none.
func (r *reflector) storeOf(t *twin, obj client.Object) *store {
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
