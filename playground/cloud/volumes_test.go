package cloud

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func claim(change ...func(*corev1.PersistentVolumeClaim)) controller.ProvisionOptions {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return controller.ProvisionOptions{
		PVName:       "pvc-1",
		PVC:          c,
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimRetain)},
	}
}

func TestDescribeVolume(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host1"}}}
	got, err := describeVolume("/volumes", claim(), node)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/volumes/pvc-1", Type: ptr.To(corev1.HostPathDirectoryOrCreate)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"host1"}}},
			}}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	many := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
	}
	if got, err := describeVolume("/volumes", claim(many), nil); err != nil || got.Spec.NodeAffinity != nil {
		t.Errorf("without a node: %v, %v", got, err)
	}

	for name, row := range map[string]struct {
		options controller.ProvisionOptions
		node    *corev1.Node
	}{
		"shared between nodes": {claim(many), node},
		"selector":             {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), node},
		"data source": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
		}), node},
		"node without name": {claim(), &corev1.Node{}},
	} {
		if got, err := describeVolume("/volumes", row.options, row.node); err == nil {
			t.Errorf("%s: accepted as %v", name, got)
		}
	}
}

func TestVolumeIsMadeAndRemoved(t *testing.T) {
	p := &provisioner{root: t.TempDir(), logger: slog.New(slog.DiscardHandler)}
	volume, state, err := p.Provision(t.Context(), claim())
	if err != nil || state != controller.ProvisioningFinished {
		t.Fatal(state, err)
	}
	folder := filepath.Join(p.root, "pvc-1")
	if info, err := os.Stat(folder); err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Fatalf("%v, %v", info, err)
	}
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Provision(t.Context(), claim()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	foreign := volume.DeepCopy()
	foreign.Spec.HostPath.Path = filepath.Dir(outside)
	if err := p.Delete(t.Context(), foreign); err == nil {
		t.Error("a volume of another folder was removed")
	}
	for range 2 {
		if err := p.Delete(t.Context(), volume); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(p.root); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/etc"} {
		volume.Name = name
		if err := p.Delete(t.Context(), volume); err == nil {
			t.Errorf("%q: accepted", name)
		}
	}
}

func TestAVolumeOfAClassThatDoesNotWaitBelongsToNoNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host1"}}}
	p := &provisioner{client: fake.NewClientset(node), root: t.TempDir(), logger: slog.New(slog.DiscardHandler)}
	for _, class := range storageClasses() {
		options := claim()
		options.StorageClass, options.SelectedNodeName = class, "n1"
		volume, _, err := p.Provision(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if waits := *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer; waits != (volume.Spec.NodeAffinity != nil) {
			t.Errorf("class %s: node affinity %v", class.Name, volume.Spec.NodeAffinity)
		}
	}
}

func TestVolumesGrowIfTheirClassAllowsIt(t *testing.T) {
	for class, want := range map[string]string{StorageClassName: "1Gi", SharedClassName: "2Gi", "foreign": "1Gi"} {
		one := claim().PVC
		one.Spec.StorageClassName, one.Spec.VolumeName = &class, "pvc-1"
		one.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: one.Spec.Resources.Requests.DeepCopy()}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}, Spec: corev1.PersistentVolumeSpec{Capacity: one.Status.Capacity.DeepCopy()}}
		foreign := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Provisioner: "liqo.io/storage", AllowVolumeExpansion: ptr.To(true)}
		classes := storageClasses()
		client := fake.NewClientset(one, volume, foreign, classes[0], classes[1])
		one.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		p := &provisioner{client: client, logger: slog.New(slog.DiscardHandler)}
		if err := p.enlarge(t.Context(), one); err != nil {
			t.Error(class, err)
		}
		now, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		shown, err := client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, have := range []corev1.ResourceList{now.Spec.Capacity, shown.Status.Capacity} {
			if size := have[corev1.ResourceStorage]; size.String() != want {
				t.Errorf("class %s: %s, want %s", class, size.String(), want)
			}
		}
	}
}
