package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// TestDataIsNotLostByAccident: each claim whose data a command would delete is named, with its size and cluster, unless the user gives the data up.
func TestDataIsNotLostByAccident(t *testing.T) {
	volume := func(uid, namespace, claim, provider string) client.Object {
		labels := map[string]string{storage.LabelVirtual: api.True}
		if provider != "" {
			labels[api.LabelRemoteClusterID] = provider
		}
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + uid, Labels: labels, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim},
			},
		}
	}
	c := &cluster{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		volume("1", "shop", "there", "milan"), volume("2", "shop", "here", ""), volume("3", "bank", "other", "turin")).Build()}
	of := func(provider string) error {
		return c.checkVolumes(t.Context(), func(v *corev1.PersistentVolume) bool { return v.Labels[api.LabelRemoteClusterID] == provider })
	}
	const there = "PersistentVolumeClaim there in namespace shop has a volume of Liqo, 1Gi in cluster milan"
	for name, err := range map[string]error{"unpeer milan": of("milan"), "unoffload shop": c.checkVolumesOf(t.Context(), []string{"shop"})} {
		if err == nil || !strings.Contains(err.Error(), there) || !strings.Contains(err.Error(), "--delete-volumes") ||
			strings.Contains(err.Error(), "Claim here") || strings.Contains(err.Error(), "other") {
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
