package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written is a Pod as the API server stores it, with a label of ours and one of another owner.
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

func TestStripPodKeepsUsedFields(t *testing.T) {
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

// TestStripPodTwiceIsStripPodOnce: an informer transforms the objects of its first list twice. A field lost the second time would be written again,
// once per Pod and restart.
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

// TestStripPodKeepsResourcesInUse: resources that a node has not released yet are not free.
func TestStripPodKeepsResourcesInUse(t *testing.T) {
	pod := written()
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
	}}}
	got, err := stripPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	stripped := got.(*corev1.Pod)
	if memory := stripped.Spec.Overhead[corev1.ResourceMemory]; memory.String() != "8Gi" {
		t.Errorf("it takes %s of memory, want 8Gi", memory.String())
	}
	if len(stripped.Status.ContainerStatuses) > 0 {
		t.Error("the status is kept")
	}
}
