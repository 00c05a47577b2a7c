package app

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/reflect"
	"liqo.io/liqo/internal/storage"
	liqotesting "liqo.io/liqo/internal/testing"
)

// storing is a virtual kubelet's part in storage, with a fake API server of this cluster.
type storing struct {
	*volumes
	t       *testing.T
	offered []authv1beta1.StorageType
	// enqueued are the claims that the engine was asked to decide about.
	enqueued []types.NamespacedName
}

func newStoring(t *testing.T) *storing {
	t.Helper()
	there, _, _ := runProvider(t, virtualKubeletOptions{}, virtualNode("milan-a", "milan"), virtualNode("milan-b", "milan"))
	<-there.loaded
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	s := &storing{t: t, offered: []authv1beta1.StorageType{{StorageClassName: "disk", Default: true}}}
	local := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait}).Build()
	s.volumes = newVolumes(there.opts, there, func() []authv1beta1.StorageType { return s.offered }, func(key types.NamespacedName) { s.enqueued = append(s.enqueued, key) },
		func() {})
	go func() { _ = s.run(t.Context(), listing{WithWatch: local}) }()
	liqotesting.Eventually(t, 10*time.Second, "the classes and volumes", func() error {
		if !s.virtual.Synced() || !s.classes.Synced() {
			return &waiting{"for their lists"}
		}
		return nil
	})
	return s
}

