package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is a Pod as the API server keeps it: one label of ours, one of somebody else.
func written() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop-rome", Name: "web", UID: "u", Labels: map[string]string{"app": "web", "cni.example/zone": "a"},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: fieldOwner, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`),
			}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}, RestartPolicy: corev1.RestartPolicyAlways},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func TestStripPodKeepsWhatIsOurs(t *testing.T) {
	got, err := stripPod(written())
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An informer transforms the objects of its first list twice. What the second time loses would be written again, once per Pod and restart.
func TestStripPodTwiceIsStripPodOnce(t *testing.T) {
	once, err := stripPod(written())
	if err != nil {
		t.Fatal(err)
	}
	again, err := stripPod(once.(*corev1.Pod).DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(once, again); diff != "" {
		t.Errorf("the second time changed it (-once +twice):\n%s", diff)
	}
}
