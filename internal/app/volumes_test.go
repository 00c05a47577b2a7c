package app

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// TestMovedVolumesAreKeptAtBothEnds: while a move is under way, the offloading of its namespace does not end in the source and not in the target.
func TestMovedVolumesAreKeptAtBothEnds(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "naples"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"node":"liqo-milan","provider":"milan"}`},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	got, err := volumesInProviders(t.Context(), fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build())
	if err != nil || len(got) != 2 || got[0].Cluster != "milan" || !got[0].Retain || got[1].Cluster != "naples" || !got[1].Retain {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAnUnreadableMoveIsKept: if nobody can read where the copy is, it may be in any cluster, and the message says what to do.
func TestAnUnreadableMoveIsKept(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: "x"},
		},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}},
	}
	got := volumesOf(volume)
	if len(got) != 1 || got[0].Cluster != "" || !got[0].Retain || !strings.Contains(got[0].Problem, "annotation "+storage.AnnotationMove) {
		t.Errorf("%+v", got)
	}
}
