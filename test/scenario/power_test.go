package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// power: rome and then milan lose their power. The state of the other cluster stays, and the restarted cluster has the same state as before.
func power(s *story.Story) {
	const ns = "power"
	rome, milan := s.Rome, s.Milan
	twin := story.Twin(ns)
	s.Step("three pods in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "web", 3, playground.TestServer)))
		s.PodsReady(rome, ns, 3, start)
	})
	inRome, inMilan := uids(s.Pods(rome, ns)), s.Pods(milan, twin)

	outage(s, rome, func() {
		for i, now := range s.PodsReady(milan, twin, 3, start) {
			untouched(s, inMilan[i], now)
		}
	})
	s.Step("rome knows its pods again, and milan's were not touched", func() {
		s.NodeReady("milan", true, time.Minute)
		agreed(s, ns, inRome)
		for i, now := range s.Pods(milan, twin) {
			untouched(s, inMilan[i], now)
		}
	})

	outage(s, milan, func() {
		s.NodeReady("milan", false, notice)
		if now := uids(s.Pods(rome, ns)); len(now) != 3 {
			s.Errorf("rome has %d pods, want the three it had", len(now))
		}
	})
	s.Step("milan's pods run again, the same ones", func() {
		s.NodeReady("milan", true, time.Minute)
		agreed(s, ns, inRome)
		now := s.Pods(milan, twin)
		if !slices.EqualFunc(inMilan, now, func(a, b corev1.Pod) bool { return a.UID == b.UID }) {
			s.Errorf("milan has the pods %v, had %v", story.Names(now), story.Names(inMilan))
		}
	})
	s.Step("logs and exec work", func() {
		name := s.Pods(rome, ns)[0].Name
		s.Eventually(start, "logs", func(ctx context.Context) error {
			data, err := rome.Set.CoreV1().Pods(ns).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err == nil && !strings.Contains(string(data), "serving") {
				err = fmt.Errorf("they say %q", data)
			}
			return err
		})
		if got := s.Exec(rome, story.WebSocket, ns, name, "", "/testserver", "cat", "/etc/hostname"); got.Out != name+"\n" {
			s.Errorf("exec: %+v", got)
		}
	})
}

// outage powers a cluster off, calls meanwhile, and powers the cluster on again.
func outage(s *story.Story, c *playground.Cluster, meanwhile func()) {
	s.Helper()
	s.Step("pull the plug of "+c.ID, func() {
		_, err := s.Playground(s.Context(), "kill", "node", c.Node())
		s.Must(err)
		s.Cleanup(func() { // for the case that the story ends early; a running node is not affected
			_, _ = s.Playground(context.WithoutCancel(s.Context()), "start", "node", c.Node())
		})
	})
	s.Step("meanwhile", meanwhile)
	s.Step("power for "+c.ID, func() {
		_, err := s.Playground(s.Context(), "start", "node", c.Node())
		s.Must(err)
		s.Eventually(time.Minute, c.ID+" to answer", func(ctx context.Context) error {
			return c.Set.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		})
	})
}

// agreed waits until rome has the same pods as before, all Ready, and shows the state of their pods in milan.
func agreed(s *story.Story, ns string, before map[string]types.UID) {
	s.Helper()
	s.Eventually(90*time.Second, "rome to show what runs in milan", func(ctx context.Context) error {
		here, err := s.TryPods(ctx, s.Rome, ns)
		if err != nil {
			return err
		}
		there, err := s.TryPods(ctx, s.Milan, story.Twin(ns))
		if err != nil {
			return err
		}
		return shows(here, there)
	})
	if now := uids(s.Pods(s.Rome, ns)); !maps.Equal(now, before) {
		s.Errorf("rome's pods were replaced: they are %v, were %v", now, before)
	}
}
