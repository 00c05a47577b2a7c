package undo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload/kubelet"
)

// awaitVerdict waits until the condition of the API server in foreign is known to hold for the time at which the command started. The control plane detects a
// cut of the network within c.DetectsCutsWithin, and writes the condition only when it changes. So awaitVerdict waits for that time and one second after the
// start.
//
// It does not wait if the provider responds to the virtual kubelets now, or if there is no virtual node, because then no pod can run twice. A request of
// liqoctl itself would prove less: liqoctl may reach a provider that the control plane does not reach.
//
// foreign may not exist yet. It has no resource version then, also afterwards if nothing has created it.
func awaitVerdict(ctx context.Context, c *session.Cluster, foreign *corev1beta1.ForeignCluster) error {
	judgedWithin := c.DetectsCutsWithin + time.Second
	left := judgedWithin - time.Since(c.Began)
	if session.UnreachableSince(foreign) != nil || left <= 0 {
		return nil
	}
	if c.IsDryRun() {
		c.Plan.WaitsFor(c.Name(foreign) + " to report whether its API server still responds")
		return nil
	}
	// List all VirtualNodes and select them by spec.clusterID: a VirtualNode that a user created may lack the labels, and may be in another namespace.
	var all offloadingv1beta1.VirtualNodeList
	if err := c.List(ctx, &all); err != nil && !kube.Absent(err) {
		return c.Err(fmt.Errorf("listing the VirtualNodes: %w", err))
	}
	nodes := slices.DeleteFunc(all.Items, func(node offloadingv1beta1.VirtualNode) bool { return node.Spec.ClusterID != foreign.Name })
	if exists := foreign.ResourceVersion != ""; len(nodes) == 0 || exists && respondsToNodes(ctx, c, nodes, judgedWithin) {
		return nil
	}
	step := c.Start("Waiting until it is known whether the API server of %s responds: a cut of the network is detected within %s", foreign.Name, judgedWithin)
	defer step.End()
	waiting, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err := c.Follow(waiting, foreign, func(exists bool) (bool, error) { return exists && session.UnreachableSince(foreign) != nil, nil })
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return c.Waited(ctx.Err(), err, c.Name(foreign), "its API server responds")
}

// respondsToNodes reports whether the API server of a provider responds to the virtual kubelets of all these nodes within a time. It is false if one of them
// can't be asked.
func respondsToNodes(ctx context.Context, c *session.Cluster, nodes []offloadingv1beta1.VirtualNode, within time.Duration) bool {
	set, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for i := range nodes {
		path := set.CoreV1().RESTClient().Get().Resource("nodes").Name(nodes[i].Name).SubResource("proxy").Suffix(kubelet.PathProviderHealth)
		if said, err := path.Do(ctx).Raw(); err != nil || string(said) != "ok" {
			return false
		}
	}
	return true
}
