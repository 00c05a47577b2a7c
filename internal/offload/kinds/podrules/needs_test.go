package podrules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// TestObjectsThatStayAreReported: a pod that needs a Secret or ConfigMap that is not copied gets a warning with the field, the object and the cure.
// The Events of the provider would only say that the object does not exist, though it does.
func TestObjectsThatStayAreReported(t *testing.T) {
	ref := corev1.LocalObjectReference{Name: "settings"}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	projected := func(source corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
	}
	env := func(source corev1.EnvVarSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &source}} }
	}
	from := func(source corev1.EnvFromSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", EnvFrom: []corev1.EnvFromSource{source}}}
		}
	}
	for _, row := range []struct {
		says string
		uses func(*corev1.Pod)
	}{
		{"spec.volumes v needs Secret settings: ", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}})},
		{"spec.volumes v needs ConfigMap settings: ", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref}})},
		{"spec.volumes v needs Secret settings: ", projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: ref}})},
		{"spec.volumes v needs ConfigMap settings: ", projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref}})},
		{"env E of container c needs Secret settings: ", env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref}})},
		{"env E of container c needs ConfigMap settings: ", env(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref}})},
		{"envFrom of container i needs Secret settings: ", from(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}})},
		{"envFrom of container i needs ConfigMap settings: ", from(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}})},
	} {
		for _, of := range []struct {
			annotation string
			kind       offloadingv1beta1.ReflectionType
			cure       string
		}{
			{kinds.AnnotationSkip, offloadingv1beta1.DenyList, "since it has annotation liqo.io/skip-reflection: remove the annotation"},
			{kinds.AnnotationSkip, "", "since it has annotation liqo.io/skip-reflection: remove the annotation"},
			{"note", offloadingv1beta1.AllowList, "since it has no annotation liqo.io/allow-reflection: annotate it"},
			{kinds.AnnotationAllow, offloadingv1beta1.AllowList, ""},
			{"note", offloadingv1beta1.DenyList, ""},
		} {
			o := options
			o.SecretType, o.ConfigMapType = of.kind, of.kind
			meta := metav1.ObjectMeta{Annotations: map[string]string{of.annotation: "true"}}
			o.Secret = func(string, string) *corev1.Secret { return &corev1.Secret{ObjectMeta: meta} }
			o.ConfigMap = func(string, string) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: meta} }
			got := strings.Join(MissingObjects(pod(row.uses), o), "; ")
			if of.cure == "" && got != "" || of.cure != "" && (!strings.HasPrefix(got, row.says+"it is not copied to cluster milan") || !strings.HasSuffix(got, of.cure)) {
				t.Errorf("%s with annotation %s and type %q: %q", row.says, of.annotation, of.kind, got)
			}
			o.Secret, o.ConfigMap = func(string, string) *corev1.Secret { return nil }, func(string, string) *corev1.ConfigMap { return nil }
			if got := MissingObjects(pod(row.uses), o); len(got) > 0 {
				t.Errorf("%san object that is not here: %q", row.says, got)
			}
		}
	}
	optional := volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings", Optional: new(true)}})
	o := options
	o.Secret = func(string, string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kinds.AnnotationSkip: ""}}}
	}
	if got := MissingObjects(pod(optional), o); len(got) > 0 {
		t.Errorf("a Secret that may be missing: %q", got)
	}
	pulling := func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref} }
	if got := MissingObjects(pod(pulling), o); len(got) > 0 {
		t.Errorf("a kubelet starts containers without a pull secret: %q", got)
	}
	// The user's ConfigMap has the name of the copy of the root CA, which the pod would get in its place.
	taken := volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}}})
	if got := strings.Join(MissingObjects(pod(taken), o), "; "); !strings.Contains(got, "needs ConfigMap kube-root-ca.crt.rome") || !strings.HasSuffix(got, "create the ConfigMap under another name and use that one in the pod") {
		t.Errorf("a taken name: %q", got)
	}
	// The root CA itself is copied in any case.
	o.ConfigMap, o.ConfigMapType = func(string, string) *corev1.ConfigMap { return &corev1.ConfigMap{} }, offloadingv1beta1.AllowList
	if got := MissingObjects(pod(access), o); len(got) > 0 {
		t.Errorf("the root CA: %q", got)
	}
}
