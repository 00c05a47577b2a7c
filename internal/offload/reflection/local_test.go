package reflection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds"
)

// TestStepsOnOtherLocalObjects: a step may write a local object of another kind, also without a remote namespace, and a locked patch applies to one
// version.
func TestStepsOnOtherLocalObjects(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).Build()
	var other []string
	kind := PersistentVolumeClaims(1, kinds.CopyOptions{Origin: "rome", Destination: "milan"}, func(Facts) offload.Step { return offload.Step{} })
	kind.Other = func(obj client.Object) { other = append(other, obj.GetName()) }
	r := New(Options{Local: c, Remote: c, Kinds: []Kind{kind}}).kinds[0]
	do := func(step offload.Step) {
		t.Helper()
		if err := r.do(t.Context(), nil, types.NamespacedName{Namespace: "shop", Name: "data"}, nil, step); err != nil {
			t.Fatal(err)
		}
	}
	read := func() *corev1.PersistentVolume {
		t.Helper()
		volume := &corev1.PersistentVolume{}
		if err := client.IgnoreNotFound(c.Get(t.Context(), types.NamespacedName{Name: "pvc-1"}, volume)); err != nil {
			t.Fatal(err)
		}
		return volume
	}
	do(offload.Step{Action: offload.CreateLocal, Object: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}})
	old := read()
	changed := old.DeepCopy()
	changed.Labels = map[string]string{"step": "first"}
	do(offload.Step{Action: offload.PatchLocal, Object: changed, Old: old, Locked: true})
	stale := old.DeepCopy()
	stale.Labels = map[string]string{"step": "second"}
	do(offload.Step{Action: offload.PatchLocal, Object: stale, Old: old, Locked: true})
	if got := read().Labels["step"]; got != "first" {
		t.Errorf("a locked patch of an old version was applied: %q", got)
	}
	if !slices.Equal(other, []string{"pvc-1", "pvc-1"}) {
		t.Errorf("reported %q", other)
	}
	do(offload.Step{Action: offload.DeleteLocal, Object: read()})
	if left := read(); left.Name != "" {
		t.Errorf("%+v", left)
	}
}
