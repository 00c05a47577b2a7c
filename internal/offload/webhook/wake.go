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
	// wakeFor is how long the waker checks a namespace. By then, the service proxy of every node knows a webhook replica that has just started.
	// wakeEvery is the longest interval between two checks, and wakeFirst the shortest.
	wakeFor, wakeEvery, wakeFirst = 64 * time.Second, 8 * time.Second, time.Second
)

// waker makes workload controllers retry the creation of pods that admission rejected. Pods are rejected while no replica of the webhook responds.
// They are also rejected while a namespace has the label of offloaded namespaces but no NamespaceOffloading.
//
// Kubernetes retries by itself, but doubles its delay with each rejection, up to 1000 s, and each change of an existing pod counts as one more retry.
// An outage of a few seconds can therefore delay a Deployment for a quarter of an hour (client-go, DefaultTypedControllerRateLimiter; Jobs wait for a
// minute at most).
//
// In both cases, pods are accepted soon after this process observes a NamespaceOffloading. The exact time is unknown here, so the waker checks
// workloads with missing pods several times. If pods are missing for another reason, Kubernetes reconciles the workload a few times without effect.
type waker struct {
	cached, live client.Reader
	writer       client.StatusClient
	now          func() time.Time
	// known is when each NamespaceOffloading was first observed. Only the single worker accesses it.
	known map[types.NamespacedName]time.Time
}

func setupWaker(mgr ctrl.Manager, now func() time.Time) error {
	everyReplica := false // every replica serves the webhooks, and each may have been down
	return kube.NewController(mgr, "waker", controller.Options{NeedLeaderElection: &everyReplica, MaxConcurrentReconciles: 1}).
		For(&offloadingv1beta1.NamespaceOffloading{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(&waker{cached: mgr.GetClient(), live: mgr.GetAPIReader(), writer: mgr.GetClient(), now: now, known: map[types.NamespacedName]time.Time{}})
}

// Reconcile checks the namespace of a NamespaceOffloading repeatedly until wakeFor has passed since it was first observed. It
// is no kube.Reconciler, because it forgets an object when that is gone.
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
	if err := w.resync(ctx, req.Namespace); err != nil {
		log.FromContext(ctx).Error(err, "Failed to make the controllers of workloads retry the creation of refused pods") // requeued below in any case
	}
	return reconcile.Result{RequeueAfter: min(max(age, wakeFirst), wakeEvery)}, nil
}

// resync wakes the workloads with missing pods in a namespace.
func (w *waker) resync(ctx context.Context, namespace string) error {
	lacking, err := w.lacking(ctx, namespace)
	for _, o := range lacking {
		if failed := w.wake(ctx, o); failed != nil {
			err = errors.Join(err, fmt.Errorf("triggering the controller of %T %s/%s: %w", o, namespace, o.GetName(), failed))
			continue
		}
		log.FromContext(ctx).Info("Made the controller of a workload retry the creation of refused pods", "workload", o.GetName(), "kind", fmt.Sprintf("%T", o))
	}
	return err
}

// lacking returns the workloads in a namespace with fewer pods than desired. It reads without the cache, since nothing else needs these kinds.
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

// wake lowers the observedGeneration in a workload's status. This is the smallest change that makes the workload's controller reconcile it without
// delay, and the controller corrects the value.
func (w *waker) wake(ctx context.Context, o client.Object) error {
	patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, max(o.GetGeneration()-1, 0))
	return client.IgnoreNotFound(w.writer.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)))
}
