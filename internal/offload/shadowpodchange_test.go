package offload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

func TestGates(t *testing.T) {
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) {
		sp.Spec.Pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
		sp.Annotations[podrules.AnnotationGates] = "a=True,Ready=True"
	})
	pod := Pod(sp, PodMetadata{})
	want := []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue, Reason: "ReportedByConsumer"}}
	if diff := cmp.Diff(want, Gates(sp, pod)); diff != "" {
		t.Errorf("a consumer sets more than its readiness gates: %s", diff)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue}}
	if got := Gates(sp, pod); len(got) > 0 {
		t.Errorf("it never settles: %+v", got)
	}
}
