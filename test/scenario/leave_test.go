package scenario

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// leave: after unoffloading, unpeering and uninstalling, the clusters are in the same state as before the installation.
func leave(s *story.Story) {
	const ns = "leave"
	rome := s.Rome
	s.Step("a namespace and pods in each provider", func() {
		s.Offload(ns)
		for _, provider := range s.Providers() {
			s.Must(rome.Create(s.Context(), story.DeploymentOn(provider.ID, ns, provider.ID, 2, playground.TestServer)))
		}
		s.PodsReady(rome, ns, 2*len(s.Providers()), start)
	})

	s.Step("uninstall refuses while a namespace is offloaded", func() {
		err := s.Uninstall(s.Context(), rome, true)
		if err == nil {
			s.Fatal("rome was uninstalled, though a namespace is offloaded")
		}
		if !strings.Contains(err.Error(), ns) {
			s.Errorf("uninstall does not say which namespace is in its way: %s", err)
		}
	})

	s.Step("unoffload: the twins go, the namespace stays", func() {
		_, err := s.Liqoctl(s.Context(), "unoffload", "namespace", ns, "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		for _, c := range s.Providers() {
			s.Gone(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: story.Twin(ns)}}, time.Minute)
		}
		var namespace corev1.Namespace
		s.Must(rome.Get(s.Context(), key(ns), &namespace))
		s.Must(rome.Delete(s.Context(), &namespace))
		s.Gone(rome, &namespace, time.Minute)
	})

	s.Step("unpeer", func() {
		for _, provider := range s.Providers() {
			s.Must(s.Unpeer(s.Context(), rome, provider))
			s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: provider.ID}}, start)
		}
	})

	s.Step("uninstall --purge", func() {
		var group errgroup.Group
		for _, c := range s.Clusters() {
			group.Go(func() error { return s.Uninstall(s.Context(), c, true) })
		}
		s.Must(group.Wait())
	})

	s.Step("every object of every cluster is as before the installation", func() {
		for _, c := range s.Clusters() {
			s.Same(c, s.Empty(c))
			fmt.Printf("             %s: %d objects\n", c.ID, len(s.Empty(c)))
		}
	})
}

func key(name string) types.NamespacedName { return types.NamespacedName{Name: name} }
