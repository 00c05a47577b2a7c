package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/internal/reasons"
)

// mapLimit is how long, after the drain, a VirtualNode waits for its provider to delete the remote namespaces. The NamespaceMap has a finalizer of
// its own, which holds it longer if necessary.
const mapLimit = 30 * time.Second

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=delete

// finalize removes a virtual node in an order that loses nothing: it cordons the Node, drains the pods, and stops the virtual kubelet, which has
// handled their termination. Then it deletes the Node and the permissions of the virtual kubelet. With the last virtual node of a cluster it deletes
// the NamespaceMap. As long as that would delete data of volumes, the virtual node stays and works, so that the data can be copied.
func (r *virtualNodes) finalize(ctx context.Context, node *offloadingv1beta1.VirtualNode) error {
	if err := r.keepVolumes(ctx, node); err != nil {
		return err
	}
	host, err := r.host(ctx, node)
	if err != nil {
		return err
	}
	first, err := namesake(ctx, r.Client, node)
	if err != nil {
		return err
	}
	if first != nil || host != nil && host.Labels[api.LabelType] != api.TypeVirtualNode {
		host = nil // the Node belongs to another VirtualNode or is not virtual
	}
	unreachable, err := r.unreachable(ctx, node.Spec.ClusterID)
	if err != nil {
		return err
	}
	if host != nil {
		if err := r.cordon(ctx, host); err != nil {
			return err
		}
		stuck, err := r.drains.drain(ctx, node, unreachable, node.DeletionTimestamp.Time, r.Now())
		message := ""
		switch {
		case kube.IsWait(err):
			message = err.Error()
		case len(stuck) > 0:
			message = fmt.Sprintf("not terminated in time: %s", shown(stuck))
			r.events.Eventf(node, host, corev1.EventTypeWarning, reasons.DrainTimedOut, "Drain",
				"%d pods on node %s did not terminate in time, and the deletion continues without them: %s",
				len(stuck), node.Name, shown(stuck))
		}
		r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeDraining, reasons.NodeDraining, message)
		if err != nil {
			return err
		}
	}
	if err := r.stopKubelet(ctx, node, first == nil); err != nil {
		return err
	}
	if host != nil && !r.past(host.DeletionTimestamp) {
		r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeDeleting, reasons.NodeDeleting, "")
		if err := kube.Delete(ctx, r.Client, host); err != nil {
			return err
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name}}
		if err := kube.Delete(ctx, r.Client, lease); err != nil {
			return err
		}
		return kube.WaitFor(endLimit, reasons.NodeDeleting, "waiting for the deletion of node %s", node.Name)
	}
	r.condition(node, offloadingv1beta1.VirtualNodeNode, offloadingv1beta1.VirtualNodeNone, reasons.NodeDeleted, "")
	if first == nil { // otherwise the permissions belong to the other VirtualNode
		if err := r.revoke(ctx, node); err != nil {
			return err
		}
	}
	return r.releaseMap(ctx, node, unreachable)
}

// endLimit is how long the deletion of the virtual kubelet and of the Node may take. After that, a foreign finalizer probably holds them, or the node
// that ran the pod of the virtual kubelet has failed.
const endLimit = time.Minute

// past reports whether an object's deletion started at least endLimit ago.
func (r *virtualNodes) past(deleted *metav1.Time) bool {
	return deleted != nil && r.Now().Sub(deleted.Time) >= endLimit
}

// revoke deletes the ClusterRoleBinding of the virtual kubelet.
func (r *virtualNodes) revoke(ctx context.Context, node *offloadingv1beta1.VirtualNode) error {
	return kube.Delete(ctx, r.Client, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: kubelet.Binding(node.Name)}})
}

