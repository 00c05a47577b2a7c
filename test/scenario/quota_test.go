package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// quota: rome can run in milan what milan granted, with the requests and limits that milan demands, and no more.
func quota(s *story.Story) {
	const ns = "quota"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	needs := func(name, cpu string) *corev1.Pod { return needs(ns, name, cpu) }
	exceeds(s, ns)
	s.Step("init containers count, what has ended does not", func() {
		starts := needs("starts", "10m")
		starts.Spec.InitContainers = []corev1.Container{{
			Name: "before", Image: playground.TestServer, Command: []string{"/testserver", "exit", "0"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("180m")}},
		}}
		s.Must(rome.Create(s.Context(), starts))
		refused(s, ns, "starts", "180m of cpu are wanted, 150m of 200m are used")
		s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, "second")))
		s.PodReady(rome, ns, "starts", time.Minute)
		s.Must(rome.Delete(s.Context(), starts))
		s.Gone(rome, starts, start)
		ends := needs("ends", "150m")
		ends.Spec.RestartPolicy = corev1.RestartPolicyNever
		ends.Spec.Containers[0].Command = []string{"/testserver", "exit", "0"}
		s.Must(rome.Create(s.Context(), ends))
		because(s, ns, "ends", corev1.PodSucceeded, "")
		s.Must(rome.Create(s.Context(), needs("third", "150m")))
		s.PodReady(rome, ns, "third", start)
	})
	s.Step("a pod that grows beyond the quota stays as it is, and rome says why", func() {
		before := s.Pod(milan, twin, "third")
		resize(s, ns, "third", "250m")
		refused(s, ns, "third", "of 200m are used")
		now := s.Pod(milan, twin, "third")
		untouched(s, *before, *now)
		if cpu := now.Spec.Containers[0].Resources.Requests.Cpu(); cpu.MilliValue() != 150 {
			s.Errorf("it requests %s in milan", cpu)
		}
		for _, name := range []string{"ends", "third"} {
			s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, name)))
		}
	})
	for _, enforcement := range []offloadingv1beta1.LimitsEnforcement{offloadingv1beta1.EnforcementSoft, offloadingv1beta1.EnforcementHard, offloadingv1beta1.EnforcementNone} {
		s.Step("milan demands "+string(enforcement), func() {
			demand(s, enforcement)
			bare := story.PodOn("milan", ns, "bare-"+strings.ToLower(string(enforcement)), playground.TestServer)
			requests := bare.DeepCopy()
			requests.Name = strings.ToLower(string(enforcement))
			requests.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
			s.Must(rome.Create(s.Context(), bare))
			s.Must(rome.Create(s.Context(), requests))
			switch enforcement {
			case offloadingv1beta1.EnforcementSoft:
				refused(s, ns, bare.Name, "container main requests no cpu, which enforcement Soft demands")
				s.PodReady(rome, ns, requests.Name, start)
			case offloadingv1beta1.EnforcementHard:
				refused(s, ns, bare.Name, "container main requests no cpu, which enforcement Hard demands")
				refused(s, ns, requests.Name, "its limit is not set, enforcement Hard demands that they are equal")
			default:
				s.PodReady(rome, ns, bare.Name, start)
			}
		})
	}
	drainAndActivate(s, ns)
	s.Step("without the namespace: what is new besides is rome's identity", func() {
		s.Must(rome.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
		s.Gone(rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, 90*time.Second)
		s.Gone(milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: twin}}, 90*time.Second)
		s.Eventually(start, "the virtual kubelet with the new identity to be alone", func(ctx) error {
			kubelets := s.Pods(rome, api.TenantNamespace("milan"), client.MatchingLabels{api.LabelVirtualNode: "milan"})
			if len(kubelets) != 1 || !story.Ready(kubelets[0]) {
				return fmt.Errorf("there are %v", story.Names(kubelets))
			}
			return nil
		})
		s.Renewed(milan, "liqo/liqo-controller-manager", "liqo-tenant-rome/", "certificatesigningrequests ")
		s.Renewed(rome, "liqo-tenant-milan/vk-milan", "liqo-tenant-milan/resourceslice-milan", "liqo-tenant-milan/kubeconfig-resourceslice-milan")
	})
}

