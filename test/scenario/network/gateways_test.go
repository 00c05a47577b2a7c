package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// gateways returns a cluster's gateway pods for a peer.
func gateways(ctx context.Context, c *playground.Cluster, peer string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.List(ctx, &list, client.InNamespace(api.TenantNamespace(peer)), client.MatchingLabels{
		networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, api.LabelRemoteClusterID: peer,
	})
	return list.Items, err
}

// active waits until exactly one of a cluster's gateway pods for a peer reports to be active and is not the pod other, and returns it.
func active(s *story.Story, c *playground.Cluster, peer string, other ...string) *corev1.Pod {
	s.Helper()
	var found corev1.Pod
	s.Eventually(time.Minute, fmt.Sprintf("one gateway of %s towards %s to be at work, other than %v", c.ID, peer, other), func(ctx context.Context) error {
		pods, err := gateways(ctx, c, peer)
		if err != nil {
			return err
		}
		names := story.Names(pods)
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return pod.Labels[networkingv1beta1.LabelActive] != api.True || !story.Ready(pod) || slices.Contains(other, pod.Name)
		})
		if len(pods) != 1 {
			return fmt.Errorf("%v of the pods %v are", story.Names(pods), names)
		}
		found = pods[0]
		return nil
	})
	return &found
}

// elections returns what the agents of the gateways between two clusters have logged about their states, sorted by time. This includes the logs before their
// last restart.
func elections(s *story.Story, c *playground.Cluster, peer *playground.Cluster) []string {
	s.Helper()
	var said []string
	for side, far := range map[*playground.Cluster]*playground.Cluster{c: peer, peer: c} {
		pods, err := gateways(s.Context(), side, far.ID)
		s.Must(err)
		for i := range pods {
			for _, previous := range []bool{true, false} {
				options := corev1.PodLogOptions{Container: "gateway", Previous: previous}
				log, err := side.Set.CoreV1().Pods(pods[i].Namespace).GetLogs(pods[i].Name, &options).DoRaw(s.Context())
				if err != nil {
					continue // it did not restart, or its log was deleted
				}
				for line := range strings.Lines(string(log)) {
					if strings.Contains(line, "Changed the state of this replica") {
						said = append(said, strings.TrimSpace(line)+" # "+pods[i].Name)
					}
				}
			}
		}
	}
	slices.Sort(said) // each line starts with the time
	return said
}

// standing waits until a cluster has two gateway pods for a peer again, both Ready, and each of its nodes knows both. After an outage of the API server, agents
// may observe new pods half a minute late.
func standing(s *story.Story, c *playground.Cluster, peer string) {
	s.Helper()
	s.Eventually(2*time.Minute, fmt.Sprintf("two gateways of %s towards %s to be Ready, and known on each node", c.ID, peer), func(ctx context.Context) error {
		pods, err := gateways(ctx, c, peer)
		if err != nil {
			return err
		}
		if len(pods) != 2 || !story.Ready(pods[0]) || !story.Ready(pods[1]) {
			return fmt.Errorf("the pods are %v", story.Names(pods))
		}
		for number := 1; number <= 2; number++ {
			known, err := s.Machine.Exec(ctx, c.Worker(number), "nft", "list", "set", "ip", "liqo", "members")
			if err != nil {
				return err
			}
			addresses := strings.FieldsFunc(known, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
			for _, pod := range pods {
				if !slices.Contains(addresses, pod.Status.PodIP) {
					return fmt.Errorf("node %s does not know gateway %s at %s: %v", c.Worker(number), pod.Name, pod.Status.PodIP, addresses)
				}
			}
		}
		return nil
	})
}

// connected waits until the Connection of a cluster to a peer has that value, and returns it.
func connected(s *story.Story, c *playground.Cluster, peer, value string, within time.Duration) *networkingv1beta1.Connection {
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

// kill kills the processes of a container of a pod.
func kill(s *story.Story, pod *corev1.Pod, container string) {
	s.Helper()
	pids, err := playground.Container(pod, container)
	s.Must(err)
	s.Must(playground.Kill(pids[len(pids)-1]))
}

// pause waits: what is tested here is that nothing changes with time.
func pause(s *story.Story, d time.Duration) {
	select {
	case <-s.Context().Done():
	case <-time.After(d):
	}
}
