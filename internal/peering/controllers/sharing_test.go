package controllers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/sharing"
)

// sharingPolicy of the clusters of these tests.
var sharingPolicy = sharing.Policy{Percentage: 90, Threshold: 5, SliceLimit: 4, Defaults: resources("cpu", "4", "memory", "8Gi")}

// node creates a schedulable Node with these allocatable resources, or changes them.
func (c *cluster) node(t *testing.T, name string, allocatable ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if node.UID == "" {
		c.create(t, node)
	}
	before := node.DeepCopy()
	node.Spec.Taints = nil // a new Node is not ready
	if err := c.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	before = node.DeepCopy()
	node.Status.Allocatable, node.Status.Capacity = resources(allocatable...), resources(allocatable...)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := c.Status().Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestStrippedPodsUseTheSameResources: stripping a Pod for the cache, also twice, does not change its resource usage.
func TestStrippedPodsUseTheSameResources(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	requests := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: resources("cpu", cpu, "nvidia.com/gpu", "1")}
	}
	for name, spec := range map[string]corev1.PodSpec{
		"none":     {Containers: []corev1.Container{{}}},
		"some":     {Containers: []corev1.Container{{Resources: requests("1")}, {Resources: requests("2")}}},
		"at first": {InitContainers: []corev1.Container{{Resources: requests("5")}}, Containers: []corev1.Container{{Resources: requests("2")}}},
		"beside": {
			InitContainers: []corev1.Container{{RestartPolicy: &always, Resources: requests("5")}}, Containers: []corev1.Container{{Resources: requests("2")}},
			Overhead: resources("cpu", "100m"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
			want := sharing.PodUse(pod)
			for i := range 2 {
				pod = stripPod(pod)
				if diff := cmp.Diff(want, sharing.PodUse(pod)); diff != "" || len(pod.Spec.Containers) > 0 {
					t.Errorf("stripped %d times (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}

func TestEventsThatChangeFreeResources(t *testing.T) {
	strip := func(o client.Object) any {
		out, err := kube.Reduced(stripPod)(o)
		if err == nil {
			out, err = kube.Reduced(stripNode)(out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: resources("cpu", "1")}}}},
	}
	running, resized, given := pod.DeepCopy(), pod.DeepCopy(), pod.DeepCopy()
	running.Status.Phase, running.ResourceVersion = corev1.PodRunning, "2"
	resized.Spec.Containers[0].Resources.Requests = resources("cpu", "2")
	given.Labels = map[string]string{"liqo.io/creator-user": "rome"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Status: corev1.NodeStatus{
		Allocatable: resources("cpu", "1"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	beats, cordoned, failed := node.DeepCopy(), node.DeepCopy(), node.DeepCopy()
	beats.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	beats.Status.Images = []corev1.ContainerImage{{}}
	cordoned.Spec.Unschedulable = true
	failed.Status.Conditions[0].Status = corev1.ConditionUnknown
	platform, noted := node.DeepCopy(), node.DeepCopy()
	platform.Labels = map[string]string{corev1.LabelArchStable: "arm64"}
	noted.Labels = map[string]string{"example.org/rack": "7"}
	for i, c := range []struct {
		before, after client.Object
		same          bool
	}{
		{pod, running, true}, {pod, resized, false}, {pod, given, false}, {node, beats, true}, {node, cordoned, false}, {node, failed, false}, {pod, node, false},
		{node, platform, false}, {node, noted, true},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if got := sameStock(strip(c.before), strip(c.after)); got != c.same {
				t.Errorf("same: %v, want %v", got, c.same)
			}
		})
	}
}
