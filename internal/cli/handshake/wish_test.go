package handshake

import (
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestCommandsAndWishesAgree: a command that ends a peering takes back the ForeignCluster's Yes, one that establishes it the No, and nothing else
// is changed.
func TestCommandsAndWishesAgree(t *testing.T) {
	yes, no, auto := corev1beta1.PeeringYes, corev1beta1.PeeringNo, corev1beta1.PeeringAuto
	for _, row := range []struct {
		is, from, to, want corev1beta1.PeeringWish
		joined             bool
	}{
		{yes, yes, no, no, true}, {yes, yes, no, no, false}, {auto, yes, no, auto, false}, {"", yes, no, "", false}, {auto, yes, no, no, true},
		{no, no, auto, auto, false}, {yes, no, auto, yes, false}, {auto, no, auto, auto, true},
	} {
		foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
		foreign.Spec.ClusterID, foreign.Spec.OutgoingPeeringEnabled = "milan", row.is
		if row.joined {
			foreign.Finalizers = []string{peering.FinalizerOutgoing}
		}
		c := &session.Cluster{
			WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(foreign).Build(), Console: console.New(io.Discard, io.Discard, false),
		}
		for range 2 {
			if err := ReplaceWish(t.Context(), c, "milan", row.from, row.to); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Spec.OutgoingPeeringEnabled != row.want {
			t.Errorf("%s, from %s to %s: %s, %v", row.is, row.from, row.to, foreign.Spec.OutgoingPeeringEnabled, err)
		}
		if err := ReplaceWish(t.Context(), c, "turin", row.from, row.to); err != nil {
			t.Errorf("a peer without a ForeignCluster: %v", err)
		}
	}
}
