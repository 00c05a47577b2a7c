package handshake

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/workload"
)

// NodeNameCure says how to peer with a provider whose ID cannot be used as the name of a node.
func NodeNameCure(provider string) string {
	return fmt.Sprintf("peer with --create-resource-slice=false, then create the virtual node under another name (liqoctl create resourceslice NAME --remote-cluster-id %s)", provider)
}

// CheckNodeName fails if the name for a virtual node of the provider is in use by another node.
func CheckNodeName(ctx context.Context, c *session.Cluster, name, provider, cure string) error {
	taken := ""
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Get(ctx, client.ObjectKeyFromObject(node), node)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return c.Err(fmt.Errorf("reading Node %s: %w", name, err))
	case err == nil && node.Labels[api.LabelType] != api.TypeVirtualNode:
		taken = fmt.Sprintf("Node %s is a node of cluster %s itself", name, c.ID)
	default:
		var all offloadingv1beta1.VirtualNodeList
		if err := c.List(ctx, &all); err != nil {
			return c.Err(fmt.Errorf("listing VirtualNodes: %w", err))
		}
		for i := range all.Items {
			if other := &all.Items[i]; other.Name == name && other.Spec.ClusterID != provider {
				taken = fmt.Sprintf("VirtualNode %s in namespace %s is a node of cluster %s", name, other.Namespace, other.Spec.ClusterID)
			}
		}
	}
	if taken == "" {
		return nil
	}
	return c.Err(fmt.Errorf("%s, and the virtual node of cluster %s would have the same name: %s", taken, provider, cure))
}

// NodeReady waits for a VirtualNode, and then until the Node with the same name is Ready.
func NodeReady(ctx context.Context, c *session.Cluster, namespace, name string) error {
	virtual := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	doing := "Waiting for the virtual node " + name
	if err := c.Reach(ctx, &session.Goal{Object: virtual, Doing: doing, Done: fmt.Sprintf("VirtualNode %s is created", name), Met: session.Yes}); err != nil {
		return err
	}
	if virtual.Spec.CreateNode != nil && !*virtual.Spec.CreateNode {
		c.Info("The VirtualNode gets no Node (spec.createNode is false)")
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Reach(ctx, &session.Goal{
		Object: node, Doing: doing, Done: fmt.Sprintf("Node %s is Ready", name),
		Met:     func() session.Verdict { return nodeVerdict(node) },
		Trouble: func() string { return kubeletState(c, namespace, name) },
	})
}

// nodeVerdict judges whether a Node is Ready.
func nodeVerdict(node *corev1.Node) session.Verdict {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return session.Yes()
		}
		return session.NotYet("condition Ready is %s, %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	return session.NotYet("it has no condition Ready")
}

// kubeletState says why the pods of a virtual kubelet are not running, to explain a failed wait. It has its own timeout, because the
// timeout of the wait has expired.
func kubeletState(c *session.Cluster, namespace, virtualNode string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{api.LabelVirtualNode: virtualNode}); err != nil {
		return ""
	}
	if len(pods.Items) == 0 {
		return fmt.Sprintf("there is no pod of its virtual kubelet in namespace %s: see the VirtualNode's conditions and the log of Deployment %s in namespace %s",
			namespace, session.ControllerManager, c.Namespace)
	}
	for _, pod := range pods.Items {
		if why := workload.Trouble(&pod); why != "" {
			return why
		}
	}
	return ""
}