// exceeds: rome requests 200m of CPU from milan. A pod that exceeds that waits, and starts when another one has ended. Pod second stays.
func exceeds(s *story.Story, ns string) {
	s.Helper()
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	s.Step("rome asks for less, and the node has less", func() {
		s.Offload(ns)
		asks := slice(s)
		before := asks.DeepCopy()
		asks.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
		s.Must(rome.Patch(s.Context(), asks, client.MergeFrom(before)))
		s.Eventually(start, "node milan to have 200m", func(ctx context.Context) error {
			var node corev1.Node
			if err := rome.Get(ctx, key("milan"), &node); err != nil || node.Status.Allocatable.Cpu().MilliValue() == 200 {
				return err
			}
			return fmt.Errorf("it has %v", node.Status.Allocatable)
		})
	})
	s.Step("what exceeds the quota waits, says by how much, and comes when there is room", func() {
		for _, name := range []string{"first", "second"} {
			s.Must(rome.Create(s.Context(), needs(ns, name, "150m")))
			if name == "first" {
				s.PodReady(rome, ns, name, start)
			}
		}
		refused(s, ns, "second", "150m of cpu are wanted, 150m of 200m are used")
		if pods := s.Pods(milan, twin); len(pods) != 1 {
			s.Errorf("milan has the pods %v, want the first", story.Names(pods))
		}
		s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, "first")))
		s.PodReady(rome, ns, "second", time.Minute)
	})
}