func (r *virtualNodes) cordon(ctx context.Context, host *corev1.Node) error {
	if host.Spec.Unschedulable {
		return nil
	}
	before := host.DeepCopy()
	host = host.DeepCopy()
	host.Spec.Unschedulable = true
	if err := r.Patch(ctx, host, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cordoning node %s: %w", host.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Cordoned the virtual node to drain it", "node", host.Name)
	return nil
}

// stopKubelet waits until the virtual kubelet has stopped, so that it can't recreate the Node. If that takes longer than endLimit, it revokes the
// virtual kubelet's permissions instead. own means that the permissions do not belong to another VirtualNode.
func (r *virtualNodes) stopKubelet(ctx context.Context, node *offloadingv1beta1.VirtualNode, own bool) error {
	deployment := &appsv1.Deployment{}
	found, err := exists(ctx, r.Client, deployment, client.ObjectKey{Namespace: node.Namespace, Name: kubelet.Name(node.Name)})
	if err != nil {
		return err
	}
	if !found || !metav1.IsControlledBy(deployment, node) {
		r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeNone, reasons.VkDeleted, "")
		return nil
	}
	message := fmt.Sprintf("waiting for the deletion of Deployment %s and its pods", deployment.Name)
	if own && r.past(deployment.DeletionTimestamp) {
		r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeDeleting, reasons.VkDeleting,
			fmt.Sprintf("Deployment %s and its pods still exist after %s, and the deletion continues without waiting for them", deployment.Name, endLimit))
		return r.revoke(ctx, node)
	}
	r.condition(node, offloadingv1beta1.VirtualNodeVirtualKubelet, offloadingv1beta1.VirtualNodeDeleting, reasons.VkDeleting, message)
	if deployment.DeletionTimestamp.IsZero() {
		if err := kube.Delete(ctx, r.Client, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			return err
		}
		r.events.Eventf(node, deployment, corev1.EventTypeNormal, reasons.VkDeleted, "Delete",
			"the virtual node has no pods left: deleting Deployment %s of the virtual kubelet", deployment.Name)
	}
	return kube.WaitFor(endLimit, reasons.VkDeleting, "%s", message)
}

// releaseMap deletes the NamespaceMap and waits until it is gone, if no other virtual node of that cluster needs it. If several virtual nodes are
// deleted together, the last one finds that no other virtual node needs it, and deletes it.
func (r *virtualNodes) releaseMap(ctx context.Context, node *offloadingv1beta1.VirtualNode, unreachable bool) error {
	siblings, _, err := nodesOf(ctx, r.Client, node.Spec.ClusterID)
	if err != nil {
		return err
	}
	siblings = slices.DeleteFunc(siblings, func(n offloadingv1beta1.VirtualNode) bool { return n.UID == node.UID })
	for i := range siblings {
		needs, err := needsMap(ctx, r.Client, &siblings[i])
		if err != nil || needs {
			return err
		}
	}
	maps, err := mapsTowards(ctx, r.Client, node.Spec.ClusterID)
	if err != nil {
		return err
	}
	if len(maps) == 0 {
		return nil
	}
	if err := deleteMaps(ctx, r.Client, maps); err != nil {
		return err
	}
	left := mapLimit
	for i := range maps {
		if since := maps[i].DeletionTimestamp; since != nil {
			left = min(left, mapLimit-r.Now().Sub(since.Time))
		}
	}
	if unreachable || left <= 0 {
		return nil
	}
	return kube.WaitFor(left, offloadingv1beta1.ReasonTerminating, "waiting for cluster %s to delete the remote namespaces", node.Spec.ClusterID)
}

// unreachable reports whether the provider is known to be unreachable. A cluster without a ForeignCluster counts as reachable.
func (r *virtualNodes) unreachable(ctx context.Context, cluster string) (bool, error) {
	fc := &corev1beta1.ForeignCluster{}
	found, err := exists(ctx, r.Client, fc, client.ObjectKey{Name: cluster})
	if err != nil || !found {
		return false, err
	}
	return offload.Unreachable(fc), nil
}
