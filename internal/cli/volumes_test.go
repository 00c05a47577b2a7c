package cli

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// volumeOf returns the virtual volume of a claim, in this cluster if provider is empty.
func volumeOf(uid, namespace, claim, provider string) client.Object {
	labels := map[string]string{storage.LabelVirtual: api.True}
	if provider != "" {
		labels[api.LabelRemoteClusterID] = provider
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + uid, Labels: labels, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		},
	}
}

// mapOf returns the NamespaceMap of a provider that has the remote namespace of a namespace.
func mapOf(provider, namespace string) client.Object {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + provider, Name: provider},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{namespace: namespace + "-rome"}},
	}
}

// TestDataIsNotLostByAccident: each claim whose data a command would delete is named, with its size and cluster, unless the user gives the data up.
func TestDataIsNotLostByAccident(t *testing.T) {
	c := &cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		volumeOf("1", "shop", "there", "milan"), volumeOf("2", "shop", "here", ""), volumeOf("3", "bank", "other", "turin"),
		volumeOf("4", "former", "given-up", "milan"), mapOf("milan", "shop"), mapOf("turin", "bank")).Build()}
	of := func(provider string) error {
		return c.checkVolumes(t.Context(), func(v *corev1.PersistentVolume) bool { return v.Labels[api.LabelRemoteClusterID] == provider })
	}
	const there = "PersistentVolumeClaim there in namespace shop has a volume of Liqo, 1Gi in cluster milan"
	for name, err := range map[string]error{"unpeer milan": of("milan"), "unoffload shop": c.checkVolumesOf(t.Context(), []string{"shop"})} {
		if err == nil || !strings.Contains(err.Error(), there) || !strings.Contains(err.Error(), "--delete-volumes") ||
			strings.Contains(err.Error(), "Claim here") || strings.Contains(err.Error(), "other") || strings.Contains(err.Error(), "given-up") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := of("naples"); err != nil {
		t.Errorf("a provider without volumes: %v", err)
	}
	if err := c.checkVolumesOf(t.Context(), []string{"empty"}); err != nil {
		t.Errorf("a namespace without volumes: %v", err)
	}
	c.deleteVolumes = true
	if err := of("milan"); err != nil {
		t.Errorf("the user gives the data up: %v", err)
	}
}

// TestVolumesAreGivenUpOnDemand: --delete-volumes marks the objects whose end the controllers would hold, and nothing is marked without it.
func TestVolumesAreGivenUpOnDemand(t *testing.T) {
	labels := map[string]string{api.LabelRemoteClusterID: "milan"}
	node := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: labels}}
	other := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-turin", Name: "turin"}}
	shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
	c := &cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(node, other, shop).Build()}
	marked := func(obj client.Object) bool {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		return obj.GetAnnotations()[api.AnnotationDeleteVolumes] == api.True
	}
	for _, given := range []bool{false, true} {
		c.deleteVolumes = given
		gone := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: offloadingv1beta1.NamespaceOffloadingName}}
		named := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
		if err := errors.Join(c.giveUp(t.Context(), gone, named), c.giveUpNodes(t.Context(), "milan", "liqo-tenant-milan")); err != nil {
			t.Fatal(err)
		}
		if marked(node) != given || marked(shop) != given || marked(other) {
			t.Errorf("--delete-volumes=%t: %v, %v, %v", given, node.Annotations, shop.Annotations, other.Annotations)
		}
	}
}