// needs returns a pod on node milan that requests this much CPU.
func needs(ns, name, cpu string) *corev1.Pod {
	pod := story.PodOn("milan", ns, name, playground.TestServer)
	pod.Spec.NodeName = "milan" // bypasses the scheduler, which would let the pod wait
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// drainAndActivate: milan drains rome, which ends the pods there, and lets it in again.
func drainAndActivate(s *story.Story, ns string) {
	s.Helper()
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	var ran string
	s.Step("milan drains rome: what runs there ends", func() {
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.PodsReady(rome, ns, 0, start)
		s.Must(rome.Create(s.Context(), story.DeploymentOn("milan", ns, "web", 1, playground.TestServer)))
		ran = s.PodsReady(rome, ns, 1, start)[0].Name
		s.Must(setTenant(s.Context(), milan, authv1beta1.TenantDrained))
		s.Cleanup(func() { // for the case that the story ends early
			if s.Failed() {
				_ = setTenant(context.WithoutCancel(s.Context()), milan, authv1beta1.TenantActive)
			}
		})
		s.Eventually(90*time.Second, "rome's pods in milan to end", func(context.Context) error {
			if left := s.Pods(milan, twin); len(left) > 0 {
				return fmt.Errorf("%v are left", story.Names(left))
			}
			return nil
		})
		s.Must(milan.Get(s.Context(), key(twin), &corev1.Namespace{})) // a drain deletes no namespace: it holds the data
	})
	s.Step("rome reports that: the pod has ended, a new one waits, the node and doctor name the drain", func() { drained(s, ns, ran) })
	s.Step("milan lets rome in again, with all that it asked for", func() {
		s.Must(setTenant(s.Context(), milan, authv1beta1.TenantActive))
		asks := slice(s)
		before := asks.DeepCopy()
		asks.Spec.Resources = nil
		s.Must(rome.Patch(s.Context(), asks, client.MergeFrom(before)))
		s.NodeReady("milan", true, start)
		s.Eventually(90*time.Second, "a pod to run in milan", func(ctx) error {
			if n := ready(s.Pods(rome, ns)); n != 1 {
				return fmt.Errorf("%d pods are Ready", n)
			}
			return nil
		})
		s.Must(rome.Set.AppsV1().Deployments(ns).Delete(s.Context(), "web", metav1.DeleteOptions{}))
	})
}

// drained waits until rome reports that milan has drained it. The report is in a pod that ran there, in a new pod, in the node and in liqoctl doctor.
func drained(s *story.Story, ns, ran string) {
	s.Helper()
	waits := story.PodOn("milan", ns, "waits", playground.TestServer)
	waits.Spec.NodeName = "milan" // bypasses the scheduler, which keeps pods off a node that is not ready
	s.Must(s.Rome.Create(s.Context(), waits))
	s.Eventually(2*time.Minute, "the drain to be reported", func(ctx context.Context) error {
		for name, want := range map[string]corev1.PodStatus{
			ran:     {Phase: corev1.PodFailed, Reason: offloadingv1beta1.PodOffloadingAborted},
			"waits": {Phase: corev1.PodPending, Reason: offloadingv1beta1.PodOffloadingBackOff},
		} {
			var pod corev1.Pod
			if err := s.Rome.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &pod); err != nil {
				return err
			}
			if got := pod.Status; got.Phase != want.Phase || got.Reason != want.Reason {
				return fmt.Errorf("pod %s is %s %s: %s, want %s %s", name, got.Phase, got.Reason, got.Message, want.Phase, want.Reason)
			}
		}
		var node corev1.Node
		if err := s.Rome.Get(ctx, key("milan"), &node); err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && c.Reason == "AccessRevoked"
		}) {
			return fmt.Errorf("the node has the conditions %v", node.Status.Conditions)
		}
		// doctor exits with 1, because it reports a failure.
		said, _ := s.Liqoctl(ctx, "doctor", "--kubeconfig", s.Rome.Kubeconfig, "--remote-kubeconfig", s.Milan.Kubeconfig)
		for _, want := range []string{"Tenant rome in namespace liqo-tenant-rome is drained", "liqoctl activate tenant rome"} {
			if !strings.Contains(said, want) {
				return fmt.Errorf("the doctor does not say %q:\n%s", want, said)
			}
		}
		return nil
	})
	s.Must(s.Rome.Delete(s.Context(), waits)) // the pod is deleted when milan accepts requests again, at the latest
}

// slice returns the ResourceSlice by which rome requests resources of milan.
func slice(s *story.Story) *authv1beta1.ResourceSlice {
	s.Helper()
	var slices authv1beta1.ResourceSliceList
	s.Must(s.Rome.List(s.Context(), &slices, client.InNamespace(api.TenantNamespace("milan"))))
	if len(slices.Items) != 1 {
		s.Fatalf("rome asks milan %d times", len(slices.Items))
	}
	return &slices.Items[0]
}

// refused waits until rome reports that milan refuses a pod, with this reason.
func refused(s *story.Story, namespace, name, why string) {
	s.Helper()
	event(s, s.Rome, namespace, name, func(e corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, why)
	})
}

// demand sets the limits enforcement in milan, and waits until it is in effect.
func demand(s *story.Story, enforcement offloadingv1beta1.LimitsEnforcement) {
	s.Helper()
	s.Must(s.Machine.Install(s.Context(), s.Milan, "--set", "controllerManager.config.defaultLimitsEnforcement="+string(enforcement)))
	s.Eventually(start, "rome's quota in milan to follow", func(ctx context.Context) error {
		var quotas offloadingv1beta1.QuotaList
		if err := s.Milan.List(ctx, &quotas, client.InNamespace(api.TenantNamespace("rome"))); err != nil {
			return err
		}
		if len(quotas.Items) != 1 || slices.ContainsFunc(quotas.Items, func(q offloadingv1beta1.Quota) bool { return q.Spec.LimitsEnforcement != enforcement }) {
			return fmt.Errorf("the quotas are %+v", quotas.Items)
		}
		return nil
	})
}
