package move

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// intoThisCluster returns the state of a claim that requests 1Gi, whose volume in naples has 5Gi, and a request to move it to n1.
func intoThisCluster(change func(*State)) State {
	return bound(func(s *State) {
		larger(s)
		s.Node = "n1"
		s.Volumes[0].Spec.NodeAffinity = storage.NodesOf("naples")
		change(s)
	})
}

// handMade makes the real class one without a driver, with Available volumes of these sizes on n1.
func handMade(sizes ...string) func(*State) {
	return func(s *State) {
		s.Classes[2].Provisioner = "kubernetes.io/no-provisioner"
		for _, size := range sizes {
			s.Available = append(s.Available, corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "disk-" + strings.ToLower(size)},
				Spec: corev1.PersistentVolumeSpec{
					StorageClassName: "standard", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Capacity:     corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
					NodeAffinity: &corev1.VolumeNodeAffinity{Required: onNode("n1").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution},
				},
				Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
			})
		}
	}
}

// reporting has the driver report its capacity on n1.
func reporting(capacity, largest string) func(*State) {
	return func(s *State) {
		total := resource.MustParse(capacity)
		c := storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, StorageClassName: "standard", Capacity: &total,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: "n1"}},
		}
		if largest != "" {
			size := resource.MustParse(largest)
			c.MaximumVolumeSize = &size
		}
		s.Capacities = append(s.Capacities, c)
	}
}

// TestAMoveFitsIntoThisCluster: before its first change, a move to this cluster is refused if Liqo can't create the volume of the claim or that of the encrypted copy
// there. The error names the size of the data, the size that there is, the object with it, and the cure.
func TestAMoveFitsIntoThisCluster(t *testing.T) {
	const data, encrypted = "no volume of 5Gi for the data (PersistentVolume pvc-u1 has 5Gi, PersistentVolumeClaim data requests 1Gi)", "no volume of 5760Mi for an encrypted copy of the data (PersistentVolume pvc-u1 has 5Gi"
	const noDriver = "StorageClass standard has no driver (provisioner kubernetes.io/no-provisioner)"
	const cure = "annotation " + api.AnnotationRealStorageClass + " of namespace shop"
	for name, row := range map[string]struct {
		change func(*State)
		want   []string
	}{
		"a driver": {func(*State) {}, nil},
		"no default class": {func(s *State) { s.Classes = s.Classes[:2] },
			[]string{"--target-node n1: ", "no StorageClass of this cluster is the default", "storage.realStorageClassName"}},
		"a lost class": {func(s *State) { s.RealClass = "gone" }, []string{"--target-node n1: ", "StorageClass gone does not exist: create it, or change chart value storage.realStorageClassName"}},
		"a wrong class of the namespace": {func(s *State) { s.Home.Annotations = map[string]string{api.AnnotationRealStorageClass: "liqo"} },
			[]string{"--target-node n1: ", cure + " names StorageClass liqo, which creates no volumes here"}},
		"a class of Liqo that does not wait": {func(s *State) { s.Classes[1].VolumeBindingMode = nil }, []string{"--target-node n1: ", "volumeBindingMode of StorageClass liqo"}},
		"volumes for both":                   {handMade("1Gi", "5Gi", "6Gi"), nil},
		"two large volumes":                  {handMade("6Gi", "7Gi"), nil},
		"no volume":                          {handMade(), []string{noDriver, data, encrypted, "None of its PersistentVolumes is Available on that node", "spec.capacity.storage", cure}},
		"a volume of the requested size": {handMade("1Gi"),
			[]string{noDriver, data, encrypted, "The largest that is Available on that node, PersistentVolume disk-1gi, has 1Gi (spec.capacity.storage)"}},
		"a volume for the data only": {handMade("5Gi"), []string{encrypted, "None of its"}},
		"one for either":             {handMade("6Gi", "4Gi"), []string{encrypted, "PersistentVolume disk-4gi, has 4Gi"}},
		"on another node": {func(s *State) {
			handMade("5Gi", "6Gi")(s)
			for i := range s.Available {
				s.Available[i].Spec.NodeAffinity.Required = onNode("n2").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}
		}, []string{data, "None of its"}},
		"of another volume mode": {func(s *State) {
			handMade("5Gi", "6Gi")(s)
			block := corev1.PersistentVolumeBlock
			s.Available[0].Spec.VolumeMode, s.Available[1].Spec.VolumeMode = &block, &block
		}, []string{data, "accessModes [ReadWriteOnce] and volumeMode Filesystem", "disk-6gi, has 6Gi (spec.capacity.storage), accessModes [ReadWriteOnce] and volumeMode Block"}},
		"a driver with room":                       {reporting("11Gi", ""), nil},
		"a driver that reports about another node": {func(s *State) { reporting("1Gi", "")(s); s.Node = "n2" }, nil},
		"a driver with room for either": {reporting("10Gi", ""), []string{"--target-node n1: StorageClass standard has no room there", "PersistentVolume pvc-u1 has 5Gi, PersistentVolumeClaim data requests 1Gi",
			"they need 10880Mi, the larger volume 5760Mi, and CSIStorageCapacity c in namespace kube-system has capacity 10Gi. Free or add", cure}},
		"a driver with small volumes": {reporting("20Gi", "5Gi"), []string{"has capacity 20Gi, maximumVolumeSize 5Gi"}},
		"to a provider":               {func(s *State) { handMade()(s); s.Node = "milan" }, nil},
	} {
		s := intoThisCluster(row.change)
		step := Next(s)
		if len(row.want) == 0 && (step.Err != nil || step.Action != Patch) || len(row.want) > 0 && step.Action != Nothing {
			t.Errorf("%s: %s: %v", name, step.Action, step.Err)
		}
		says(t, name, step.Err, row.want...)
		if step.Err != nil && strings.Contains(name, "data only") && strings.Contains(step.Err.Error(), data) {
			t.Errorf("%s: %v", name, step.Err)
		}
	}
}
