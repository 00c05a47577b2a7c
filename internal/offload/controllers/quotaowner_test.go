package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// TestPodsCountByTheirShadowPod: a Pod counts for the creator of its ShadowPod, whatever its labels are. A Pod without a ShadowPod counts for no
// user.
func TestPodsCountByTheirShadowPod(t *testing.T) {
	const user, victim = "pool-0a1b2c3d4e5f", "other-0a1b2c3d4e5f"
	sp := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web", UID: "1", Labels: map[string]string{offloadingv1beta1.LabelCreatorUser: user},
	}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(sp).Build()
	q := &quotas{Client: c, tracker: offload.NewUsageTracker(), held: map[types.NamespacedName]string{}}
	pods := func(of string) int64 {
		used := q.tracker.Used(of, types.NamespacedName{})
		return used.Pods().Value()
	}
	expect := func(what string, own, others int64) {
		t.Helper()
		if pods(user) != own || pods(victim) != others {
			t.Errorf("%s: %d pods of the creator, %d of another user; want %d and %d", what, pods(user), pods(victim), own, others)
		}
	}
	pod := offload.Pod(sp, offload.PodMetadata{})
	pod.UID = "2"
	relabelled := func(creator string) *corev1.Pod {
		out := pod.DeepCopy()
		if delete(out.Labels, offloadingv1beta1.LabelCreatorUser); creator != "" {
			out.Labels[offloadingv1beta1.LabelCreatorUser] = creator
		}
		return out
	}
	q.observe(relabelled(victim))
	expect("a forged label", 1, 0)
	q.observe(relabelled(""))
	expect("a removed label", 1, 0)
	stranger := relabelled(victim)
	stranger.Name, stranger.UID, stranger.OwnerReferences = "stranger", "3", nil
	q.observe(stranger)
	expect("a pod of nobody's", 1, 0)
	if err := c.Delete(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	q.observe(relabelled(""))
	expect("a Pod that outlives its ShadowPod", 1, 0)
}
