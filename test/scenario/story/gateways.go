package story

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/playground"
)

// Gateways returns a cluster's gateway pods for a peer.
func Gateways(ctx context.Context, c *playground.Cluster, peer string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.List(ctx, &list, client.InNamespace(api.TenantNamespace(peer)), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, api.LabelRemoteClusterID: peer,
	})
	return list.Items, err
}

// ActiveGateway waits until exactly one of a cluster's gateway pods for a peer reports to be active and is not the pod other, and returns it.
func (s *Story) ActiveGateway(c *playground.Cluster, peer string, other ...string) *corev1.Pod {
	s.Helper()
	var found corev1.Pod
	s.Eventually(time.Minute, fmt.Sprintf("one gateway of %s towards %s to be at work, other than %v", c.ID, peer, other), func(ctx context.Context) error {
		pods, err := Gateways(ctx, c, peer)
		if err != nil {
			return err
		}
		names := Names(pods)
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return pod.Labels[networkingv1beta1.LabelActive] != api.True || !Ready(pod) || slices.Contains(other, pod.Name)
		})
		if len(pods) != 1 {
			return fmt.Errorf("%v of the pods %v are", Names(pods), names)
		}
		found = pods[0]
		return nil
	})
	return &found
}

// Connected waits until the Connection of a cluster to a peer has that value, and returns it.
func (s *Story) Connected(c *playground.Cluster, peer, value string, within time.Duration) *networkingv1beta1.Connection {
	s.Helper()
	var found networkingv1beta1.Connection
	s.Eventually(within, fmt.Sprintf("the connection of %s to %s to be %s", c.ID, peer, value), func(ctx context.Context) error {
		var list networkingv1beta1.ConnectionList
		if err := c.List(ctx, &list, client.InNamespace(api.TenantNamespace(peer))); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Value != value {
			return fmt.Errorf("it is %+v", list.Items)
		}
		found = list.Items[0]
		return nil
	})
	return &found
}
