package reflection_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/apitest"
)

const consumerID, providerID = "rome", "milan"

// TestEngineOnAPIServers runs its subtests one after the other on two shared API servers. Each has its own namespaces and its own node.
func TestEngineOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	for name, test := range map[string]func(*testing.T, *world){
		"pods run and are deleted":          podsRunAndGo,
		"killed at random":                  killedAtRandom,
		"a partition deletes nothing":       partitionIsNotAbsence,
		"drained by the provider":           drainedByTheProvider,
		"a namespace that is not offloaded": namespaceNotOffloaded,
		"a foreign ShadowPod stays":         foreignShadowPodStays,
		"any request may fail":              anyRequestMayFail,
		"labels are copied, others stay":    metadataFollows,
		"a refused change blocks no other":  refusedChangeIsOne,
		"recreated remote pods":             whatHasEndedBeginsAnew,
		"services follow":                   servicesFollow,
		"endpoints follow":                  endpointsFollow,
		"unexposed endpoints":               endpointsExposed,
		"copies, killed at random":          copiesKilledAtRandom,
		"copies, a partition":               copiesPartition,
		"copies, foreign ones stay":         copiesForeign,
		"copies, any request may fail":      copiesAnyRequestMayFail,
		"copies, one writer":                copiesOneDoesIt,
		"copies, not requested":             copiesNotAskedFor,
		"plain copies follow":               plainCopiesFollow,
		"events are copied back":            eventsComeBack,
		"events, a flood":                   eventsFlood,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, near, far)) })
	}
}

// anyRequestMayFail runs the whole life of a pod repeatedly. Each time another request of the engine fails, either before or after it took effect.
func anyRequestMayFail(t *testing.T, w *world) {
	var mu sync.Mutex
	requests, victim, after := 0, -1, false
	w.fail = func(isAfter bool) error {
		mu.Lock()
		defer mu.Unlock()
		if isAfter != after {
			return nil
		}
		requests++
		if requests-1 == victim {
			return errors.New("the link is gone")
		}
		return nil
	}
	w.start()
	for n := 0; ; n++ {
		mu.Lock()
		requests, victim, after = 0, n/2, n%2 == 1
		mu.Unlock()
		w.pod("web-0")
		w.waitReady(1)
		w.deleteAll()
		w.waitGone()
		mu.Lock()
		done := requests <= victim // the request that should have failed was never sent, so all requests have been tried
		mu.Unlock()
		if done {
			if n < 8 {
				t.Errorf("only %d faults were tried", n)
			}
			t.Logf("%d faults", n)
			break
		}
	}
	for name, n := range w.created {
		if n == 0 {
			t.Errorf("ShadowPod %s was not created", name)
		}
	}
}

// metadataFollows changes labels on both sides: the origin's labels are copied, and labels of others stay.
func metadataFollows(t *testing.T, w *world) {
	w.start()
	pod := w.pod("web-0")
	w.waitReady(1)
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0"}}
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow); err != nil {
		t.Fatal(err)
	}
	theirs := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"policy":"checked"}}}`))
	if err := w.far.Patch(t.Context(), shadow, theirs); err != nil {
		t.Fatal(err)
	}
	ours := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":null,"color":"red"},"annotations":{"note":"x"}}}`))
	if err := w.near.Patch(t.Context(), pod, ours); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 10*time.Second, "the labels to follow", func() error {
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow); err != nil {
			return err
		}
		_, app := shadow.Labels["app"]
		if app || shadow.Labels["color"] != "red" || shadow.Labels["policy"] != "checked" || shadow.Annotations["note"] != "x" {
			return fmt.Errorf("labels %v, annotations %v", shadow.Labels, shadow.Annotations)
		}
		return nil
	})
}

