package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete

// lostPods deletes the Pods of ShadowPods that Kubernetes evicted from a failed node of this cluster. No kubelet confirms their termination, so they
// would remain, without replacement, until the node is back. The feature is optional, because a node that is only disconnected still runs them.
type lostPods struct {
	client.Client
	Options
	// live reads without the cache, which does not hold real nodes.
	live client.Reader
}

func setupLostPods(mgr ctrl.Manager, opts Options) error {
	if !opts.ReplaceLostPods {
		return nil
	}
	r := &lostPods{Client: mgr.GetClient(), Options: opts, live: mgr.GetAPIReader()}
	return kube.NewController(mgr, "nodefailure").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(pod client.Object) bool { return !pod.GetDeletionTimestamp().IsZero() }))).
		Complete(r)
}

// lostRetry is the interval for checking whether the node of a pod that does not terminate has failed.
const lostRetry = 30 * time.Second

// Reconcile handles one Pod that is being deleted. A kube.Reconciler does nothing for such an object.
func (r *lostPods) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	left, ending := offload.Overdue(pod, r.Now())
	if !ending || !offload.OfShadowPod(pod) {
		return reconcile.Result{}, nil
	}
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	node := &corev1.Node{}
	found, err := exists(ctx, r.live, node, client.ObjectKey{Name: pod.Spec.NodeName})
	if err != nil {
		return reconcile.Result{}, err
	}
	if !found {
		node = nil
	}
	if !offload.Failed(node) {
		return reconcile.Result{RequeueAfter: lostRetry}, nil
	}
	if err := kube.Delete(ctx, r.Client, pod, client.GracePeriodSeconds(0)); err != nil {
		return reconcile.Result{}, fmt.Errorf("removing a pod of failed node %s: %w", pod.Spec.NodeName, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a remote pod of a failed node", "node", pod.Spec.NodeName)
	return reconcile.Result{}, nil
}
