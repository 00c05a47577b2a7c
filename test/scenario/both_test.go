package scenario

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// bothWays: milan uses rome while rome uses milan. The end of one peering does not affect the other one.
func bothWays(s *story.Story) {
	const ns, back = "both", "both-back"
	rome, milan := s.Rome, s.Milan
	s.Step("rome's pods run in milan", func() {
		s.Offload(ns)
		s.Must(rome.Create(s.Context(), story.PodOn("milan", ns, "there", playground.TestServer)))
		s.PodReady(rome, ns, "there", start)
	})
	before := *s.Pod(milan, story.Twin(ns), "there")

	s.Step("milan peers with rome", func() { s.Must(s.Machine.Peer(s.Context(), milan, rome, playground.WithoutNetwork)) })
	s.Step("milan's pods run in rome", func() {
		s.Must(milan.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: back}}))
		_, err := s.Liqoctl(s.Context(), "offload", "namespace", back, "--kubeconfig", milan.Kubeconfig)
		s.Must(err)
		s.Must(milan.Create(s.Context(), story.PodOn("rome", back, "here", playground.TestServer)))
		s.PodReady(milan, back, "here", start)
		s.PodReady(rome, back+"-milan", "here", start)
		if got := s.Exec(milan, story.WebSocket, back, "here", "", "/testserver", "cat", "/etc/hostname"); got.Out != "here\n" {
			s.Errorf("exec: %+v", got)
		}
	})

	s.Step("milan unpeers", func() {
		_, err := s.Liqoctl(s.Context(), "unoffload", "namespace", back, "--kubeconfig", milan.Kubeconfig)
		s.Must(err)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: back}}
		s.Must(milan.Delete(s.Context(), namespace))
		s.Gone(milan, namespace, start)
		s.Gone(rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: back + "-milan"}}, start)
		if err := s.Unpeer(s.Context(), milan, rome); err == nil {
			s.Error("unpeer --delete-namespaces went through, though rome still uses milan through the same namespaces")
		}
		_, err = s.Liqoctl(s.Context(), "unpeer", "--kubeconfig", milan.Kubeconfig, "--remote-kubeconfig", rome.Kubeconfig)
		s.Must(err)
		s.Gone(milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, start)
		// Only the administrator of the provider makes it forget the key of a former consumer.
		_, err = s.Shell(s.Context(), rome, "kubectl annotate namespace "+api.TenantNamespace("milan")+" "+peering.AnnotationConsumerKey+"-")
		s.Must(err)
	})

	s.Step("rome's pods in milan noticed nothing", func() {
		s.PodReady(rome, ns, "there", start)
		untouched(s, before, *s.Pod(milan, story.Twin(ns), "there"))
	})
}