// refusedChangeIsOne adds an ephemeral container that the provider refuses and that can't be removed. Other changes, made together with it and later,
// must still be applied.
func refusedChangeIsOne(t *testing.T, w *world) {
	id := metav1.ObjectMeta{Name: w.twinNS}
	w.create(w.far, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: id, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{offloadingv1beta1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"shadowpods"}},
		}}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "here", Expression: "request.namespace == '" + w.twinNS + "'"}},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "object.spec.pod.?ephemeralContainers.orValue([]).all(c, c.name != 'greedy')", Message: "greedy is refused",
		}},
	}})
	w.create(w.far, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: id, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: w.twinNS, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}})
	debugging := func(name string) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: name, Image: "debug:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}
	}
	apitest.Eventually(t, 30*time.Second, "the policy to be in force", func() error {
		greedy := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "greedy"}}
		greedy.Spec.Pod.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
		greedy.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{debugging("greedy")}
		if err := w.far.Create(t.Context(), greedy, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "greedy is refused") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	w.start()
	pod := w.pod("web-0")
	w.waitReady(1)
	change := func(image string, debug ...string) {
		t.Helper()
		// The engine writes the status of the pod, so conflicts are possible.
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			for _, name := range debug {
				pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, debugging(name))
			}
			return w.near.SubResource("ephemeralcontainers").Update(t.Context(), pod)
		}); err != nil {
			t.Fatal(err)
		}
		w.change(pod, func() { pod.Spec.Containers[0].Image = image })
	}
	follow := func(image string, debug ...string) {
		t.Helper()
		shadow := &offloadingv1beta1.ShadowPod{}
		w.there(shadow, pod.Name, "what is allowed to follow", func() error {
			var names []string
			for _, c := range shadow.Spec.Pod.EphemeralContainers {
				names = append(names, c.Name)
			}
			if got := shadow.Spec.Pod.Containers[0].Image; got != image || !slices.Equal(names, debug) {
				return fmt.Errorf("image %s, for debugging %v", got, names)
			}
			return nil
		})
	}
	change("web:2", "greedy", "harmless")
	follow("web:2", "harmless")
	change("web:3", "late")
	follow("web:3", "harmless", "late")
	apitest.Eventually(t, 30*time.Second, "the user to be told", func() error {
		if !w.heard("ephemeralContainers/greedy") {
			return fmt.Errorf("told: %q", w.warnings)
		}
		return nil
	})
	if w.heard("harmless") || w.heard("late") {
		t.Errorf("told: %q", w.warnings)
	}
}

// whatHasEndedBeginsAnew: a recreated remote Pod has containers that have not terminated. Kubernetes rejects that in a status update after the containers have
// terminated, so the engine must omit them first.
func whatHasEndedBeginsAnew(t *testing.T, w *world) {
	w.start()
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "job"}, Spec: corev1.PodSpec{
		NodeName: w.nodeName, AutomountServiceAccountToken: &no, RestartPolicy: corev1.RestartPolicyOnFailure,
		InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}}, Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
	}}
	w.create(w.near, pod)
	w.waitReady(1)
	w.preparing.Store(true)
	w.link.cut() // so that the first observed status of the new Pod already contains container statuses
	if err := w.far.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: pod.Name}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	again := &corev1.Pod{}
	w.there(again, pod.Name, "another pod", func() error {
		if s := again.Status.InitContainerStatuses; len(s) != 1 || s[0].State.Running == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	w.link.heal()
	apitest.Eventually(t, 20*time.Second, "the new pod to be shown", func() error {
		if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if s := pod.Status; len(s.InitContainerStatuses) != 1 || s.InitContainerStatuses[0].State.Running == nil || s.InitContainerStatuses[0].RestartCount != 1 ||
			len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("%+v, %+v", s.InitContainerStatuses, s.ContainerStatuses)
		}
		return nil
	})
}

func podsRunAndGo(t *testing.T, w *world) {
	w.start()
	for i := range 20 {
		w.pod(fmt.Sprintf("web-%d", i))
	}
	w.waitReady(20)
	if n := w.farWrites.Load(); n != 20 {
		t.Errorf("%d writes in the provider for 20 pods", n)
	}
	if n := w.nearWrites.Load(); n > 20 {
		t.Errorf("%d writes in the consumer for 20 pods that were ready within the grace", n)
	}
	pod := &corev1.Pod{}
	if err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: "web-3"}, pod); err != nil {
		t.Fatal(err)
	}
	if s := pod.Status; s.PodIP != "10.0.0.7" || s.HostIP != "192.0.2.1" || s.Phase != corev1.PodRunning {
		t.Errorf("status %+v", s)
	}
	w.deleteAll()
	w.waitGone()
}

