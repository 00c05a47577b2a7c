package scenario

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// peerAgain: peering again accepts existing objects, and nothing in use is removed.
func peerAgain(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	var node corev1.Node
	s.Must(rome.Get(s.Context(), client.ObjectKey{Name: "milan"}, &node))

	s.Step("peering a second time changes nothing", func() {
		s.Must(s.Machine.Peer(s.Context(), rome, milan, playground.WithoutNetwork))
		var again corev1.Node
		s.Must(rome.Get(s.Context(), client.ObjectKey{Name: "milan"}, &again))
		if node.UID != again.UID {
			s.Errorf("node milan was replaced: its UID was %s and is %s", node.UID, again.UID)
		}
		s.NodeReady("milan", true, 10*time.Second)
	})

	s.Step("installing a second time changes nothing", func() {
		s.Must(s.Machine.Install(s.Context(), rome))
		s.NodeReady("milan", true, 20*time.Second)
	})

	s.Step("uninstall refuses while there are peers", func() {
		for _, purge := range []bool{false, true} {
			err := s.Uninstall(s.Context(), rome, purge)
			if err == nil {
				s.Fatalf("rome was uninstalled (purge: %t), though it has peers", purge)
			}
			if said := err.Error(); !strings.Contains(said, "ERRO") || !strings.Contains(said, "milan") || !strings.Contains(said, "naples") {
				s.Errorf("uninstall does not say which peers are in its way: %s", said)
			}
		}
		if err := s.Uninstall(s.Context(), milan, true); err == nil {
			s.Fatal("milan was uninstalled, though rome uses it")
		}
		s.NodeReady("milan", true, 10*time.Second)
	})

	s.Step("liqoctl info names the peers", func() {
		said, err := s.Liqoctl(s.Context(), "info", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		for _, want := range []string{"rome", "milan", "naples"} {
			if !strings.Contains(said, want) {
				s.Errorf("info does not say %q:\n%s", want, said)
			}
		}
		said, err = s.Liqoctl(s.Context(), "info", "--kubeconfig", milan.Kubeconfig, "--get", "clusterid")
		s.Must(err)
		if strings.TrimSpace(said) != "milan" {
			s.Errorf("info --get clusterid says %q, want milan", said)
		}
	})
}
