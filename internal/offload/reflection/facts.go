package reflection

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// facts collects from the caches everything that is known about an object.
func (r *reflector) facts(key types.NamespacedName) (Facts, *watchedNamespace) {
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
	for _, s := range t.dependencies[r] {
		facts.RemoteSynced = facts.RemoteSynced && s.hasSynced()
		facts.Dependencies = append(facts.Dependencies, DependencyObjects{s, t.local})
	}
	for i, s := range t.stores[r] {
		facts.RemoteSynced = facts.RemoteSynced && s.hasSynced()
		there := types.NamespacedName{Namespace: t.remote, Name: r.remoteName(i, key.Name)}
		if facts.Remote[i] = s.get(there); facts.Remote[i] == nil && r.Remote[i].Former != nil {
			facts.Remote[i] = s.get(types.NamespacedName{Namespace: t.remote, Name: r.Remote[i].Former(key.Name)})
		}
		if i == 0 {
			facts.Since = s.arrivedAt(there)
			// While the cache is complete, only a read by name was refused, and the next such read detects that again. A reported drain ends all pods.
			if !s.hasSynced() || t.drain.reported(s.refusedAt()) {
				facts.RefusedSince = s.refusedAt()
			}
		}
	}
	if r.About != nil && facts.Remote[0] != nil {
		facts.About, facts.Counterpart = r.engine.pair(t, facts.Remote[0], r.About)
	}
	return facts, t
}

// read replaces the objects in facts by their current state on both API servers. If the provider refuses the read, the cached remote objects stay and
// facts.RefusedSince is set.
func (r *reflector) read(ctx context.Context, t *watchedNamespace, key types.NamespacedName, facts Facts) (Facts, error) {
	var err error
	if facts.Local, err = r.engine.get(ctx, r.engine.opts.Local, key, r.Local); err != nil {
		return facts, fmt.Errorf("reading %s: %w", key, err)
	}
	if r.Refresh != nil {
		if err := r.Refresh(ctx, r.engine.opts.Local, r.engine.opts.Remote, facts); err != nil {
			return facts, fmt.Errorf("refreshing the state that %s depends on: %w", key, err)
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
			facts.Drained = r.engine.drained(ctx, t, facts.RefusedSince)
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

// selects reports whether an object matches a label selector.
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

// drainReportAge is the maximum age of a drainReport. Many pods ask for it at the same time.
const drainReportAge = time.Second

// drainReport caches whether the provider reports a drain in a remote namespace.
type drainReport struct {
	mu   sync.Mutex // held during a request
	last atomic.Pointer[drainResult]
}

// drainResult is the result of reading the report of a drain.
type drainResult struct {
	read    time.Time
	drained bool
}

// reported reports whether the last read report is that of a drain, and of the refusal of reads since refused.
func (d *drainReport) reported(refused time.Time) bool {
	last := d.last.Load()
	return last != nil && last.drained && !refused.IsZero() && !last.read.Before(refused)
}

// drained reports whether the provider reports, in the remote namespace, that it drained or removed the tenant. A drain takes away all rights there but the one
// to read this report. refused is the time since which the provider refuses reads: while it does not, nothing is read.
func (e *Engine) drained(ctx context.Context, t *watchedNamespace, refused time.Time) bool {
	if t == nil || refused.IsZero() {
		return false
	}
	t.drain.mu.Lock()
	defer t.drain.mu.Unlock()
	now, before := e.opts.Clock.Now(), t.drain.last.Load()
	if before == nil {
		before = &drainResult{}
	}
	if age := now.Sub(before.read); age >= 0 && age < drainReportAge && !before.read.Before(refused) {
		return before.drained
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	err := e.opts.Remote.Get(ctx, types.NamespacedName{Namespace: t.remote, Name: offloadingv1beta1.DrainedRoleBinding}, &rbacv1.RoleBinding{})
	drained := err == nil // without a report, the refusal is unexplained
	t.drain.last.Store(&drainResult{read: now, drained: drained})
	if drained != before.drained || before.read.Before(refused) {
		e.opts.AccessChanged()
	}
	return drained
}
