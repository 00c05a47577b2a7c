package doors

import (
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// twoConsumers: rome and naples use milan, and their administrators test the network at the same time. Neither test waits for the objects of the other one, nor
// removes them.
func twoConsumers(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	consumers := []*playground.Cluster{rome, naples}
	s.Step("rome and naples use milan", func() {
		for _, consumer := range consumers {
			s.Must(s.Machine.Peer(s.Context(), consumer, milan))
		}
	})
	test := func(consumer *playground.Cluster, flags ...string) (string, error) {
		return s.Liqoctl(s.Context(), append([]string{"test", "network", "--kubeconfig", consumer.Kubeconfig,
			"--remote-kubeconfigs", milan.Kubeconfig, "--image", playground.TestServer, "--outside=", "--timeout", "3m"}, flags...)...)
	}
	// together runs the command for both consumers, each with its own flags, and waits for both.
	together := func(flags map[*playground.Cluster][]string) {
		s.Helper()
		var group errgroup.Group
		for _, consumer := range consumers {
			group.Go(func() error {
				out, err := test(consumer, flags[consumer]...)
				if err == nil && !strings.Contains(out, "pod to pods: 2 of 2") {
					err = fmt.Errorf("test network of %s does not say that both pods reach each other:\n%s", consumer.ID, out)
				}
				return err
			})
		}
		s.Must(group.Wait())
	}
	var before map[string]types.UID
	s.Step("both test the network at the same time, each with a namespace of its own in milan", func() {
		together(nil)
		for _, consumer := range consumers {
			if pods := s.Pods(milan, tested(consumer), client.MatchingLabels{"network-test/cluster": milan.ID}); len(pods) != 1 {
				s.Errorf("%s has the test servers %v in milan, want one", consumer.ID, story.Names(pods))
			}
		}
		before = testNamespaces(s, milan)
	})
	s.Step("rome removes its own while naples tests again", func() {
		together(map[*playground.Cluster][]string{rome: {"--basic", "--rm"}, naples: {"--basic"}})
		now := testNamespaces(s, milan)
		if _, there := now[tested(rome)]; there || now[tested(naples)] != before[tested(naples)] {
			s.Errorf("milan has the namespaces %v, had %v, and only that of rome was removed", now, before)
		}
	})
	s.Step("a test whose servers do not start ends with its timeout, and holds nobody up", func() {
		var group errgroup.Group
		group.Go(func() error {
			_, err := test(rome, "--basic", "--image", "registry.local/none:1", "--timeout", "15s")
			if err == nil || !strings.Contains(err.Error(), "the test servers") {
				return fmt.Errorf("want an error that names the test servers: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			_, err := test(naples, "--basic")
			return err
		})
		s.Must(group.Wait())
	})
	s.Step("both remove what they have, at the same time", func() {
		var group errgroup.Group
		for _, consumer := range consumers {
			group.Go(func() error {
				_, err := test(consumer, "--basic", "--rm")
				return err
			})
		}
		s.Must(group.Wait())
		if left := testNamespaces(s, milan); len(left) > 0 {
			s.Errorf("milan still has the namespaces %v", left)
		}
	})
	s.Step("rome and naples leave", func() {
		for _, consumer := range consumers {
			s.Must(s.Unpeer(s.Context(), consumer, milan))
			strangers(s, consumer, milan)
		}
	})
}

// tested returns the name of the namespace of a consumer's test, which is the same in both clusters.
func tested(consumer *playground.Cluster) string { return "liqo-test-network-" + consumer.ID }

// testNamespaces returns the namespaces of tests in a cluster, with their UIDs.
func testNamespaces(s *story.Story, c *playground.Cluster) map[string]types.UID {
	s.Helper()
	var list corev1.NamespaceList
	s.Must(c.List(s.Context(), &list))
	out := map[string]types.UID{}
	for _, namespace := range list.Items {
		ours := strings.HasPrefix(namespace.Name, "liqo-test-network-") || strings.HasPrefix(namespace.Name, "liqo-test-hosts-")
		if ours && namespace.DeletionTimestamp == nil {
			out[namespace.Name] = namespace.UID
		}
	}
	return out
}
