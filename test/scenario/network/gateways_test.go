package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// elections returns what the agents of the gateways between two clusters have logged about their states, sorted by time. This includes the logs before their
// last restart.
func elections(s *story.Story, c *playground.Cluster, peer *playground.Cluster) []string {
	s.Helper()
	var said []string
	for side, far := range map[*playground.Cluster]*playground.Cluster{c: peer, peer: c} {
		pods, err := story.Gateways(s.Context(), side, far.ID)
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
		pods, err := story.Gateways(ctx, c, peer)
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

// kill kills the processes of a container of a pod.
func kill(s *story.Story, pod *corev1.Pod, container string) {
	s.Helper()
	pids, err := playground.Container(pod, container)
	s.Must(err)
	s.Must(playground.Kill(pids[len(pids)-1]))
}
