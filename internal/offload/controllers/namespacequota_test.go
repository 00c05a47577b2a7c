package controllers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// TestNamespaceQuotaIsCountedAtOnce: for kinds that Liqo counts, the usage is written with the quota. Kubernetes counts the others.
func TestNamespaceQuotaIsCountedAtOnce(t *testing.T) {
	const ours, theirs = "count/shadowpods.offloading.liqo.io", "count/configmaps"
	present := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web"}}
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(present, m).WithStatusSubresource(&corev1.ResourceQuota{}).Build()
	hard := corev1.ResourceList{ours: resource.MustParse("5"), theirs: resource.MustParse("1")}
	r := &namespaceMaps{Client: c, Options: Options{NamespaceQuota: hard}}
	if err := r.ensureQuota(t.Context(), m, offload.NamespacePair{Remote: "web-rome"}, "rome"); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "web-rome", Name: offload.RemoteNamespaceQuota}, quota); err != nil {
		t.Fatal(err)
	}
	used, known := quota.Status.Used[ours]
	limit := quota.Status.Hard[ours]
	if !known || used.Value() != 1 || limit.Value() != 5 || len(quota.Status.Used) != 1 || len(quota.Status.Hard) != 1 {
		t.Errorf("the status is %+v, want one of five ShadowPods and nothing else", quota.Status)
	}
}

// testDefaultLimits: the limits of a remote namespace stay as they are configured, and Kubernetes gives them to containers that declare none.
func testDefaultLimits(t *testing.T, c *cluster, limits *corev1.LimitRange, configured corev1.ResourceList) {
	t.Helper()
	kept := func(what string) {
		t.Helper()
		eventually(t, c, limits, what, func(l *corev1.LimitRange) error {
			if !equality.Semantic.DeepEqual(l.Spec, offload.DefaultLimits(configured)) || !l.DeletionTimestamp.IsZero() {
				return fmt.Errorf("%+v", l.Spec)
			}
			return nil
		})
	}
	kept("the limits")
	change(t, c, limits, func(l *corev1.LimitRange) {
		l.Spec.Limits[0].Default[corev1.ResourceEphemeralStorage] = resource.MustParse("99Gi")
	})
	kept("the limits to be as they were")
	c.remove(t, limits)
	kept("the limits to be back")
	apitest.Eventually(t, within, "a pod to have the limits, and to request nothing", func() error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: limits.Namespace, GenerateName: "web-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		if err := c.Create(t.Context(), pod); err != nil {
			return err
		}
		usage := offload.PodUsage(pod)
		if has := pod.Spec.Containers[0].Resources; !equality.Semantic.DeepEqual(has.Limits, configured) || !usage.StorageEphemeral().IsZero() {
			return fmt.Errorf("it has %+v, and counts for %v", has, usage)
		}
		return nil
	})
}
