package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// testShadowPodChanges: images, resources, ephemeral containers and readiness gates reach the running Pod. Rejected changes are reported.
func testShadowPodChanges(t *testing.T, c *cluster) {
	c.namespace(t, "changes", nil)
	sp := shadowPod("changes", "web", corev1.RestartPolicyAlways)
	sp.Annotations[podrules.AnnotationSpec] = "image=1,resources=1"
	sp.Spec.Pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb.example/attached"}}
	sp.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	c.create(t, sp)
	pod := podOf(sp)
	eventually(t, c, pod, "the pod", anything)
	uid := pod.UID
	const followed = "image=2,resources=2,ephemeralContainers/debug=1"
	change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) {
		sp.Annotations[podrules.AnnotationSpec], sp.Annotations[podrules.AnnotationGates] = followed, "lb.example/attached=True,Ready=True"
		sp.Spec.Pod.Containers[0].Image = "web:2"
		sp.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		sp.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "busybox:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
	})
	eventually(t, c, pod, "the pod to follow", func(p *corev1.Pod) error {
		web, debug := p.Spec.Containers[0], p.Spec.EphemeralContainers
		attached := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == "lb.example/attached" && c.Status == corev1.ConditionTrue
		})
		switch {
		case p.UID != uid:
			return errors.New("it is another one")
		case web.Image != "web:2" || web.Resources.Requests.Cpu().Value() != 2 || len(debug) != 1 || debug[0].Name != "debug":
			return fmt.Errorf("%+v, %+v", web, debug)
		case !attached || p.Annotations[podrules.AnnotationSpec] != followed:
			return fmt.Errorf("conditions %+v, annotations %v", p.Status.Conditions, p.Annotations)
		}
		return nil
	})
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			t.Errorf("a consumer says that the pod is ready: %+v", condition)
		}
	}
	settled := pod.ResourceVersion
	c.stays(t, "the pod is written again and again", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.ResourceVersion == settled
	})

	change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) {
		sp.Annotations[podrules.AnnotationSpec] = "image=3,resources=3,ephemeralContainers/debug=1,ephemeralContainers/broken=1,ephemeralContainers/late=1,ephemeralContainers/later=1"
		sp.Annotations[podrules.AnnotationGates] = "lb.example/attached=False"
		sp.Labels["tier"] = "front"
		sp.Spec.Pod.Containers[0].Image = "web:3"
		sp.Spec.Pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")} // invalid, because the limit is less than the request
		for _, name := range []string{"broken", "late", "later"} {
			another := sp.Spec.Pod.EphemeralContainers[0]
			if another.Name = name; name == "broken" {
				another.TargetContainerName = "nobody"
			}
			sp.Spec.Pod.EphemeralContainers = append(sp.Spec.Pod.EphemeralContainers, another)
		}
	})
	eventually(t, c, pod, "what is not refused", func(p *corev1.Pod) error {
		var debug []string
		for _, container := range p.Spec.EphemeralContainers {
			debug = append(debug, container.Name)
		}
		slices.Sort(debug)
		web := p.Spec.Containers[0]
		detached := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == "lb.example/attached" && c.Status == corev1.ConditionFalse
		})
		if web.Image != "web:3" || len(web.Resources.Limits) > 0 || !slices.Equal(debug, []string{"debug", "late", "later"}) || !detached {
			return fmt.Errorf("%+v, for debugging %v, conditions %+v", web, debug, p.Status.Conditions)
		}
		if got, want := p.Annotations[podrules.AnnotationSpec], "image=3,resources=2,ephemeralContainers/debug=1,ephemeralContainers/late=1,ephemeralContainers/later=1"; got != want {
			return fmt.Errorf("noted %s, want %s", got, want) // the Pod records only applied parts, so a refused part is retried
		}
		return has(p.Labels, map[string]string{"tier": "front"})
	})
	change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) {
		sp.Annotations[podrules.AnnotationSpec] = strings.Replace(sp.Annotations[podrules.AnnotationSpec], "image=3", "image=2", 1)
		sp.Spec.Pod.Containers[0].Image = "web:2"
	})
	eventually(t, c, pod, "what was changed beside something refused to be taken back", func(p *corev1.Pod) error {
		if got := p.Spec.Containers[0].Image; got != "web:2" {
			return fmt.Errorf("image %s", got)
		}
		return nil
	})
	eventually(t, c, sp, "the ShadowPod to report the refusal as data", func(sp *offloadingv1beta1.ShadowPod) error {
		if s := sp.Status.Pod; s == nil || len(s.Conditions) != 1 || s.Conditions[0].Type != corev1.PodResizePending || s.Conditions[0].Reason != corev1.PodReasonInfeasible {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	eventually(t, c, sp, "somebody to be told", func(*offloadingv1beta1.ShadowPod) error {
		var told corev1.EventList
		if err := c.List(t.Context(), &told, client.InNamespace("changes")); err != nil {
			return err
		}
		for _, part := range []string{"resources", "ephemeralContainers/broken"} {
			if !slices.ContainsFunc(told.Items, func(e corev1.Event) bool {
				return e.Reason == "FailedUpdatePod" && e.InvolvedObject.Kind == "ShadowPod" && strings.Contains(e.Message, "failed to change "+part+" of the pod: ")
			}) {
				return fmt.Errorf("nothing of %s: events %+v", part, told.Items)
			}
		}
		for _, e := range told.Items {
			if strings.Contains(e.Message, "late") || strings.Contains(e.Message, "change image") {
				t.Errorf("told: %s", e.Message)
			}
		}
		return nil
	})
	c.remove(t, sp) // retries of the refused part would count as writes of other tests
	c.gone(t, sp)
}

// testShadowPodEnd: a Pod ends and is deleted at once, as kubelets do it. The ShadowPod records the end, and the Pod is not recreated.
func testShadowPodEnd(t *testing.T, c *cluster) {
	c.namespace(t, "ends", nil)
	c.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ends-node"}})
	sp := shadowPod("ends", "train", corev1.RestartPolicyNever)
	sp.Spec.Pod.NodeName = "ends-node"
	c.create(t, sp)
	pod := podOf(sp)
	eventually(t, c, pod, "the pod", anything)
	c.remove(t, pod) // evicted
	report(t, c, pod, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}}}
	})
	c.remove(t, pod, atOnce)
	eventually(t, c, sp, "its end", func(sp *offloadingv1beta1.ShadowPod) error {
		s := sp.Status.Pod
		if sp.Status.Phase != corev1.PodFailed || s == nil || len(s.Conditions) != 1 || s.Conditions[0].Type != corev1.DisruptionTarget ||
			len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].State.Terminated.ExitCode != 143 {
			return fmt.Errorf("%+v", sp.Status)
		}
		return nil
	})
	// A repeated reconciliation with an outdated cache must change nothing.
	version := sp.ResourceVersion
	c.stays(t, "it is made again, or its end changes", func() bool {
		return podGone(t, c, podOf(sp)) && c.Get(t.Context(), client.ObjectKeyFromObject(sp), sp) == nil && sp.ResourceVersion == version
	})
}

// testShadowPodGrace: a deletion with a shorter grace period ends the Pod earlier, and the Pod is not recreated.
func testShadowPodGrace(t *testing.T, c *cluster) {
	c.namespace(t, "grace", nil)
	c.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "grace-node"}})
	sp := shadowPod("grace", "web", corev1.RestartPolicyAlways)
	sp.Spec.Pod.NodeName = "grace-node" // the API server deletes a Pod without a node at once
	c.create(t, sp)
	pod := podOf(sp)
	eventually(t, c, pod, "the pod", anything)
	change(t, c, sp, func(sp *offloadingv1beta1.ShadowPod) { *sp = *podrules.WithGrace(sp, 7) })
	eventually(t, c, pod, "the pod to end within 7 s", func(p *corev1.Pod) error {
		if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 7 {
			return fmt.Errorf("grace period %v", p.DeletionGracePeriodSeconds)
		}
		return nil
	})
	c.remove(t, pod, atOnce)
	c.stays(t, "it is made again", func() bool { return podGone(t, c, podOf(sp)) })
}
