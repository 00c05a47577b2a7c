package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bound returns a claim of class liqo with its virtual volume, which is in a cluster; empty for this one.
func bound(cluster string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	c := claim("n1")
	c.Spec.VolumeName = VolumeName(c.UID)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName, Annotations: map[string]string{annotationProvisionedBy: Provisioner}},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}},
		Status:     corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	place(volume, cluster)
	return c, volume
}

// TestMisplacedPodsAreReported: a pod on a virtual node that mounts a claim whose volume is elsewhere waits for it forever. Its user gets the class and the cure, from
// whichever virtual kubelet knows the pod. It is decided on what was just read, since a cache may be older than the pod.
func TestMisplacedPodsAreReported(t *testing.T) {
	yes, standard := true, "standard"
	inTurin, turin := bound("turin")
	inThis, here := bound("")
	inMilan, milan := bound("milan")
	foreign := claim("", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName, c.Spec.VolumeName = &standard, "disk-7"
	})
	provisioned := claim("milan", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName, c.Spec.VolumeName = &standard, "pvc-"+string(c.UID) // as most drivers name it
	})
	lost := claim("milan")
	lost.Spec.VolumeName = VolumeName(lost.UID)
	for name, row := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		change func(*State)
		want   []string // of the message, nil if there is none
	}{
		"a volume of another provider": {inTurin, turin, nil, []string{"StorageClass liqo", "in cluster turin", "virtual node of cluster milan", "liqoctl move volume data --namespace shop"}},
		"a volume of this cluster":     {inThis, here, nil, []string{"StorageClass liqo", "is in this cluster", "liqoctl move volume data"}},
		"another class":                {foreign, nil, nil, []string{"StorageClass standard", "use a claim of StorageClass liqo", "PersistentVolumeClaim data in namespace shop-rome of cluster milan"}},
		"another class with a volume":  {provisioned, nil, nil, []string{"StorageClass standard", "use a claim of StorageClass liqo"}},
		"no class": {claim("", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName, c.Spec.VolumeName = nil, "disk-7" }), nil, nil,
			[]string{"the claim has no StorageClass"}},
		"a pod that no scheduler saw": {claim(""), nil, nil, []string{"StorageClass liqo", "without the scheduler", "spec.nodeName"}},
		"a volume of the provider":    {inMilan, milan, nil, nil},
		"a claim that gets one":       {claim("milan"), nil, nil, nil},
		"a lost claim":                {lost, nil, nil, nil},
		"no pod there":                {foreign, nil, func(s *State) { s.Mounted = false }, nil},
		"here":                        {foreign, nil, func(s *State) { s.Place = Place{Origin: "rome", Namespace: "liqo-storage"} }, nil},
		"the provider has a claim of that name": {foreign, nil, func(s *State) {
			s.Backing = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName}}
		}, nil},
		"ephemeral": {claim(""), nil, func(s *State) {
			s.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", Controller: &yes, BlockOwnerDeletion: &yes}}
			s.Claim.Name = "web-scratch"
		}, nil},
	} {
		s := at(there(), row.claim)
		s.Volume, s.Mounted = row.volume, true
		if row.change != nil {
			row.change(&s)
		}
		steps := map[string]Step{"a virtual kubelet that does not decide": Misplaced(s)}
		if len(row.want) > 0 {
			steps["the one that decides"] = Next(s)
		}
		for who, step := range steps {
			if step.Action != Nothing || (step.Refused != "") != (len(row.want) > 0) || step.Confirm != (len(row.want) > 0) {
				t.Errorf("%s: %s: %+v", name, who, step)
			}
			for _, part := range row.want {
				if !strings.Contains(step.Refused, part) {
					t.Errorf("%s: %s: %q does not say %q", name, who, step.Refused, part)
				}
			}
		}
		// Whoever gets no volume by a virtual kubelet that decides has its pods reported to by those of their nodes.
		if s.Place.Cluster != "" && len(row.want) > 0 && !LeftToPods(s.Claim, s.Volume, s.Classes, s.Place.Cluster) {
			t.Errorf("%s: nobody reports to pods on other virtual nodes", name)
		}
	}
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
	}{"a volume of the provider": {inMilan, milan}, "a claim that gets one": {claim("milan"), nil}, "a lost claim": {lost, nil}} {
		if LeftToPods(c.claim, c.volume, classes(), "milan") {
			t.Errorf("%s: two virtual kubelets report to its pods", name)
		}
	}
}
