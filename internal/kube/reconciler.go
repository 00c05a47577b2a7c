package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConditionReady is the type of the summary condition.
const ConditionReady = "Ready"

// Reconciler reconciles the objects of one kind for one concern. T is a pointer to the kind's Go type.
type Reconciler[T client.Object] struct {
	// Name is the name of the concern, for error messages.
	Name string
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Finalizer keeps the object until Finalize has returned nil. It is empty if nothing outlives the object.
	Finalizer string
	// Wanted reports whether this reconciler is responsible for the object; nil means always. Other objects get no finalizer and
	// no Sync. A finalizer that such an object already has is still processed.
	Wanted func(obj T) bool
	// Sync makes the state of the cluster match obj. It may change obj.Status in memory; Reconciler then writes the status once.
	// It must not change metadata or spec (use Ensure for that).
	Sync func(ctx context.Context, obj T) error
	// Finalize reverts what Sync did. The object can be deleted once it returns nil.
	Finalize func(ctx context.Context, obj T) error
	// Conditions returns the conditions in the status of obj. If it is set, Reconciler maintains the summary condition "Ready".
	Conditions func(obj T) *[]metav1.Condition
}

// Reconcile runs one pass for the object named by the request.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := r.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// The cache may return shared objects, which must not be changed, but Sync may change the status.
	obj = obj.DeepCopyObject().(T)
	before := obj.DeepCopyObject().(T)

	deleting := !obj.GetDeletionTimestamp().IsZero()
	wanted := r.Wanted == nil || r.Wanted(obj)
	var err error
	switch {
	case deleting && (r.Finalizer == "" || !controllerutil.ContainsFinalizer(obj, r.Finalizer)):
		return reconcile.Result{}, nil
	case deleting:
		if err = r.finalize(ctx, obj); err == nil {
			return r.outcome(r.removeFinalizer(ctx, obj))
		}
	case !wanted:
		return reconcile.Result{}, nil
	default:
		if err := r.addFinalizer(ctx, obj, before); err != nil {
			return r.outcome(err)
		}
		err = r.Sync(ctx, obj)
	}
	r.summarize(obj, err)
	r.log(ctx, err)
	if werr := PatchStatus(ctx, r.Client, obj, before); werr != nil {
		if IsWait(err) || IsInvalid(err) {
			err = nil // the status should have reported the outcome but was not written, so retry
		}
		return r.outcome(errors.Join(err, werr))
	}
	return r.outcome(err)
}

func (r *Reconciler[T]) finalize(ctx context.Context, obj T) error {
	if r.Finalize == nil {
		return nil
	}
	return r.Finalize(ctx, obj)
}

// addFinalizer adds the finalizer before Sync creates anything that outlives the object.
func (r *Reconciler[T]) addFinalizer(ctx context.Context, obj, before T) error {
	if r.Finalizer == "" || !controllerutil.AddFinalizer(obj, r.Finalizer) {
		return nil
	}
	// The optimistic lock prevents two controllers from overwriting each other's finalizers.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("adding finalizer %s: %w", r.Finalizer, err)
	}
	reflect.ValueOf(before).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
	return nil
}

func (r *Reconciler[T]) removeFinalizer(ctx context.Context, obj T) error {
	before := obj.DeepCopyObject().(T)
	controllerutil.RemoveFinalizer(obj, r.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, obj, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing finalizer %s: %w", r.Finalizer, err)
	}
	return nil
}

// summarize sets the summary condition.
func (r *Reconciler[T]) summarize(obj T, err error) {
	if r.Conditions == nil || apierrors.IsConflict(err) {
		return
	}
	ok, reason, message := explain(err)
	condition := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: obj.GetGeneration(),
	}
	if ok {
		condition.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(r.Conditions(obj), condition)
}

// log logs what the object waits for, at a verbose level. It also logs why the object is invalid, unless a condition reports that.
func (r *Reconciler[T]) log(ctx context.Context, err error) {
	var w *wait
	var i *invalid
	log := ctrl.LoggerFrom(ctx)
	switch {
	case errors.As(err, &w):
		log.V(1).Info("Waiting", "reason", w.reason+": "+w.message)
	case errors.As(err, &i) && r.Conditions == nil:
		log.Info("Ignoring an invalid object", "reason", i.reason+": "+i.message)
	}
}

// outcome converts the error of a pass to the result for the work queue.
func (r *Reconciler[T]) outcome(err error) (reconcile.Result, error) {
	var w *wait
	switch {
	case err == nil:
		return reconcile.Result{}, nil
	case errors.As(err, &w):
		return reconcile.Result{RequeueAfter: w.after}, nil
	case IsInvalid(err):
		return reconcile.Result{}, nil // reported by the condition; a change of the object triggers a reconciliation
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil // the cache is outdated: not worth an error message
	default:
		return reconcile.Result{}, fmt.Errorf("%s: %w", r.Name, err)
	}
}
