package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// +kubebuilder:rbac:groups=apps,resources=replicasets;statefulsets;daemonsets,verbs=list
// +kubebuilder:rbac:groups=apps,resources=replicasets/status;statefulsets/status;daemonsets/status,verbs=patch

const (
	// wakeFor is how long a namespace is looked at: until a process that has just started is known to be ready on every node. wakeEvery is the
	// longest time between two looks, and wakeFirst the shortest.
	wakeFor, wakeEvery, wakeFirst = 64 * time.Second, 8 * time.Second, time.Second
)

// A waker has pods made that were refused: while no process answered the API server, and, in a namespace that carries the label of offloaded ones
// already, while there was no NamespaceOffloading. Kubernetes tries again by itself, but doubles its wait with each refusal, up to 1000 s, and each
// change of a pod that is there is one more try: an absence of a few seconds can hold a Deployment up for a quarter of an hour. (client-go,
// DefaultTypedControllerRateLimiter; Jobs wait for a minute at most.)
//
// Either way pods may be made soon after this process gets to know a NamespaceOffloading. When exactly is not known here, so what lacks pods is
// looked at several times; who lacks them for another reason is looked at by Kubernetes a few times in vain.
type waker struct {
	cached, live client.Reader
	writer       client.StatusClient
	now          func() time.Time
	// known is since when NamespaceOffloadings are. One worker uses it.
	known map[types.NamespacedName]time.Time
}

func setupWaker(mgr ctrl.Manager, now func() time.Time) error {
	everyReplica := false // each answers, and each may have been away
	return kube.NewController(mgr, "waker", controller.Options{NeedLeaderElection: &everyReplica, MaxConcurrentReconciles: 1}).
		For(&offloadingv1beta1.NamespaceOffloading{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(&waker{cached: mgr.GetClient(), live: mgr.GetAPIReader(), writer: mgr.GetClient(), now: now, known: map[types.NamespacedName]time.Time{}})
}

// Reconcile looks at the namespace of a NamespaceOffloading, and again until it is known for long enough.
func (w *waker) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var offloading offloadingv1beta1.NamespaceOffloading
	if err := w.cached.Get(ctx, req.NamespacedName, &offloading); err != nil {
		delete(w.known, req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	since, ok := w.known[req.NamespacedName]
	if !ok {
		since = w.now()
		w.known[req.NamespacedName] = since
	}
	age := w.now().Sub(since)
	if age > wakeFor || !offloading.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if err := w.look(ctx, req.Namespace); err != nil {
		log.FromContext(ctx).Error(err, "Looking for workloads that were refused their pods") // and again soon, error or not
	}
	return reconcile.Result{RequeueAfter: min(max(age, wakeFirst), wakeEvery)}, nil
}

// look wakes what lacks pods in a namespace.
func (w *waker) look(ctx context.Context, namespace string) error {
	lacking, err := w.lacking(ctx, namespace)
	for _, o := range lacking {
		if failed := w.wake(ctx, o); failed != nil {
			err = errors.Join(err, fmt.Errorf("waking %T %s/%s: %w", o, namespace, o.GetName(), failed))
			continue
		}
		log.FromContext(ctx).Info("It has fewer pods than it asks for: Kubernetes is made to look again", "workload", o.GetName(), "type", fmt.Sprintf("%T", o))
	}
	return err
}

// lacking returns what has fewer pods in a namespace than it asks for. It is read past the cache: nothing else needs these kinds.
func (w *waker) lacking(ctx context.Context, namespace string) ([]client.Object, error) {
	var lacking []client.Object
	var replicaSets appsv1.ReplicaSetList
	var statefulSets appsv1.StatefulSetList
	var daemonSets appsv1.DaemonSetList
	var errs []error
	for _, list := range []client.ObjectList{&replicaSets, &statefulSets, &daemonSets} {
		if err := w.live.List(ctx, list, client.InNamespace(namespace)); err != nil {
			errs = append(errs, fmt.Errorf("listing %T in namespace %s: %w", list, namespace, err))
		}
	}
	for i := range replicaSets.Items {
		if o := &replicaSets.Items[i]; o.Spec.Replicas != nil && o.Status.Replicas < *o.Spec.Replicas {
			lacking = append(lacking, o)
		}
	}
	for i := range statefulSets.Items {
		if o := &statefulSets.Items[i]; o.Spec.Replicas != nil && o.Status.Replicas < *o.Spec.Replicas {
			lacking = append(lacking, o)
		}
	}
	for i := range daemonSets.Items {
		if o := &daemonSets.Items[i]; o.Status.CurrentNumberScheduled < o.Status.DesiredNumberScheduled {
			lacking = append(lacking, o)
		}
	}
	return lacking, errors.Join(errs...)
}

// wake says of a workload that its controller has not seen it as it is. That is the least that has it looked at, whatever it waits for, and the
// controller itself sets it right.
func (w *waker) wake(ctx context.Context, o client.Object) error {
	patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, max(o.GetGeneration()-1, 0))
	return client.IgnoreNotFound(w.writer.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}
