package volumes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/clitest"
)

// TestMovedVolumesAreKeptAtBothEnds: while a volume is being moved, it keeps the remote namespaces in the source and in the target.
func TestMovedVolumesAreKeptAtBothEnds(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "naples"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"node":"liqo-milan","provider":"milan"}`},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
			NodeAffinity: storage.NodesOf("naples"),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	got, err := InProviders(t.Context(), fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build())
	if err != nil || len(got) != 2 || got[0].Cluster != "milan" || !got[0].Retain || got[1].Cluster != "naples" || !got[1].Retain {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRetainedVolumesAreKept: the volume of a deleted claim keeps the remote namespace of its data, also while an administrator deletes the volume.
func TestRetainedVolumesAreKept(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan"},
			Annotations:       map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{storage.Finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
			NodeAffinity: storage.NodesOf("milan"),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	volumes, err := InProviders(t.Context(), fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build())
	if err != nil {
		t.Fatal(err)
	}
	shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
	milan := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	if len(offload.KeptVolumes(shop, volumes, "milan")) != 1 || len(offload.NodeVolumes(milan, nil, volumes, nil)) != 1 {
		t.Errorf("nothing holds the remote namespace: %+v", volumes)
	}
}

// TestVolumesWithoutTheirLabelsAreKept: a volume keeps the remote namespace of its data also if a person has removed its labels and annotations.
func TestVolumesWithoutTheirLabelsAreKept(t *testing.T) {
	volume, ok := clitest.VolumeOf("u1", "shop", "data", "milan").(*corev1.PersistentVolume)
	if !ok {
		t.Fatal("it is no volume")
	}
	volume.Labels, volume.Annotations = nil, nil
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u7"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: volume.Spec.ClaimRef}}
	volumes, err := InProviders(t.Context(), fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume, disk).Build())
	shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
	milan := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	if err != nil || len(offload.KeptVolumes(shop, volumes, "milan")) != 1 || len(offload.NodeVolumes(milan, nil, volumes, nil)) != 1 {
		t.Errorf("nothing holds the remote namespace: %+v, %v", volumes, err)
	}
}

// TestVolumesWithoutTheirClaimAreKept: a volume keeps the remote namespace of its data also while it has no claim (Available), and while a claim of another
// namespace uses it, whatever its reclaim policy is and although the namespace of the data ends.
func TestVolumesWithoutTheirClaimAreKept(t *testing.T) {
	for name, claim := range map[string]*corev1.ObjectReference{
		"no claim": nil, "another claim": {Namespace: "blog", Name: "other", UID: "u7"}, "reserved for a claim": {Namespace: "shop", Name: "data"},
	} {
		for _, policy := range []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete} {
			volume := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{
					Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan"},
					Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, "storage.liqo.io/data-of": "shop/data"},
				},
				Spec:   corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy, ClaimRef: claim, NodeAffinity: storage.NodesOf("milan")},
				Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
			}
			volumes := Of(volume)
			for i := range volumes {
				volumes[i].Ending = true
			}
			shop := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
			milan := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
			if len(offload.KeptVolumes(shop, volumes, "milan")) != 1 || len(offload.NodeVolumes(milan, nil, volumes, nil)) != 1 {
				t.Errorf("%s, %s: nothing holds the remote namespace: %+v", name, policy, volumes)
			}
		}
	}
}

// TestAnUnreadableMoveIsKept: if the record of a move can't be read, the copy may be in any cluster, and the message contains the cure.
func TestAnUnreadableMoveIsKept(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Labels: map[string]string{storage.LabelVirtual: api.True},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: "x"},
		},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}},
	}
	got := Of(volume)
	if len(got) != 1 || got[0].Cluster != "" || !got[0].Retain || !strings.Contains(got[0].Problem, "annotation "+storage.AnnotationMove) {
		t.Errorf("%+v", got)
	}
}
