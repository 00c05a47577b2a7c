package examples

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// unpeerApart: while rome does not reach milan, unpeer changes nothing, with and without --dry-run. It names the command that unpeers without contacting milan.
func unpeerApart(s *story.Story) {
	const ns = "apart"
	rome, milan := s.Rome, s.Milan
	s.Step("a pod in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "web", playground.TestServer)))
		s.PodReady(rome, ns, "web", start)
	})
	pod := *s.Pod(milan, story.Twin(ns), "web")
	reaches := func(want bool) {
		s.Helper()
		s.Eventually(start, fmt.Sprintf("rome to report that it reaches milan: %t", want), func(ctx context.Context) error {
			var foreign corev1beta1.ForeignCluster
			if err := rome.Get(ctx, client.ObjectKey{Name: "milan"}, &foreign); err != nil {
				return err
			}
			for _, c := range foreign.Status.Conditions {
				if c.Type == corev1beta1.APIServerStatus && (c.Status != corev1beta1.StatusError) == want {
					return nil
				}
			}
			return fmt.Errorf("conditions %v", foreign.Status.Conditions)
		})
	}
	heal := func() error { return s.Heal(context.WithoutCancel(s.Context()), rome, milan) } // the story's own context may have ended
	s.Step("cut apart", func() {
		s.Cleanup(func() { _ = heal() })
		s.Must(s.Partition(s.Context(), rome, milan))
		reaches(false)
	})
	s.Step("unpeer refuses, and changes nothing", func() {
		before := map[*playground.Cluster]story.Snapshot{}
		for _, c := range s.Clusters() {
			var err error
			before[c], err = story.Take(s.Context(), c)
			s.Must(err)
		}
		both := "--kubeconfig " + rome.Kubeconfig + " --remote-kubeconfig " + milan.Kubeconfig
		for _, command := range []string{"unpeer " + both, "unpeer --delete-namespaces " + both, "unpeer milan --kubeconfig " + rome.Kubeconfig} {
			for _, words := range []string{command + " --dry-run", command} {
				_, err := s.Liqoctl(s.Context(), strings.Fields(words)...)
				if err == nil {
					s.Fatalf("liqoctl %s succeeded", words)
				}
				for _, want := range []string{"cluster rome does not reach the API server of milan", "Nothing was changed", "liqoctl force unpeer milan"} {
					if !strings.Contains(err.Error(), want) {
						s.Errorf("liqoctl %s does not say %q: %v", words, want, err)
					}
				}
			}
		}
		for _, c := range s.Clusters() {
			s.Same(c, before[c])
		}
	})
	s.Step("afterwards the peering is as it was", func() {
		s.Must(heal())
		reaches(true)
		s.NodeReady("milan", true, start)
		s.PodReady(rome, ns, "web", start)
		untouched(s, pod, *s.Pod(milan, story.Twin(ns), "web"))
	})
}
