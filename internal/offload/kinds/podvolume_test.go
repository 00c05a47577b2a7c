package kinds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRemoteClaim: an annotation of the pod replaces the name of one claim, and no other.
func TestRemoteClaim(t *testing.T) {
	for annotation, want := range map[string]string{"": "x", "x=data": "data", "y=data": "x", "x=": "x", "x": "x"} {
		v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}
		if remoteClaim(&v, annotation); v.PersistentVolumeClaim.ClaimName != want {
			t.Errorf("%q: %s, want %s", annotation, v.PersistentVolumeClaim.ClaimName, want)
		}
	}
}