// claimOn returns a claim of class liqo for which a node was selected.
func claimOn(node string) *corev1.PersistentVolumeClaim {
	class := "liqo"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Annotations: map[string]string{storage.AnnotationSelectedNode: node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func factsOf(claim, backing *corev1.PersistentVolumeClaim, state offload.MappingState, synced bool) reflect.Facts {
	f := reflect.Facts{
		Key: types.NamespacedName{Namespace: "shop", Name: "data"}, Remote: []client.Object{nil}, RemoteSynced: synced,
		Mapping: offload.Mapping{State: state, Namespace: "shop-rome"},
	}
	if claim != nil {
		f.Local = claim
	}
	if backing != nil {
		f.Remote[0] = backing
	}
	return f
}

// decides fails the test unless that action is decided, and returns the step.
func (s *storing) decides(f reflect.Facts, want offload.Action) offload.Step {
	s.t.Helper()
	step := s.next(f)
	if step.Action != want {
		s.t.Fatalf("%s: %s, want %s", step.Action, step.Why, want)
	}
	return step
}

// TestVolumesInAProvider: the life of a claim whose pod is scheduled on one of the provider's virtual nodes.
func TestVolumesInAProvider(t *testing.T) {
	s := newStoring(t)
	claim := claimOn("milan-b")
	backing, _ := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	if backing == nil || backing.Namespace != "shop-rome" || *backing.Spec.StorageClassName != "disk" {
		t.Fatalf("%+v", backing)
	}
	step := s.decides(factsOf(claim, backing, offload.Mapped, true), offload.CreateLocal)
	volume, _ := step.Object.(*corev1.PersistentVolume)
	if volume == nil || !step.Confirm {
		t.Fatalf("%+v", step)
	}
	volume.ResourceVersion = "100001"
	s.virtual.Wrote(volume.DeepCopy())
	claim.Spec.VolumeName = volume.Name
	s.decides(factsOf(claim, backing, offload.Mapped, true), offload.Nothing)

	// The claim is gone, and Kubernetes has released the volume.
	volume.ResourceVersion, volume.Status.Phase = "100002", corev1.VolumeReleased
	s.virtual.Wrote(volume.DeepCopy())
	if step := s.decides(factsOf(nil, nil, offload.Mapped, false), offload.Nothing); step.After == 0 {
		t.Errorf("unreachable: nothing brings it back: %+v", step)
	}
	s.decides(factsOf(nil, nil, offload.MappingWanted, true), offload.Nothing)
	if step := s.decides(factsOf(nil, backing, offload.Mapped, true), offload.DeleteRemote); !step.Confirm {
		t.Errorf("%+v", step)
	}
	if step := s.decides(factsOf(nil, nil, offload.Mapped, true), offload.DeleteLocal); !step.Confirm {
		t.Errorf("%+v", step)
	}
	// Without a remote namespace, neither cluster lets the claim be read.
	if step := s.decides(factsOf(nil, nil, offload.Unmapped, false), offload.DeleteLocal); step.Confirm {
		t.Errorf("%+v", step)
	}
	volume.ResourceVersion, volume.DeletionTimestamp = "100003", &metav1.Time{Time: time.Unix(1, 0)}
	s.virtual.Wrote(volume.DeepCopy())
	if step := s.decides(factsOf(nil, nil, offload.Mapped, true), offload.PatchLocal); len(step.Object.GetFinalizers()) != 0 || !step.Locked {
		t.Errorf("%+v", step)
	}
}

// TestVolumesOfOthers: claims for other nodes, claims of somebody else in the provider, and a provider that offers nothing.
func TestVolumesOfOthers(t *testing.T) {
	s := newStoring(t)
	for _, node := range []string{"", "n1", "turin"} {
		if step := s.decides(factsOf(claimOn(node), nil, offload.Mapped, true), offload.Nothing); step.Warning != "" {
			t.Errorf("node %q: %+v", node, step)
		}
	}
	stranger := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	if step := s.decides(factsOf(claimOn("milan-a"), stranger, offload.Mapped, true), offload.Nothing); !strings.Contains(step.Warning, "another name") {
		t.Errorf("%+v", step)
	}
	s.offered = nil
	if step := s.decides(factsOf(claimOn("milan-a"), nil, offload.Mapped, false), offload.Nothing); !strings.Contains(step.Warning, "offers no storage class") {
		t.Errorf("%+v", step)
	}
}

// TestVolumesAreReadBeforeTheyAreDeleted: a second decision knows a volume that the watch has not reported.
func TestVolumesAreReadBeforeTheyAreDeleted(t *testing.T) {
	s := newStoring(t)
	claim := claimOn("milan-a")
	backing, _ := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	volume, _ := s.decides(factsOf(claim, backing, offload.Mapped, true), offload.CreateLocal).Object.(*corev1.PersistentVolume)
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	present := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build()
	gone := factsOf(nil, backing, offload.Mapped, true)
	s.decides(gone, offload.DeleteRemote)
	if err := s.refresh(t.Context(), present, gone); err != nil {
		t.Fatal(err)
	}
	s.decides(gone, offload.Nothing)
}

// TestClaimsOfOtherClassesInAProvider: a claim that is bound in this cluster is refused once a pod on the virtual node mounts it, and not before.
func TestClaimsOfOtherClassesInAProvider(t *testing.T) {
	s := newStoring(t)
	claim, standard := claimOn(""), "standard"
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &standard, "disk-7"
	facts := factsOf(claim, nil, offload.Mapped, true)
	if step := s.decides(facts, offload.Nothing); step.Warning != "" {
		t.Errorf("no pod mounts it: %+v", step)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "config"},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}}}
	s.observe(pod)
	s.observe(pod)
	s.observe(nil)
	if len(s.enqueued) != 1 || s.enqueued[0] != facts.Key {
		t.Errorf("enqueued %v", s.enqueued)
	}
	if step := s.decides(facts, offload.Nothing); !strings.Contains(step.Warning, "StorageClass standard") || !strings.Contains(step.Warning, "StorageClass liqo") || !step.Confirm {
		t.Errorf("%+v", step)
	}
	// What the engine reads then also has claims that Liqo did not create.
	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	if step := s.decides(factsOf(claim, theirs, offload.Mapped, true), offload.Nothing); step.Warning != "" {
		t.Errorf("the provider has a claim of that name: %+v", step)
	}
	s.decides(factsOf(nil, nil, offload.Mapped, true), offload.Nothing)
	if s.next(facts).Warning != "" {
		t.Error("the pods of a claim that is gone are still known")
	}
}
