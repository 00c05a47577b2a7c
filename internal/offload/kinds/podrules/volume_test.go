package podrules

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		{Name: "DIR", Value: "$(NS)/$(POD)"}, {Name: "DEEP", Value: "a/$(DIR)"}, {Name: "EARLY", Value: "$(LATE)"}, {Name: "LATE", ValueFrom: field("metadata.namespace")},
		{Name: "ESCAPED", Value: "$(NS)/$$(POD)"}, {Name: "OUTER", Value: "$(NS)/$(MISSING)"}, {Name: "CHANGED", Value: "$(NS)/$(TWICE)"}, {Name: "OPEN", Value: "$(NS)$("},
		{Name: "LONG", Value: "$(NS)" + strings.Repeat("x", maxPath-len("$(NS)"))},
	}
	for expression, want := range map[string]string{
		"":                   "",
		"$(NS)/$(POD)":       "shop/$(POD)",
		"a/$(NS)/$(NS)":      "a/shop/shop",
		"$(TEXT)/$(UNKNOWN)": "$(TEXT)/$(UNKNOWN)",
		"$$(NS)/$(NS)":       "$$(NS)/shop",
		"$(TWICE)":           "$(TWICE)",
		"$(DIR)":             "shop/$(POD)",
		"$(DEEP)/$(TEXT)":    "a/shop/$(POD)/$(TEXT)",
		"$(EARLY)/$(LATE)":   "$(EARLY)/shop",
		"$(ESCAPED)":         "shop/$$(POD)",
		"$($(NS))":           "$($(NS))", // a reference to variable "$(NS", and a parenthesis
		// The value of a reference in these variables may be another one in a path than in the variable.
		"$(OUTER)/$(CHANGED)": "$(OUTER)/$(CHANGED)",
		"$(OPEN)POD)":         "$(OPEN)POD)",
		"$(LONG)":             "shop" + strings.Repeat("x", maxPath-len("$(NS)")),
		"$(LONG)/$(LONG)":     "$(LONG)/$(LONG)", // longer than a path can be
		"$(NS":                "$(NS",
		"NS)/$(POD)$":         "NS)/$(POD)$",
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

// TestHugeValuesOfAPodTakeNoTime: a pod with variables whose values grow with each variable, or with huge texts, stops no virtual kubelet.
func TestHugeValuesOfAPodTakeNoTime(t *testing.T) {
	const mebibyte = 1 << 20
	namespace := func(name string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}
	}
	doubling, many := []corev1.EnvVar{namespace("V0")}, []corev1.EnvVar{}
	for i := range 5000 {
		doubling = append(doubling, corev1.EnvVar{Name: fmt.Sprintf("V%d", i+1), Value: fmt.Sprintf("$(V%d)$(V%d)", i, i)})
		many = append(many, namespace(fmt.Sprintf("V%d", i)))
	}
	mounts := make([]corev1.VolumeMount, 20000)
	for i := range mounts {
		mounts[i].SubPathExpr = "$(V9)"
	}
	all, services := strings.Builder{}, strings.Builder{}
	for i := range 20000 {
		fmt.Fprintf(&all, "$(V%d)", i)
		fmt.Fprintf(&services, "a.n%d.svc ", i)
	}
	long := strings.Repeat("x", mebibyte/4)
	for name, c := range map[string]corev1.Container{
		"variables that double":         {Env: doubling, Args: []string{"$(V5000)"}, VolumeMounts: []corev1.VolumeMount{{SubPathExpr: "$(V5000)/$(V11)/$(V9)"}}},
		"many long paths":               {Env: doubling, VolumeMounts: mounts},
		"beginnings of references":      {Env: doubling[:1], Args: []string{strings.Repeat("$(", mebibyte/2)}, VolumeMounts: []corev1.VolumeMount{{SubPathExpr: strings.Repeat("$(", mebibyte/2)}}},
		"many references":               {Env: many, Args: []string{strings.Repeat("$(V4999)", mebibyte/8)}, VolumeMounts: []corev1.VolumeMount{{SubPathExpr: strings.Repeat("$(V4999)", mebibyte/8)}}},
		"many names in a long field":    {Env: append(many, corev1.EnvVar{Name: long, Value: all.String()})},
		"many Services in a long field": {Env: []corev1.EnvVar{{Name: long, Value: services.String()}}},
	} {
		local := pod(func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{c} })
		start := time.Now()
		shadow := ShadowPod(local, "shop-rome", mapped())
		ForeignNames(local, mapped())
		if found := NamespaceValues(local, mapped()); len(found) == 0 && name != "beginnings of references" && !strings.Contains(name, "Services") {
			t.Errorf("%s: no warning", name)
		}
		if size, was := shadow.Spec.Pod.Size(), local.Spec.Size(); size > was+2*maxGrowth {
			t.Errorf("%s: %d bytes become %d", name, was, size)
		}
		if took := time.Since(start); took > 10*time.Second { // milliseconds on an idle machine
			t.Errorf("%s: takes %v", name, took)
		}
	}
}
