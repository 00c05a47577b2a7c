package reflection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
)

// work reconciles objects from the queue one by one until the queue is shut down.
func (r *reflector) work(ctx context.Context) error {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return nil
		}
		if r.LowPriority {
			r.engine.yield(ctx)
		}
		r.handle(ctx, key)
		r.queue.Done(key)
	}
}

// observe calls Observe for urgent objects until the queue of them is shut down. It never waits for writes: workers of a kind that yields can be far
// behind.
func (r *reflector) observe() error {
	for {
		key, shutdown := r.urgent.Get()
		if shutdown {
			return nil
		}
		facts, _ := r.facts(key)
		r.Observe(facts)
		r.urgent.Done(key)
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
	if step.Action != offload.Nothing && !r.LowPriority {
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
		r.queue.settled(key) // a refusal lasts until the user changes something, which must not count as latency
		r.queue.AddRateLimited(key)
	case err != nil:
		log.Error("Step failed", "step", step.Action.String(), "why", step.Why, "error", err, "failures", r.queue.NumRequeues(key)+1)
		r.queue.AddRateLimited(key)
	default:
		r.queue.Forget(key)
		if step.Action != offload.Nothing {
			log.Info("Step done", "step", step.Action.String(), "why", step.Why)
			r.measure(key, step.Action)
			if r.pace != nil {
				_ = r.pace.Wait(ctx) // fails only at shutdown
			}
		}
		switch {
		case step.Again:
			r.handle(ctx, key)
		case step.After > 0:
			r.queue.settled(key)
			r.queue.AddAfter(key, step.After)
		default:
			r.queue.settled(key)
		}
	}
}

// measure reports the time from the observation of a change to the write that it caused.
func (r *reflector) measure(key types.NamespacedName, action offload.Action) {
	outgoing := action == offload.CreateRemote || action == offload.PatchRemote || action == offload.DeleteRemote
	r.engine.opts.Took(r.Name, outgoing, r.queue.waited(key))
}

// pass decides and executes one step. If the provider refuses a part of the object, pass leaves that part out and decides again without it.
func (r *reflector) pass(ctx context.Context, key types.NamespacedName) (offload.Step, error) {
	facts, t := r.facts(key)
	facts.Drained = r.engine.drained(ctx, t, facts.RefusedSince)
	var refusals []string
	for read, paced := false, false; ; {
		step := r.decide(&facts, t)
		if rest := r.hold(key, facts.Local, step, &paced); rest > 0 { // before the read, so that the provider does not cause many reads either
			return offload.Step{Why: "its state in the provider changes too often", After: rest}, nil
		}
		if step.Confirm && !read { // read only once: a refusal does not change the facts
			var err error
			if facts, err = r.read(ctx, t, key, facts); err != nil {
				return step, err
			}
			read = true
			continue
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
				return step, fmt.Errorf("creating %s: the API server reports that it exists, and then that it does not exist", key)
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
			warned, ok := r.Refused(facts.Local, step.Action, "the cluster refused it: "+err.Error())
			if !ok {
				return step, err
			}
			if err := r.do(ctx, t, key, facts.Local, warned); err != nil {
				return warned, err
			}
			return warned, refusal{err}
		default:
			return step, err
		}
	}
}

// decide returns the step for facts. If the provider reported a drain after they were gathered, it decides again: the Node is not ready since that report,
// and the step may show that instead of the drain. If it reported the drain in another namespace, the status is written only after a read here, which the drain
// refuses.
func (r *reflector) decide(facts *Facts, t *watchedNamespace) offload.Step {
	step := r.Next(*facts)
	if !r.Revoked || t == nil || !facts.RefusedSince.IsZero() {
		return step
	}
	if refused := t.stores[r][0].refusedAt(); t.drain.reported(refused) {
		facts.RefusedSince, facts.Drained = refused, true
		return r.Next(*facts)
	}
	step.Confirm = step.Confirm || step.Action == offload.PatchLocalStatus && r.engine.Drained()
	return step
}

// hold returns how long the step of an object has to wait, because the provider caused many writes of that object in this cluster. Only patches wait,
// since a later patch replaces the state that an earlier one wrote. paced means that the pass has already waited for a patch, which counts once.
func (r *reflector) hold(key types.NamespacedName, local client.Object, step offload.Step, paced *bool) time.Duration {
	switch {
	case local == nil:
		r.patches.Forget(key)
	case !*paced && (step.Action == offload.PatchLocalStatus || step.Action == offload.PatchLocal):
		*paced = true
		return r.patches.Take(key, r.engine.opts.Clock.Now())
	}
	return 0
}

// refusal is an error that the user was already warned about.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refused reports whether the provider's API server rejected the content of a request or denied permission. A terminating namespace does not count.
func refused(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) &&
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// do executes a step of the object with that name and reports the step's warning to the user. If an object to delete no longer exists, that is no
// error.
func (r *reflector) do(ctx context.Context, t *watchedNamespace, key types.NamespacedName, local client.Object, step offload.Step) error {
	if step.Action != offload.Nothing {
		obj, ok := step.Object.(client.Object)
		if !ok {
			return fmt.Errorf("executing %s: %T is not an object", step.Action, step.Object)
		}
		if r.BeforeWrite != nil && (step.Action == offload.CreateRemote || step.Action == offload.PatchRemote) {
			if err := r.beforeWrite(ctx, local, obj); err != nil {
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
		r.warn(key, local, step.Warning)
	}
	if r.EmitEvents && local != nil && (step.Action == offload.CreateRemote || step.Action == offload.PatchRemote) {
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

// warn warns the user about a local object, unless the same warning was the last one about this object. An empty warning clears the record.
func (r *reflector) warn(key types.NamespacedName, local client.Object, warning string) {
	r.mu.Lock()
	if warning == "" || local == nil {
		delete(r.warned, key)
		r.mu.Unlock()
		return
	}
	news := string(local.GetUID()) + " " + warning
	known := r.warned[key] == news
	r.warned[key] = news
	r.mu.Unlock()
	if !known {
		r.engine.opts.Warn(local, warning)
	}
}

// beforeWrite calls Kind.BeforeWrite with a deadline of its own.
func (r *reflector) beforeWrite(ctx context.Context, local, obj client.Object) error {
	opts := r.engine.opts
	ctx, cancel := context.WithTimeout(ctx, opts.RequestTimeout)
	defer cancel()
	return r.BeforeWrite(ctx, opts.Local, local, obj, opts.Clock.Now())
}
