package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// gpu is a device that milan has during a story.
const gpu = "example.com/gpu"

// sharing: the capacity of node milan is 90 % of milan's free resources, also while these change. Running pods are not affected.
func sharing(s *story.Story) {
	const ns = "sharing"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	free := 0
	s.Step("rome sees 90% of what milan has free", func() {
		free = freeCPU(s, milan)
		share(s, "milan", free*90/100)
	})
	s.Step("devices are shared whole", func() {
		devices(s, `"3"`)
		s.Cleanup(func() {
			if s.Failed() {
				_ = patchDevices(context.WithoutCancel(s.Context()), milan, "null")
			}
		})
		s.Eventually(start, "node milan to have 3 devices", func(ctx context.Context) error {
			var node corev1.Node
			if err := rome.Get(ctx, key("milan"), &node); err != nil {
				return err
			}
			if q := node.Status.Allocatable[gpu]; q.Value() != 3 {
				return fmt.Errorf("it has %v", node.Status.Allocatable)
			}
			return nil
		})
		s.Offload(ns)
		trainer := story.PodOn("milan", ns, "trainer", playground.TestServer)
		trainer.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: resource.MustParse("2")}
		s.Must(rome.Create(s.Context(), trainer))
		s.PodReady(rome, ns, "trainer", start)
	})
	before := *s.Pod(milan, twin, "trainer")
	neighbour := story.PodOn(milan.Node(), metav1.NamespaceDefault, "neighbour", playground.Shell, "sleep", "1000")
	half := resource.NewMilliQuantity(int64(free/2), resource.DecimalSI)
	neighbour.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *half}
	s.Step("milan needs half of it itself, and the node shrinks", func() {
		s.Must(milan.Create(s.Context(), neighbour))
		s.Cleanup(func() { _ = milan.Delete(context.WithoutCancel(s.Context()), neighbour) })
		share(s, "milan", (free-free/2)*90/100)
		untouched(s, before, *s.Pod(milan, twin, "trainer"))
	})
	s.Step("milan needs it no longer, and the node grows", func() {
		s.Must(milan.Delete(s.Context(), neighbour))
		share(s, "milan", free*90/100)
	})
	offer := &sharingv1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"},
		Spec: sharingv1alpha1.ResourceOfferSpec{ClusterID: "rome", Resources: sharingv1alpha1.OfferedResources{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m")},
		}},
	}
	s.Step("milan limits rome", func() {
		s.Must(milan.Create(s.Context(), offer))
		s.Cleanup(func() { _ = milan.Delete(context.WithoutCancel(s.Context()), offer) })
		share(s, "milan", 400)
	})
	s.Step("two slices share what rome gets", func() {
		_, err := s.Liqoctl(s.Context(), "create", "resourceslice", "second", "--remote-cluster-id", "milan", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		share(s, "second", 200)
		share(s, "milan", 200)
	})
	meta := metav1.ObjectMeta{Namespace: ns, Name: "second"}
	s.Step("the second node of milan runs pods of the same namespace", func() {
		s.Must(rome.Create(s.Context(), story.DeploymentOn("second", ns, "second", 1, playground.TestServer)))
		s.PodsReady(rome, ns, 2, start)
		s.PodsReady(milan, twin, 2, start)
	})
	s.Step("without its slice it is drained, and tells which pod a disruption budget holds", func() {
		s.Must(rome.Create(s.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "second"}},
		}}))
		s.Must(rome.Delete(s.Context(), &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace("milan"), Name: "second"}}))
		drains(s, "second", ns+"/second-", "a disruption budget refuses the eviction", "deleted by force at")
		s.PodsReady(rome, ns, 2, start)
	})
	s.Step("the budget is lifted: the node goes", func() {
		s.Must(rome.Delete(s.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: meta}))
		s.Gone(rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, start)
		s.Must(rome.Delete(s.Context(), &appsv1.Deployment{ObjectMeta: meta}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		share(s, "milan", 400)
	})
	s.Step("as before", func() {
		untouched(s, before, *s.Pod(milan, twin, "trainer"))
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.PodsReady(rome, ns, 0, start)
		s.Must(milan.Delete(s.Context(), offer))
		devices(s, "null")
		share(s, "milan", free*90/100)
		s.Gone(milan, neighbour, start)
	})
}

// drains waits until a VirtualNode reports that it is being drained, with all of these texts.
func drains(s *story.Story, name string, says ...string) {
	s.Helper()
	s.Eventually(start, "VirtualNode "+name+" to be drained", func(ctx context.Context) error {
		var node offloadingv1beta1.VirtualNode
		if err := s.Rome.Get(ctx, client.ObjectKey{Namespace: api.TenantNamespace("milan"), Name: name}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Status == offloadingv1beta1.VirtualNodeDraining && !slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(c.Message, part) }) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v, want one that says %q", node.Status.Conditions, says)
	})
}

// freeCPU returns the CPU that milan's pods do not request, in thousandths.
func freeCPU(s *story.Story, c *playground.Cluster) int {
	s.Helper()
	var node corev1.Node
	s.Must(c.Get(s.Context(), key(c.Node()), &node))
	left := node.Status.Allocatable.Cpu().MilliValue()
	var pods corev1.PodList
	s.Must(c.List(s.Context(), &pods))
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != node.Name || pod.Labels[api.LabelOriginID] != "" {
			continue
		}
		for _, container := range pod.Spec.Containers {
			left -= container.Resources.Requests.Cpu().MilliValue()
		}
	}
	return int(left)
}

// share waits until a node of rome has about that many thousandths of a CPU. The value is not exact, because a share is not updated if it would change by less
// than 5 %.
func share(s *story.Story, name string, want int) {
	s.Helper()
	began := time.Now()
	s.Eventually(start, fmt.Sprintf("node %s to have %dm of cpu", name, want), func(ctx context.Context) error {
		var node corev1.Node
		if err := s.Rome.Get(ctx, key(name), &node); err != nil {
			return err
		}
		if got := int(node.Status.Allocatable.Cpu().MilliValue()); max(got-want, want-got)*100 > 6*want {
			return fmt.Errorf("it has %v", node.Status.Allocatable)
		}
		return nil
	})
	fmt.Printf("     node %s has %dm of cpu after %.1f s\n", name, want, time.Since(began).Seconds())
}

// devices sets the number of devices of milan's node, as a device plugin would.
func devices(s *story.Story, count string) {
	s.Helper()
	s.Must(patchDevices(s.Context(), s.Milan, count))
}

func patchDevices(ctx context.Context, c *playground.Cluster, count string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node()}}
	patch := fmt.Sprintf(`{"status":{"capacity":{%q:%s},"allocatable":{%q:%s}}}`, gpu, count, gpu, count)
	return c.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
}
