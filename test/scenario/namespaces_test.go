package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// namespaces: the strategy of a namespace decides where its pods run, whatever the pods request. An existing namespace of another owner in the provider is not
// taken over.
func namespaces(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	s.Step("Remote, and a selector: pods that ask for nothing run in naples", func() {
		s.Offload("remote", "--pod-offloading-strategy", "Remote", "--namespace-mapping-strategy", "EnforceSameName", "--selector", api.LabelRemoteClusterID+"=naples")
		s.Must(rome.Create(s.Context(), anywhere("remote", 2)))
		runOn(s, s.PodsReady(rome, "remote", 2, start), "naples")
		s.PodsReady(naples, "remote", 2, start)
		absent(s, milan, "remote")
	})
	s.Step("those that insist on milan, or on staying at home, wait", func() {
		for _, node := range []string{"milan", rome.Node()} {
			pod := story.PodOn(node, "remote", "insists-on-"+node, playground.TestServer)
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			s.Must(rome.Create(s.Context(), pod))
			waits(s, rome, "remote", pod.Name)
		}
	})
	s.Step("Local: pods run at home, and those that insist on milan wait", func() {
		s.Offload("local", "--pod-offloading-strategy", "Local")
		s.Must(rome.Create(s.Context(), anywhere("local", 2)))
		runOn(s, s.PodsReady(rome, "local", 2, start), rome.Node())
		pod := story.PodOn("milan", "local", "insists", playground.TestServer)
		s.Must(rome.Create(s.Context(), pod))
		waits(s, rome, "local", pod.Name)
	})
	s.Step("Local: those that tolerate virtual nodes by their name, or are of their runtime class, run in milan", func() {
		tolerates := story.PodOn("milan", "local", "tolerates", playground.TestServer)
		tolerates.Spec.Tolerations = []corev1.Toleration{{Key: api.TaintVirtualNode, Operator: corev1.TolerationOpExists}}
		classed := story.PodOn("milan", "local", "classed", playground.TestServer)
		classed.Spec.RuntimeClassName = new("liqo")
		for _, pod := range []*corev1.Pod{tolerates, classed} {
			s.Must(rome.Create(s.Context(), pod))
		}
		for _, pod := range []*corev1.Pod{tolerates, classed} {
			s.PodReady(rome, "local", pod.Name, start)
			if class := s.PodReady(milan, story.Twin("local"), pod.Name, start).Spec.RuntimeClassName; class != nil {
				s.Errorf("pod %s is of runtime class %s in milan", pod.Name, *class)
			}
			s.Must(rome.Delete(s.Context(), pod))
		}
		for _, pod := range []*corev1.Pod{tolerates, classed} {
			s.Gone(rome, pod, start)
		}
	})
	s.Step("LocalAndRemote, and a selector: at home or in naples, not in milan", func() {
		s.Offload("either", "--selector", api.LabelRemoteClusterID+"=naples")
		for _, node := range []string{"naples", rome.Node(), "milan"} {
			s.Must(rome.Create(s.Context(), story.PodOn(node, "either", "on-"+node, playground.TestServer)))
		}
		s.PodReady(rome, "either", "on-naples", start)
		s.PodReady(rome, "either", "on-"+rome.Node(), start)
		waits(s, rome, "either", "on-milan")
		offloaded(s, "either", offloadingv1beta1.PhaseReady, map[string]string{
			"milan": offloadingv1beta1.ReasonClusterNotSelected, "naples": offloadingv1beta1.ReasonNamespaceCreated,
		})
		absent(s, milan, story.Twin("either"))
	})
	s.Step("a selector that no cluster meets: it says so, and pods stay at home", func() {
		s.Namespace("nobody", nil)
		s.Must(rome.Create(s.Context(), offloading("nobody", offloadingv1beta1.NamespaceOffloadingSpec{ClusterSelector: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}},
			}}},
		}})))
		offloaded(s, "nobody", offloadingv1beta1.PhaseNoClusterSelected, map[string]string{
			"milan": offloadingv1beta1.ReasonClusterNotSelected, "naples": offloadingv1beta1.ReasonClusterNotSelected,
		})
		s.Must(rome.Create(s.Context(), anywhere("nobody", 1)))
		runOn(s, s.PodsReady(rome, "nobody", 1, start), rome.Node())
	})
	s.Step("SelectedName: the twins are called so", func() {
		s.Offload("selected", "--namespace-mapping-strategy", "SelectedName", "--remote-namespace-name", "chosen")
		s.Must(rome.Create(s.Context(), story.PodOn("milan", "selected", "web", playground.TestServer)))
		s.PodReady(rome, "selected", "web", start)
		s.PodReady(milan, "chosen", "web", start)
		for _, c := range []*playground.Cluster{milan, naples} {
			s.Must(c.Get(s.Context(), key("chosen"), &corev1.Namespace{}))
			absent(s, c, story.Twin("selected"))
		}
	})
	s.Step("what tolerates everything stays home where nobody may leave, though virtual nodes have more room", func() {
		s.Namespace("home", nil)
		for _, ns := range []string{"home", "local"} {
			dns := anywhere(ns, 2)
			dns.Name = "dns"
			dns.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			dns.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: api.LabelType, Operator: corev1.NodeSelectorOpIn, Values: []string{api.TypeVirtualNode}},
				}},
			}}}}
			s.Must(rome.Create(s.Context(), dns))
		}
		runOn(s, s.PodsReady(rome, "home", 2, start), rome.Node())
		s.Must(rome.DeleteAllOf(s.Context(), &appsv1.Deployment{}, client.InNamespace("home")))
		s.Eventually(start, "the pods of namespace local to be on real nodes, but for the one that waits", func(context.Context) error {
			placed := slices.DeleteFunc(s.Pods(rome, "local"), func(p corev1.Pod) bool { return p.Name == "insists" })
			if len(placed) != 4 || slices.ContainsFunc(placed, func(p corev1.Pod) bool { return p.Spec.NodeName == "" }) {
				return fmt.Errorf("pods %v", story.Names(placed))
			}
			runOn(s, placed, rome.Node())
			return nil
		})
	})
	s.Step("a namespace that milan has already is not taken, and naples gets its twin", func() {
		theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
		s.Must(milan.Create(s.Context(), theirs))
		s.Namespace("taken", nil)
		s.Must(rome.Create(s.Context(), offloading("taken", offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: offloadingv1beta1.EnforceSameName})))
		offloaded(s, "taken", offloadingv1beta1.PhaseSomeFailed, map[string]string{
			"milan": offloadingv1beta1.ReasonCreationLoopBackOff, "naples": offloadingv1beta1.ReasonNamespaceCreated,
		})
		var now corev1.Namespace
		s.Must(milan.Get(s.Context(), key("taken"), &now))
		if now.UID != theirs.UID || now.ResourceVersion != theirs.ResourceVersion || now.DeletionTimestamp != nil {
			s.Errorf("milan's own namespace was touched: %+v", now.ObjectMeta)
		}
		s.Must(milan.Delete(s.Context(), theirs))
		offloaded(s, "taken", offloadingv1beta1.PhaseReady, map[string]string{
			"milan": offloadingv1beta1.ReasonNamespaceCreated, "naples": offloadingv1beta1.ReasonNamespaceCreated,
		})
	})
	s.Step("pods of a namespace that is about to be offloaded are refused until it is", func() {
		s.Namespace("early", map[string]string{offloadingv1beta1.LabelSchedulingEnabled: api.True})
		pod := story.PodOn("milan", "early", "early", playground.TestServer)
		if err := rome.Create(s.Context(), pod.DeepCopy()); err == nil || apierrors.IsAlreadyExists(err) {
			s.Fatalf("the pod was admitted though nobody knows yet where it may run: %v", err)
		}
		_, err := s.Liqoctl(s.Context(), "offload", "namespace", "early", "--kubeconfig", rome.Kubeconfig)
		s.Must(err)
		s.Eventually(start, "the pod to be admitted", func(ctx context.Context) error { return rome.Create(ctx, pod.DeepCopy()) })
		s.PodReady(rome, "early", "early", start)
	})
	s.Step("taken back", func() {
		all := []string{"remote", "local", "either", "nobody", "selected", "taken", "early"}
		for _, ns := range append(all, "home") {
			s.Must(rome.DeleteAllOf(s.Context(), &appsv1.Deployment{}, client.InNamespace(ns)))
			s.Must(rome.DeleteAllOf(s.Context(), &corev1.Pod{}, client.InNamespace(ns), client.GracePeriodSeconds(1)))
		}
		for _, ns := range all {
			s.PodsReady(rome, ns, 0, start)
		}
		_, err := s.Liqoctl(s.Context(), append([]string{"unoffload", "namespace", "--kubeconfig", rome.Kubeconfig}, all...)...)
		s.Must(err)
		for _, ns := range all {
			for _, c := range []*playground.Cluster{milan, naples} {
				absent(s, c, ns)
				absent(s, c, story.Twin(ns))
			}
		}
		absent(s, milan, "chosen")
		absent(s, naples, "chosen")
	})
}

