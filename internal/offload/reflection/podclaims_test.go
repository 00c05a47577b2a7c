package reflection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// TestCachedPodsNameTheirClaims: the cache keeps little of a pod that is offloaded, but the claims that it mounts. By them, the virtual kubelet knows that a claim is used on its
// node, and warns about one that gets no volume there.
func TestCachedPodsNameTheirClaims(t *testing.T) {
	for name, annotations := range map[string]map[string]string{"offloaded": {podrules.AnnotationOffloaded: "p1"}, "new": nil} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p1", Annotations: annotations}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}},
		}}}
		stripLocalPod(pod)
		found := false
		for _, v := range pod.Spec.Volumes {
			found = found || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "data-db-0"
		}
		if !found {
			t.Errorf("%s: the volumes are %+v", name, pod.Spec.Volumes)
		}
	}
}
