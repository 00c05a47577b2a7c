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

// TestPathsInVolumesAreThoseOfTheOrigin: a pod finds the data of its volume in the same folder in each cluster, also if the path contains the namespace, which has
// another name in the provider.
func TestPathsInVolumesAreThoseOfTheOrigin(t *testing.T) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	env := []corev1.EnvVar{
		{Name: "NS", ValueFrom: field("metadata.namespace")}, {Name: "POD", ValueFrom: field("metadata.name")}, {Name: "TEXT", Value: "x"},
		{Name: "TWICE", ValueFrom: field("metadata.namespace")}, {Name: "TWICE", Value: "x"},
	}
	for expression, want := range map[string]string{
		"":                   "",
		"$(NS)/$(POD)":       "shop/$(POD)",
		"a/$(NS)/$(NS)":      "a/shop/shop",
		"$(TEXT)/$(UNKNOWN)": "$(TEXT)/$(UNKNOWN)",
		"$$(NS)/$(NS)":       "$$(NS)/shop",
		"$(TWICE)":           "$(TWICE)",
		"$(NS":               "$(NS",
		"NS)/$(POD)$":        "NS)/$(POD)$",
	} {
		local := pod(func(p *corev1.Pod) {
			container := corev1.Container{Name: "app", Env: env, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPathExpr: expression}}}
			p.Spec.Containers, p.Spec.InitContainers = []corev1.Container{container}, []corev1.Container{*container.DeepCopy()}
		})
		shadow := ShadowPod(local, "shop-rome", options)
		for _, c := range append(shadow.Spec.Pod.Containers, shadow.Spec.Pod.InitContainers...) {
			if got := c.VolumeMounts[0].SubPathExpr; got != want {
				t.Errorf("%q becomes %q, want %q", expression, got, want)
			}
			if c.Env[0].ValueFrom == nil {
				t.Errorf("%q: the variable itself was changed: %+v", expression, c.Env[0])
			}
		}
		if local.Spec.Containers[0].VolumeMounts[0].SubPathExpr != expression {
			t.Errorf("%q: the local pod was changed", expression)
		}
	}
}
