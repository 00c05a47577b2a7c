package network

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// background returns a context for cleanups after the end of a story, when the story's own context is cancelled.
func background(s *story.Story) context.Context { return context.WithoutCancel(s.Context()) }

// component stops or starts a program of a node.
func component(s *story.Story, verb, name, node string) {
	s.Helper()
	_, err := s.Playground(s.Context(), verb, "component", name, "--node", node)
	s.Must(err)
	if verb == "stop" {
		s.Cleanup(func() { _, _ = s.Playground(background(s), "start", "component", name, "--node", node) })
	}
}

// answers waits until an API server responds.
func answers(s *story.Story, c *playground.Cluster) {
	s.Helper()
	s.Eventually(time.Minute, c.ID+" to answer", func(ctx context.Context) error {
		return c.Set.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// ready waits until a node is Ready.
func ready(s *story.Story, c *playground.Cluster, name string) {
	s.Helper()
	s.Eventually(90*time.Second, "node "+name+" to be Ready", func(ctx context.Context) error {
		var node corev1.Node
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("conditions %v", node.Status.Conditions)
		}
		return nil
	})
}
