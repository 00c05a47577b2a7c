package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// TestLostNodes: a Node counts as lost if it is missing, unless its VirtualNode wants none.
func TestLostNodes(t *testing.T) {
	node := func(cluster string, status offloadingv1beta1.VirtualNodeConditionStatus) *offloadingv1beta1.VirtualNode {
		n := virtualNode(api.TenantNamespace(cluster), cluster, cluster)
		offload.SetCondition(n, offloadingv1beta1.VirtualNodeNode, status, "", "", metav1.Time{})
		return n
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		node("there", offloadingv1beta1.VirtualNodeRunning), node("gone", offloadingv1beta1.VirtualNodeCreating), node("unwanted", offloadingv1beta1.VirtualNodeNone),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there", Labels: map[string]string{api.LabelRemoteClusterID: "there", "tier": "gold"}}},
	).Build()
	nodes, lost, err := selectable(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(lost) != 1 || !lost.Has("gone") {
		t.Errorf("lost are %v", lost)
	}
	for i := range nodes {
		if want := map[string]string{"there": "gold"}[nodes[i].Name]; nodes[i].Labels["tier"] != want {
			t.Errorf("%s has tier %q, want %q", nodes[i].Name, nodes[i].Labels["tier"], want)
		}
	}
}
