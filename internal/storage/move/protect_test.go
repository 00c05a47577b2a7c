package move

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/storage"
)

// TestTwoMovesInOneNamespace: each move protects its claim, and its end keeps the other claim protected.
func TestTwoMovesInOneNamespace(t *testing.T) {
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop, Annotations: map[string]string{"team": "blue"}}}
	of := func(name, volume string) *move {
		s := &State{Request: Request{Namespace: shop, Name: name, Node: "milan"}, Home: home}
		return &move{State: s, source: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}, record: &Record{Node: "milan"}}
	}
	write := func(step Step, due bool) {
		t.Helper()
		next, ok := step.Object.(*corev1.Namespace)
		if !due || !ok || step.Action != Patch || step.Old != home {
			t.Fatalf("%+v", step)
		}
		home = next
	}
	want := func(text string) {
		t.Helper()
		if got := home.Annotations[storage.AnnotationMovingClaims]; got != text || home.Annotations["team"] != "blue" {
			t.Fatalf("the namespace has %v, want %q", home.Annotations, text)
		}
	}
	write(of("data", "pvc-u1").reserveName(Preparing))
	write(of("data-db-0", "pvc-u2").reserveName(Preparing))
	want("data=pvc-u1/milan,data-db-0=pvc-u2/milan")
	for name, volume := range map[string]string{"data": "pvc-u1", "data-db-0": "pvc-u2"} {
		if step, due := of(name, volume).reserveName(Preparing); due {
			t.Errorf("%s: %+v", name, step)
		}
	}
	write(of("data", "pvc-u1").releaseName(Finishing))
	want("data-db-0=pvc-u2/milan")
	if step, due := of("data", "pvc-u1").releaseName(Finishing); due {
		t.Errorf("its entry is gone: %+v", step)
	}
	write(of("data-db-0", "pvc-u2").releaseName(Finishing))
	want("")
}
