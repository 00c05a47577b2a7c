package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// pods: special properties of pods have the same effect in milan, and rome shows the result.
func pods(s *story.Story) {
	const ns = "pods"
	rome, milan, twin := s.Rome, s.Milan, story.Twin(ns)
	s.Step("a pod that is looked at later, and one that ends", func() {
		s.Offload(ns)
		server := story.PodOn("milan", ns, "server", playground.TestServer)
		server.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		server.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
		s.Must(rome.Create(s.Context(), server))
		once := story.PodOn("milan", ns, "once", playground.TestServer, "/testserver", "exit", "0")
		once.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.Must(rome.Create(s.Context(), once))
		s.Must(rome.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}, Data: map[string]string{"a": "1"}}))
		s.Must(rome.Create(s.Context(), whole(ns)))
	})
	there := s.Record(milan, twin)

	s.Step("DaemonSets stay on real nodes, but for one that asks for virtual ones", func() {
		nodes, clusters := everywhere(ns, "nodes"), everywhere(ns, "clusters")
		clusters.Spec.Template.Annotations = map[string]string{"liqo.io/run-on-virtual-nodes": api.True}
		clusters.Spec.Template.Spec.Tolerations[0].Key = api.TaintVirtualNode // milan refuses pods that tolerate every taint
		s.Must(rome.Create(s.Context(), nodes))
		s.Must(rome.Create(s.Context(), clusters))
		daemons(s, ns, "nodes", rome.Node())
		daemons(s, ns, "clusters", "milan", "naples", rome.Node())
		for _, name := range []string{"nodes", "clusters"} {
			s.Must(rome.Delete(s.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}))
		}
	})
	s.Step("readiness waits for a gate of rome", func() {
		s.Eventually(start, "the pod to be Ready but for its gate", func(ctx) error {
			pod := s.Pod(rome, ns, "server")
			if is(*pod, corev1.ContainersReady) && !story.Ready(*pod) {
				return nil
			}
			return fmt.Errorf("conditions %v", pod.Status.Conditions)
		})
		pod := s.Pod(rome, ns, "server")
		before := pod.DeepCopy()
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		s.Must(rome.Status().Patch(s.Context(), pod, client.StrategicMergeFrom(before)))
		s.PodReady(rome, ns, "server", start)
	})
	s.Step("kubectl debug and kubectl edit --subresource resize", func() {
		before := s.Pod(rome, ns, "server")
		change(s, ns, "server", func(ctx ctx, pod *corev1.Pod) error {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debugger", Image: playground.Shell, Command: []string{"sh", "-c", "echo looking; sleep 1000"},
			}}}
			_, err := rome.Set.CoreV1().Pods(ns).UpdateEphemeralContainers(ctx, "server", pod, metav1.UpdateOptions{})
			return err
		})
		resize(s, ns, "server", "20m")
		s.Eventually(start, "rome to show both", func(ctx) error {
			status := s.Pod(rome, ns, "server").Status
			debugs := slices.ContainsFunc(status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
			resized := status.ContainerStatuses[0].Resources != nil && status.ContainerStatuses[0].Resources.Requests.Cpu().MilliValue() == 20
			if !debugs || !resized {
				return fmt.Errorf("containers %+v, for debugging %+v", status.ContainerStatuses, status.EphemeralContainerStatuses)
			}
			return nil
		})
		untouched(s, *before, *s.Pod(rome, ns, "server"))
		// The debugger runs for a moment before it prints something.
		s.Eventually(start, "the debugger to say something", func(ctx) error {
			if got := s.Logs(rome, ns, "server", corev1.PodLogOptions{Container: "debugger"}); got != "looking\n" {
				return fmt.Errorf("it says %q", got)
			}
			return nil
		})
	})
	s.Step("what a pod says it says in milan, too", func() {
		carried(s, s.PodReady(rome, ns, "whole", start), s.PodReady(milan, twin, "whole", start))
		for file, want := range map[string]string{"/etc/hosts": "192.0.2.1\toracle", "/etc/resolv.conf": "192.0.2.53", "/settings/a": "1", "/about/note": "kept"} {
			if said := s.Exec(rome, story.WebSocket, ns, "whole", "", "/testserver", "cat", file); !strings.Contains(said.Out, want) {
				s.Errorf("%s: %+v, want %q", file, said, want)
			}
		}
		s.Must(rome.Delete(s.Context(), s.Pod(rome, ns, "whole")))
	})
	s.Step("rome's identities are good in milan for what is rome's, and for nothing else", func() { trespass(s, twin) })
	s.Step("replicas keep apart as the preset says, among the nodes of milan", func() {
		for _, preset := range []string{"hard", "soft"} {
			d := story.DeploymentOn("milan", ns, preset, 2, playground.TestServer)
			d.Spec.Template.Annotations = map[string]string{"liqo.io/anti-affinity-preset": preset}
			s.Must(rome.Create(s.Context(), d))
		}
		s.Eventually(start, "one of the hard and both of the soft ones to run", func(ctx) error {
			for preset, want := range map[string]int{"hard": 1, "soft": 2} { // milan has one node
				here, there := s.Pods(rome, ns, client.MatchingLabels{"app": preset}), s.Pods(milan, twin, client.MatchingLabels{"app": preset})
				if len(there) != 2 || ready(here) != want || ready(there) != want {
					return fmt.Errorf("%s: %d of %d are Ready in milan, %d in rome", preset, ready(there), len(there), ready(here))
				}
			}
			return nil
		})
		for _, preset := range []string{"hard", "soft"} {
			s.Must(rome.Delete(s.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: preset}}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	})
	s.Step("a pod whose namespace is not offloaded waits, comes, and ends with the offloading", func() {
		s.Namespace("later", nil)
		pod := story.PodOn("milan", "later", "early", playground.TestServer)
		pod.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
		s.Must(rome.Create(s.Context(), pod))
		because(s, "later", "early", corev1.PodPending, offloadingv1beta1.PodOffloadingBackOff)
		_, err := s.Liqoctl(s.Context(), "offload", "namespace", "later", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		s.PodReady(rome, "later", "early", start)
		_, err = s.Liqoctl(s.Context(), "unoffload", "namespace", "later", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		because(s, "later", "early", corev1.PodFailed, offloadingv1beta1.PodOffloadingAborted)
	})
	s.Step("what has ended has ended, also when milan forgets it", func() {
		because(s, ns, "once", corev1.PodSucceeded, "")
		s.Must(milan.Delete(s.Context(), s.Pod(milan, twin, "once")))
		s.Gone(milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: "once"}}, start)
	})
	s.Step("kubectl top tells of the node and of the pod", func() {
		s.Eventually(2*time.Minute, "rome's metrics server to tell of milan and its pod", func(ctx context.Context) error {
			return errors.Join(uses(ctx, rome, "nodes/milan", ""), uses(ctx, rome, "namespaces/"+ns+"/pods/server", "main"))
		})
		s.Eventually(start, "kubectl get --raw to get the metrics of the node", func(ctx context.Context) error {
			raw, err := rome.Set.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/milan/proxy/metrics/resource").DoRaw(ctx)
			if err != nil {
				return err
			}
			for _, want := range []string{"node_cpu_usage_seconds_total ", fmt.Sprintf("container_memory_working_set_bytes{container=%q,namespace=%q,pod=%q}", "main", ns, "server"), "resource_scrape_error 0"} {
				if !strings.Contains(string(raw), want) {
					return fmt.Errorf("they lack %q:\n%s", want, raw)
				}
			}
			return nil
		})
	})
	s.Step("nothing was run again", func() {
		if n := len(slices.DeleteFunc(there.Pods(), func(name string) bool { return name != "once" })); n != 1 {
			s.Errorf("milan has had pod once %d times", n)
		}
		if got := s.Pod(rome, ns, "once").Status.Phase; got != corev1.PodSucceeded {
			s.Errorf("rome's pod that had ended is %s", got)
		}
		s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns)))
		s.PodsReady(rome, ns, 0, start)
	})
}

