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

// TestUnpeerFindsDataThatTheConsumerDoesNotRelease: data that only the provider knows, as after the restore of the consumer, is named with the ways to keep and to end it
// before the first change. Its claims would hold the Tenant when the consumer has no access any more. Namespaces that the consumer releases are those of its volumes.
func TestUnpeerFindsDataThatTheConsumerDoesNotRelease(t *testing.T) {
	w := installedWorld(t)
	w.begin(w.in(t, w.snapshot(), "peer"+lawBoth, nil).left)
	there := w.clusters["milan"].client
	namespace := func(local string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: local + "-rome", Annotations: map[string]string{
			offloadingv1beta1.AnnotationManagedByNamespaceMap: "liqo-tenant-rome/milan", offloadingv1beta1.AnnotationRemoteNamespaceName: local + "-rome",
			offloadingv1beta1.AnnotationOriginalName: local,
		}}}
	}
	claim := func(namespace, name string) client.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	clitest.Create(t, there, namespace("shop"), claim("shop-rome", "orders"), namespace("demo"), claim("demo-rome", "known"), namespace("empty"))
	clitest.Create(t, w.clusters["rome"].client, clitest.MapOf("milan", "demo"))
	begin := w.snapshot()
	for _, command := range []string{"unpeer", "unpeer in-band"} {
		ran := w.in(t, begin, command+lawBoth, nil)
		for _, part := range []string{"PersistentVolumeClaim orders in namespace shop-rome", "(namespace shop)", "liqoctl offload namespace", "--delete-volumes", "Nothing was changed"} {
			if ran.code != 1 || !strings.Contains(ran.said, part) {
				t.Errorf("%s: code %d, no %q in %s", command, ran.code, part, ran.said)
			}
		}
		if strings.Contains(ran.said, "Claim known") || ran.wrote != 0 {
			t.Errorf("%s: %d writes, %s", command, ran.wrote, ran.said)
		}
	}
	w.begin(begin)
	if err := there.Delete(t.Context(), claim("shop-rome", "orders")); err != nil {
		t.Fatal(err)
	}
	if ran := w.in(t, w.snapshot(), "unpeer --dry-run"+lawBoth, nil); ran.code != 0 {
		t.Errorf("without the claim: code %d, %s", ran.code, ran.said)
	}
	if ran := w.in(t, begin, "unpeer --delete-volumes --dry-run"+lawBoth, nil); ran.code != 0 {
		t.Errorf("the data is given up: code %d, %s", ran.code, ran.said)
	}
}
