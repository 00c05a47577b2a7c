package offload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

func TestChanges(t *testing.T) {
	amount := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) { sp.Spec.Pod.Containers[0].Resources.Requests = amount("1") })
	pod := Pod(sp)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")} // a LimitRange of the provider's
	if got := Changes(sp, pod); got.Spec != nil || got.Resize != nil || got.Debug != nil {
		t.Fatalf("what admission put there is taken away: %+v", got)
	}
	sp.Spec.Pod.Containers[0].Image = "web:2"
	sp.Spec.Pod.Containers[0].Resources.Requests = amount("2")
	sp.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}}}
	got := Changes(sp, pod)
	if got.Spec == nil || got.Resize == nil || got.Debug == nil {
		t.Fatalf("%+v", got)
	}
	if c := got.Spec.Spec.Containers[0]; c.Image != "web:2" || !c.Resources.Requests.Cpu().Equal(resource.MustParse("1")) {
		t.Errorf("specification: %+v", c)
	}
	if c := got.Resize.Spec.Containers[0]; c.Image != "web:1" || !c.Resources.Requests.Cpu().Equal(resource.MustParse("2")) || len(c.Resources.Limits) != 1 {
		t.Errorf("resize: %+v", c)
	}
	if c := got.Debug; len(c) != 1 || c[0].Name != "d" {
		t.Errorf("debug: %+v", c)
	}
	if pod.Spec.Containers[0].Image != "web:1" || len(pod.Spec.EphemeralContainers) > 0 {
		t.Error("the Pod itself was changed")
	}
}

func TestGates(t *testing.T) {
	sp := shadowPod(func(sp *offloadingv1beta1.ShadowPod) {
		sp.Spec.Pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
		sp.Annotations[kinds.AnnotationGates] = "a=True,Ready=True"
	})
	pod := Pod(sp)
	want := []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue, Reason: "ReportedByConsumer"}}
	if diff := cmp.Diff(want, Gates(sp, pod)); diff != "" {
		t.Errorf("a consumer sets more than its readiness gates: %s", diff)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "a", Status: corev1.ConditionTrue}}
	if got := Gates(sp, pod); len(got) > 0 {
		t.Errorf("it never settles: %+v", got)
	}
}
