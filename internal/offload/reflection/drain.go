package reflection

import (
	"context"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// drainReportAge is the maximum age of a drainReport. Many pods ask for it at the same time.
const drainReportAge = time.Second

// drainReport caches whether the provider reports a drain in a remote namespace.
type drainReport struct {
	mu      sync.Mutex
	read    time.Time
	drained bool
}

// drained reports whether the provider reports, in the remote namespace, that it drained or removed the tenant. A drain takes away all rights there but the one
// to read this report. refused is the time since which the provider refuses reads: while it does not, nothing is read.
func (e *Engine) drained(ctx context.Context, t *watchedNamespace, refused time.Time) bool {
	if t == nil || refused.IsZero() {
		return false
	}
	t.drain.mu.Lock()
	defer t.drain.mu.Unlock()
	now := e.opts.Clock.Now()
	if age := now.Sub(t.drain.read); age >= 0 && age < drainReportAge {
		return t.drain.drained
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	err := e.opts.Remote.Get(ctx, types.NamespacedName{Namespace: t.remote, Name: offloadingv1beta1.DrainedRoleBinding}, &rbacv1.RoleBinding{})
	t.drain.read, t.drain.drained = now, err == nil // without a report, the refusal is unexplained
	return t.drain.drained
}
