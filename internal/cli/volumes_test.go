package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clitest"
)

// TestShrinkingASelectorLosesNoDataByAccident: a selector that leaves out a cluster with data is refused with the claim, its size and the cluster. With
// --delete-volumes the data is given up there once: the annotation is gone when the command ends.
func TestShrinkingASelectorLosesNoDataByAccident(t *testing.T) {
	w := installedWorld(t)
	c := w.clusters["rome"].client
	node := func(cluster, region string) *offloadingv1beta1.VirtualNode {
		return &offloadingv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: cluster, Labels: map[string]string{"region": region}},
			Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster},
		}
	}
	object := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: offloadingv1beta1.NamespaceOffloadingName}}
	for _, tenant := range []string{"liqo-tenant-milan", "liqo-tenant-naples"} {
		clitest.Create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	}
	clitest.Create(t, c, node("milan", "north"), node("naples", "south"), object, clitest.MapOf("naples", "demo"), clitest.MapOf("milan", "demo"),
		clitest.VolumeOf("1", "demo", "data", "naples"), clitest.VolumeOf("2", "demo", "other", "milan"))
	object.Status.RemoteNamespacesConditions = map[string][]offloadingv1beta1.RemoteNamespaceCondition{}
	for _, id := range []string{"milan", "naples"} {
		for _, kind := range []offloadingv1beta1.RemoteNamespaceConditionType{offloadingv1beta1.RemoteNamespaceRequired, offloadingv1beta1.RemoteNamespaceReady} {
			object.Status.RemoteNamespacesConditions[id] = append(object.Status.RemoteNamespacesConditions[id], offloadingv1beta1.RemoteNamespaceCondition{
				Type: kind, Status: corev1.ConditionTrue,
			})
		}
	}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	begin := w.snapshot()
	const command = "offload namespace demo --selector region=north --skip-confirm --kubeconfig %rome"
	ran := w.in(t, begin, command, nil)
	for _, part := range []string{"PersistentVolumeClaim data in namespace demo has a volume of Liqo, 1Gi in cluster naples", "--delete-volumes", "Nothing was changed"} {
		if ran.code != 1 || !strings.Contains(ran.said, part) {
			t.Errorf("code %d, no %q in %s", ran.code, part, ran.said)
		}
	}
	if strings.Contains(ran.said, "Claim other") || ran.wrote != 0 {
		t.Errorf("%d writes, %s", ran.wrote, ran.said)
	}
	ran = w.in(t, begin, command+" --delete-volumes --timeout 1s", func() { w.silent = true })
	if want := "kubectl annotate namespaceoffloading offloading -n demo liqo.io/delete-volumes-"; ran.code != 1 || !strings.Contains(ran.said, want) {
		t.Errorf("the permission to delete data stays, and this isn't said: code %d, no %q in %s", ran.code, want, ran.said)
	}
	if ran = w.in(t, begin, command+" --delete-volumes", nil); ran.code != 0 {
		t.Fatalf("code %d, %s%s", ran.code, ran.out, ran.said)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	_, there := object.Status.RemoteNamespacesConditions["naples"]
	if there || object.Spec.ClusterSelector == nil || len(object.Annotations) > 0 || len(object.Status.RemoteNamespacesConditions) != 1 {
		t.Errorf("after the data was given up: %+v", object)
	}
}
