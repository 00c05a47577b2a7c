package installer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/kube"
)

// LockName is the name of the Lease that a process holds while it changes an installation.
const LockName = install.LockName

// LockTiming configures the renewal of a lock. The zero value means the timing of production: 30 s and 5 s.
type LockTiming struct {
	// Duration is how long a lock stays valid without a renewal. Renew is the interval at which the holder renews it.
	Duration, Renew time.Duration
}

func (t LockTiming) orDefault() LockTiming {
	if t.Duration == 0 {
		return LockTiming{Duration: 30 * time.Second, Renew: 5 * time.Second}
	}
	return t
}

// HeldError is returned by Acquire if another process holds the lock and renews it.
type HeldError struct {
	Namespace, Holder string
	Since             time.Time
	Duration          time.Duration
}

// Error names the holder and what the user can do.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the installation in namespace %s is being changed by %s, since %s, which renews Lease %s there: wait until it ends, then run the command again. "+
		"If it is killed, the lock expires %s later", e.Namespace, e.Holder, e.Since.UTC().Format(time.RFC3339), LockName, e.Duration)
}

// Lock is the lock of one process that changes an installation.
type Lock struct {
	client client.Client
	lease  *coordinationv1.Lease
	timing LockTiming
	// From is the previous holder, if this lock replaced one that was not renewed. It is empty otherwise.
	From string
	// FromSince is when the previous holder acquired the lock.
	FromSince time.Time

	cancel context.CancelCauseFunc
	end    context.CancelFunc
	done   sync.WaitGroup
}

// ErrLockLost is the cancellation cause of the lock's context after another process may have taken over the lock.
var ErrLockLost = errors.New("the lock of the installation was lost: it could not be renewed in time, and another process may have taken it over")

// Acquire takes the lock of the installation in a namespace. The returned context is cancelled with cause ErrLockLost if the lock is lost.
//
// Acquire takes over a lock that is not renewed for its whole duration. This process measures that duration itself, so clocks need not be
// synchronized. Acquire calls waiting before the measurement, because it takes time. If the holder renews the lock, Acquire returns a
// HeldError.
func Acquire(ctx context.Context, c client.Client, namespace, holder string, timing LockTiming, waiting func(holder string)) (context.Context, *Lock, error) {
	timing = timing.orDefault()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LockName}}
	l := &Lock{client: c, lease: lease, timing: timing}
	for {
		now := metav1.NowMicro()
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: ptr.To(max(1, int32(timing.Duration/time.Second))),
		}
		lease.ResourceVersion = ""
		err := c.Create(ctx, lease)
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			return ctx, nil, fmt.Errorf("creating Lease %s in namespace %s: %w", LockName, namespace, err)
		}
		abandoned, err := observe(ctx, c, namespace, timing, waiting)
		if err != nil {
			return ctx, nil, err
		}
		if abandoned == nil { // the holder released it meanwhile
			continue
		}
		l.From = ptr.Deref(abandoned.Spec.HolderIdentity, noHolder)
		if since := abandoned.Spec.AcquireTime; since != nil {
			l.FromSince = since.Time
		}
		abandoned.Spec = *lease.Spec.DeepCopy()
		err = c.Update(ctx, abandoned)
		if err == nil {
			l.lease = abandoned
			break
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return ctx, nil, fmt.Errorf("taking over Lease %s in namespace %s: %w", LockName, namespace, err)
		}
		l.From = ""
	}
	held, cancel := context.WithCancelCause(ctx)
	renewing, end := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel, l.end = cancel, end
	l.done.Go(func() { l.renew(renewing) })
	return held, l, nil
}

// noHolder is the name in messages of the holder of a Lease that names none.
const noHolder = "an unknown holder"

// observe watches an existing lock for its whole duration. It returns the lock if its holder did not renew it, nil if the lock was
// released, and a HeldError if the lock was renewed.
func observe(ctx context.Context, c client.Client, namespace string, timing LockTiming, waiting func(string)) (*coordinationv1.Lease, error) {
	key := client.ObjectKey{Namespace: namespace, Name: LockName}
	read := func() (*coordinationv1.Lease, error) {
		lease := &coordinationv1.Lease{}
		err := c.Get(ctx, key, lease)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading Lease %s in namespace %s: %w", LockName, namespace, err)
		}
		return lease, nil
	}
	first, err := read()
	if err != nil || first == nil {
		return nil, err
	}
	waiting(ptr.Deref(first.Spec.HolderIdentity, noHolder))
	duration := timing.Duration
	if seconds := ptr.Deref(first.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		duration = min(duration, time.Duration(seconds)*time.Second)
	}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for Lease %s in namespace %s, which %s holds: %w", LockName, namespace, ptr.Deref(first.Spec.HolderIdentity, noHolder), ctx.Err())
		case <-time.After(min(timing.Renew/2, duration)):
		}
		now, err := read()
		if err != nil || now == nil {
			return nil, err
		}
		if now.UID != first.UID || now.ResourceVersion != first.ResourceVersion {
			held := &HeldError{Namespace: namespace, Holder: ptr.Deref(now.Spec.HolderIdentity, noHolder), Duration: timing.Duration}
			if now.Spec.AcquireTime != nil {
				held.Since = now.Spec.AcquireTime.Time
			}
			return nil, held
		}
	}
	return first, nil
}

// renew renews the lock until it is released or lost. If the Lease is deleted, for example with its namespace, renew ends without an error.
func (l *Lock) renew(ctx context.Context) {
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.timing.Renew):
		}
		lease := l.lease.DeepCopy()
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		err := l.client.Update(ctx, lease)
		switch {
		case err == nil:
			l.lease, last = lease, time.Now()
		case ctx.Err() != nil:
			return
		case apierrors.IsConflict(err):
			// Either the response to an earlier update of this process got lost, or another process changed or deleted the Lease.
			switch lease, err := l.reread(ctx); {
			case apierrors.IsNotFound(err):
				return
			case err != nil && time.Since(last) <= l.timing.Duration: // no response: retry
			case err == nil && lease.UID == l.lease.UID && ptr.Deref(lease.Spec.HolderIdentity, "") == ptr.Deref(l.lease.Spec.HolderIdentity, ""):
				l.lease = lease
			default:
				l.cancel(ErrLockLost)
				return
			}
		case time.Since(last) > l.timing.Duration:
			l.cancel(ErrLockLost)
			return
		}
	}
}

// reread gets the current Lease.
func (l *Lock) reread(ctx context.Context) (*coordinationv1.Lease, error) {
	now := &coordinationv1.Lease{}
	return now, l.client.Get(ctx, client.ObjectKeyFromObject(l.lease), now)
}

// Keep stops the renewal without releasing the lock. It is for an installation that is left half changed: the next holder finds the Lease
// and knows that the change was not completed.
func (l *Lock) Keep() {
	l.end()
	l.done.Wait()
	l.cancel(nil)
}

// Release deletes the Lease, so that another process can acquire the lock.
func (l *Lock) Release(ctx context.Context) error {
	l.Keep()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := kube.Delete(ctx, l.client, l.lease, client.Preconditions{UID: &l.lease.UID}); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