func killedAtRandom(t *testing.T, w *world) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const pods = 50
	stop := w.start()
	for i := range pods {
		w.pod(fmt.Sprintf("web-%d", i))
		if random.IntN(6) == 0 {
			stop()
			stop = w.start()
		}
	}
	w.waitReady(pods)
	for name, n := range w.created {
		if n != 1 {
			t.Errorf("ShadowPod %s was created %d times", name, n)
		}
	}
	w.deleteAll()
	for range 5 {
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		stop()
		stop = w.start()
	}
	w.waitGone()
}

func partitionIsNotAbsence(t *testing.T, w *world) {
	w.start()
	for i := range 5 {
		w.pod(fmt.Sprintf("web-%d", i))
	}
	w.waitReady(5)
	w.link.cut()
	w.pod("late")
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "web-0"}}
	if err := w.near.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	var pods corev1.PodList
	if err := w.near.List(t.Context(), &pods, client.InNamespace(w.localNS)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 6 {
		t.Fatalf("%d pods of 6 while the provider can't be reached", len(pods.Items))
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodFailed {
			t.Errorf("pod %s failed because the provider can't be reached", pod.Name)
		}
	}
	// Meanwhile a remote pod is lost and recreated.
	if err := w.far.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-1"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // its successor starts in another second
	w.link.heal()
	w.waitReady(5) // web-1..4 and late
	pod := &corev1.Pod{}
	apitest.Eventually(t, 10*time.Second, "the restart to be counted", func() error {
		if err := w.near.Get(t.Context(), client.ObjectKey{Namespace: w.localNS, Name: "web-1"}, pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("container statuses %+v", pod.Status.ContainerStatuses)
		}
		return nil
	})
	apitest.Eventually(t, 10*time.Second, "web-0 to be gone", func() error {
		if err := w.near.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err == nil {
			return fmt.Errorf("it is there: %v", gone.DeletionTimestamp)
		}
		return nil
	})
}

func drainedByTheProvider(t *testing.T, w *world) {
	w.start()
	w.pod("web-0")
	w.waitReady(1)
	if err := w.far.Delete(t.Context(), &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0"}}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, 10*time.Second, "the pod to fail", func() error {
		n, err := w.count(func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodFailed && p.Status.Reason == offloadingv1beta1.PodOffloadingAborted
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d did", n)
		}
		return err
	})
}

func namespaceNotOffloaded(t *testing.T, w *world) {
	w.mapNamespace("")
	w.start()
	w.pod("web-0")
	refused := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Reason == offloadingv1beta1.PodOffloadingBackOff
	}
	apitest.Eventually(t, 10*time.Second, "the pod to be refused", func() error {
		n, err := w.count(refused)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
	w.mapNamespace(offloadingv1beta1.MappingAccepted)
	w.waitReady(1)
}

func foreignShadowPodStays(t *testing.T, w *world) {
	other := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: "web-0", Labels: map[string]string{api.LabelOrigin: "naples"}}}
	other.Spec.Pod.Containers = []corev1.Container{{Name: "x", Image: "x"}}
	w.create(w.far, other)
	w.start()
	w.pod("web-0")
	apitest.Eventually(t, 10*time.Second, "the pod to be refused", func() error {
		n, err := w.count(func(p *corev1.Pod) bool { return p.Status.Reason == offloadingv1beta1.PodOffloadingBackOff })
		if err == nil && n != 1 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
	w.deleteAll()
	apitest.Eventually(t, 10*time.Second, "the pod to be gone", func() error {
		n, err := w.count(func(*corev1.Pod) bool { return true })
		if err == nil && n != 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
	if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.DeletionTimestamp != nil {
		t.Errorf("the foreign ShadowPod was touched: %v, %v", err, other.DeletionTimestamp)
	}
}