func offloading(namespace string, spec offloadingv1beta1.NamespaceOffloadingSpec) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}, Spec: spec,
	}
}

// anywhere returns a Deployment whose pods request no particular node.
func anywhere(namespace string, replicas int32) *appsv1.Deployment {
	d := story.DeploymentOn("", namespace, "web", replicas, playground.TestServer)
	d.Spec.Template.Spec.NodeSelector = nil
	return d
}

func runOn(s *story.Story, pods []corev1.Pod, node string) {
	s.Helper()
	for _, pod := range pods {
		if pod.Spec.NodeName != node {
			s.Errorf("pod %s/%s runs on %s, want %s", pod.Namespace, pod.Name, pod.Spec.NodeName, node)
		}
	}
}

// waits checks that no node fits a pod, and that the scheduler reports this.
func waits(s *story.Story, c *playground.Cluster, namespace, name string) {
	s.Helper()
	s.Eventually(start, "pod "+name+" to wait for a node", func(ctx) error {
		pod := s.Pod(c, namespace, name)
		if pod.Spec.NodeName != "" {
			s.Fatalf("pod %s/%s is on node %s", namespace, name, pod.Spec.NodeName)
		}
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}) {
			return fmt.Errorf("conditions %v", pod.Status.Conditions)
		}
		return nil
	})
}

func absent(s *story.Story, c *playground.Cluster, namespace string) {
	s.Helper()
	if err := c.Get(s.Context(), key(namespace), &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		s.Errorf("%s has a namespace %s: %v", c.ID, namespace, err)
	}
}

// offloaded waits until a NamespaceOffloading is in a phase, for a reason in each cluster.
func offloaded(s *story.Story, namespace string, phase offloadingv1beta1.OffloadingPhase, reasons map[string]string) {
	s.Helper()
	s.Eventually(time.Minute, fmt.Sprintf("namespace %s to be %s", namespace, phase), func(ctx context.Context) error {
		var object offloadingv1beta1.NamespaceOffloading
		if err := s.Rome.Get(ctx, client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}, &object); err != nil {
			return err
		}
		if object.Status.OffloadingPhase != phase {
			return fmt.Errorf("its status is %+v", object.Status)
		}
		for id, reason := range reasons {
			if !slices.ContainsFunc(object.Status.RemoteNamespacesConditions[id], func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
				return c.Reason == reason
			}) {
				return fmt.Errorf("cluster %s: %+v, want %s", id, object.Status.RemoteNamespacesConditions[id], reason)
			}
		}
		return nil
	})
}
