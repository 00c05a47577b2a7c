package installer

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/internal/kube"
)

// TestNamespacesOfOthersAreKept: a claim and each kind of workload that is not Liqo's keep a namespace. Liqo's workloads and other objects do not.
func TestNamespacesOfOthersAreKept(t *testing.T) {
	at := metav1.ObjectMeta{Namespace: "any-name", Name: "x"}
	ours := metav1.ObjectMeta{Namespace: "any-name", Name: "x", Labels: map[string]string{"app.kubernetes.io/part-of": "liqo"}}
	for object, want := range map[client.Object]string{
		&corev1.PersistentVolumeClaim{ObjectMeta: at}:   "PersistentVolumeClaim x",
		&corev1.PersistentVolumeClaim{ObjectMeta: ours}: "PersistentVolumeClaim x",
		&appsv1.Deployment{ObjectMeta: at}:              "Deployment x",
		&appsv1.StatefulSet{ObjectMeta: at}:             "StatefulSet x",
		&appsv1.DaemonSet{ObjectMeta: at}:               "DaemonSet x",
		&batchv1.CronJob{ObjectMeta: at}:                "CronJob x",
		&batchv1.Job{ObjectMeta: at}:                    "Job x",
		&corev1.Pod{ObjectMeta: at}:                     "Pod x",
		&appsv1.Deployment{ObjectMeta: ours}:            "",
		&corev1.Pod{ObjectMeta: ours}:                   "",
		&corev1.ConfigMap{ObjectMeta: at}:               "",
	} {
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(object).Build()
		why, err := WhyKept(t.Context(), c, "any-name")
		if err != nil || (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%T %v: %q, %v", object, object.GetLabels(), why, err)
		}
		if why, err := WhyKept(t.Context(), c, "other"); err != nil || why != "" {
			t.Errorf("%T of another namespace: %q, %v", object, why, err)
		}
	}
}
