package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// gone: milan loses its power and is declared permanently unreachable, and rome removes everything that belongs to it. When milan has power again, it in turn
// declares rome permanently unreachable, and removes everything that ran for rome. Then they peer as if for the first time.
func gone(s *story.Story) {
	const ns = "gone"
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	s.Step("pods in milan and in naples", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "north", 2, playground.TestServer)))
		s.Must(rome.Create(s.Context(), story.DeploymentOn("naples", ns, "south", 1, playground.TestServer)))
		s.PodsReady(rome, ns, 3, start)
	})
	bystander := *s.PodsReady(naples, story.Twin(ns), 1, start)[0].DeepCopy()

	outage(s, milan, func() {
		_, err := s.Liqoctl(s.Context(), "force", "unpeer", "milan", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		forgotten(s, rome, "milan")
		s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, start)
		s.Eventually(start, "no pod of rome to be on a node that is not there", func(ctx context.Context) error {
			pods, err := s.TryPods(ctx, rome, ns)
			for _, pod := range pods {
				if pod.Spec.NodeName == "milan" {
					return fmt.Errorf("pod %s is", pod.Name)
				}
			}
			return err
		})
	})

	s.Step("milan gives rome up, too", func() {
		s.Eventually(2*time.Minute, "milan's controllers to run", func(ctx context.Context) error {
			_, err := s.Liqoctl(ctx, "force", "unpeer", "rome", "--kubeconfig", milan.Kubeconfig)
			return err
		})
		forgotten(s, milan, "rome")
		s.Gone(milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: story.Twin(ns)}}, start)
		var shadows offloadingv1beta1.ShadowPodList
		s.Must(milan.List(s.Context(), &shadows))
		if len(shadows.Items) > 0 {
			s.Errorf("milan still has %d ShadowPods", len(shadows.Items))
		}
	})

	s.Step("naples noticed nothing", func() {
		s.NodeReady("naples", true, start)
		untouched(s, bystander, *s.Pod(naples, story.Twin(ns), bystander.Name))
	})

	s.Step("they peer as if they had never met, and rome's pods run in milan again", func() {
		s.Must(s.Machine.Peer(s.Context(), rome, milan, s.Plan.Peer["milan"]...))
		s.PodsReady(rome, ns, 3, time.Minute)
		s.Renewed(rome, "nodes milan", "secrets liqo-tenant-milan/", "identities liqo-tenant-milan/", "resourceslices liqo-tenant-milan/",
			"deployments liqo-tenant-milan/", "replicasets liqo-tenant-milan/", "pods liqo-tenant-milan/")
		s.Renewed(milan, "secrets liqo-tenant-rome/", "tenants liqo-tenant-rome/", "resourceslices liqo-tenant-rome/")
	})
}

// forgotten waits until nothing is left of a peer except its ForeignCluster.
func forgotten(s *story.Story, c *playground.Cluster, peer string) {
	s.Helper()
	s.Gone(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + peer}}, start)
	s.Eventually(start, c.ID+" to forget "+peer, func(ctx context.Context) error {
		var fc corev1beta1.ForeignCluster
		if err := c.Get(ctx, client.ObjectKey{Name: peer}, &fc); err != nil {
			return err
		}
		m := fc.Status.Modules
		if m.Authentication.Enabled || m.Networking.Enabled || m.Offloading.Enabled || fc.Annotations[peering.AnnotationUnreachable] != "" {
			return fmt.Errorf("ForeignCluster %s: annotations %v, status %+v", peer, fc.Annotations, fc.Status)
		}
		return nil
	})
}