// change changes a pod of rome, and retries after conflicts with other writers.
func change(s *story.Story, namespace, name string, do func(context.Context, *corev1.Pod) error) {
	s.Helper()
	s.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error { return do(s.Context(), s.Pod(s.Rome, namespace, name)) }))
}

// resize changes the CPU request of the container of a pod in rome.
func resize(s *story.Story, namespace, name, cpu string) {
	s.Helper()
	change(s, namespace, name, func(ctx context.Context, pod *corev1.Pod) error {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		_, err := s.Rome.Set.CoreV1().Pods(namespace).UpdateResize(ctx, name, pod, metav1.UpdateOptions{})
		return err
	})
}

// gate is the condition of a readiness gate.
const gate = "example.com/gate"

// everywhere returns a DaemonSet that tolerates every taint.
func everywhere(namespace, name string) *appsv1.DaemonSet {
	pod := story.PodOn("", namespace, name, playground.TestServer)
	pod.Spec.NodeSelector = nil
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// daemons waits until the DaemonSet runs on exactly these nodes, given in sorted order.
func daemons(s *story.Story, namespace, name string, nodes ...string) {
	s.Helper()
	slices.Sort(nodes)
	s.Eventually(start, "DaemonSet "+name+" to run", func(ctx context.Context) error {
		var set appsv1.DaemonSet
		if err := s.Rome.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &set); err != nil {
			return err
		}
		on := []string{}
		for _, pod := range s.Pods(s.Rome, namespace, client.MatchingLabels{"app": name}) {
			on = append(on, pod.Spec.NodeName)
		}
		slices.Sort(on)
		if status := set.Status; int(status.DesiredNumberScheduled) != len(nodes) || int(status.NumberReady) != len(nodes) || !slices.Equal(on, nodes) {
			return fmt.Errorf("its pods are on %v, want %v; status %+v", on, nodes, status)
		}
		return nil
	})
}

// because waits until rome's pod has this phase and this reason.
func because(s *story.Story, namespace, name string, phase corev1.PodPhase, reason string) {
	s.Helper()
	s.Eventually(start, fmt.Sprintf("pod %s to be %s, %s", name, phase, reason), func(ctx) error {
		if status := s.Pod(s.Rome, namespace, name).Status; status.Phase != phase || status.Reason != reason {
			return fmt.Errorf("it is %s, %q: %s", status.Phase, status.Reason, status.Message)
		}
		return nil
	})
}

func is(pod corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition && c.Status == corev1.ConditionTrue })
}

func ready(pods []corev1.Pod) (n int) {
	for _, pod := range pods {
		if story.Ready(pod) {
			n++
		}
	}
	return n
}

// uses returns an error unless the metrics API has an amount of memory for a node, or for that container of a pod. "kubectl top" shows these amounts.
func uses(ctx context.Context, c *playground.Cluster, path, container string) error {
	raw, err := c.Set.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/" + path).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	type amount struct {
		Name  string              `json:"name"`
		Usage corev1.ResourceList `json:"usage"`
	}
	var told struct {
		amount
		Containers []amount `json:"containers"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// If nothing is known of a node, the reported memory is one byte.
	if !slices.ContainsFunc(append(told.Containers, told.amount), func(a amount) bool { return a.Name == container && a.Usage.Memory().Value() > 64<<10 }) {
		return fmt.Errorf("%s: %s", path, raw)
	}
	return nil
}
