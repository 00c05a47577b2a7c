package fakekubelet

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var (
	start   = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	host    = netip.MustParseAddr("198.18.0.1")
	address = netip.MustParseAddr("10.192.0.5")
)

func newPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Generation: 1},
		Spec: corev1.PodSpec{
			NodeName:      "fake-0",
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "a", Image: "a:v1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// after returns the pod as it is once the status of this moment was written.
func after(pod *corev1.Pod, now time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status = statusOf(pod, now, host, address)
	return pod
}

func once(complete string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Annotations = map[string]string{CompleteAfter: complete}
	}
}

func with(kind corev1.PodConditionType, value corev1.ConditionStatus) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: value})
	}
}

func gated(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
}

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(start)) }

func manyContainers(pod *corev1.Pod) {
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "beside", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "guest"}}}
}

// summary is a status in one line per part.
func summary(status corev1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s on %s\n", status.Phase, status.PodIP, status.HostIP)
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for _, c := range list {
			state := "?"
			switch {
			case c.State.Running != nil:
				state = "runs since " + c.State.Running.StartedAt.Format("05")
			case c.State.Terminated != nil:
				state = fmt.Sprintf("ended at %s with %d", c.State.Terminated.FinishedAt.Format("05"), c.State.Terminated.ExitCode)
			}
			fmt.Fprintf(&b, "%s %s ready=%t started=%t restarts=%d\n", c.Name, state, c.Ready, c.Started != nil && *c.Started, c.RestartCount)
		}
	}
	for _, c := range status.Conditions {
		fmt.Fprintf(&b, "%s=%s", c.Type, c.Status)
		if c.Reason != "" {
			fmt.Fprintf(&b, "(%s)", c.Reason)
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

func TestStatusOf(t *testing.T) {
	later := start.Add(10 * time.Second)
	const ready = "PodReadyToStartContainers=True Initialized=True Ready=True ContainersReady=True PodScheduled=True"
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		now  time.Time
		want string
	}{
		"a new pod runs": {newPod(), start,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 05 ready=true started=true restarts=0\n" + ready},
		"times stay": {after(newPod(), start), later,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 05 ready=true started=true restarts=0\n" + ready},
		"all kinds of containers": {newPod(manyContainers), start,
			"Running 10.192.0.5 on 198.18.0.1\ninit ended at 05 with 0 ready=true started=false restarts=0\nbeside runs since 05 ready=true started=true restarts=0\n" +
				"a runs since 05 ready=true started=true restarts=0\nguest runs since 05 ready=false started=false restarts=0\n" + ready},
		"a gate that is closed": {newPod(gated), start,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 05 ready=true started=true restarts=0\n" +
				"PodReadyToStartContainers=True Initialized=True Ready=False(ReadinessGatesNotReady) ContainersReady=True PodScheduled=True"},
		"a gate that is open": {newPod(gated, with("gate", corev1.ConditionTrue)), start,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 05 ready=true started=true restarts=0\ngate=True " + ready},
		"a new image": {func() *corev1.Pod { p := after(newPod(), start); p.Spec.Containers[0].Image = "a:v2"; return p }(), later,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 15 ready=true started=true restarts=1\n" + ready},
		"not complete yet": {after(newPod(once("2s")), start), start.Add(2 * time.Second),
			"Running 10.192.0.5 on 198.18.0.1\na runs since 05 ready=true started=true restarts=0\n" + ready},
		"complete": {after(newPod(once("2s"), manyContainers), start), start.Add(2400 * time.Millisecond),
			"Succeeded 10.192.0.5 on 198.18.0.1\ninit ended at 05 with 0 ready=true started=false restarts=0\nbeside ended at 08 with 0 ready=false started=false restarts=0\n" +
				"a ended at 08 with 0 ready=false started=false restarts=0\nguest ended at 08 with 0 ready=false started=false restarts=0\n" +
				"PodReadyToStartContainers=False Initialized=True(PodCompleted) Ready=False(PodCompleted) ContainersReady=False(PodCompleted) PodScheduled=True"},
		"a pod that restarts never completes": {newPod(once("0s"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }), later,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 15 ready=true started=true restarts=0\n" + ready},
		"an annotation that is no duration": {newPod(once("soon")), later,
			"Running 10.192.0.5 on 198.18.0.1\na runs since 15 ready=true started=true restarts=0\n" + ready},
		"deleted": {func() *corev1.Pod { p := after(newPod(), start); deleting(p); return p }(), later,
			"Failed 10.192.0.5 on 198.18.0.1\na ended at 15 with 143 ready=false started=false restarts=0\n" +
				"PodReadyToStartContainers=False Initialized=True Ready=False(PodFailed) ContainersReady=False(PodFailed) PodScheduled=True"},
		"deleted after its end": {func() *corev1.Pod {
			p := after(after(newPod(once("0s")), start), later)
			deleting(p)
			return p
		}(), later.Add(time.Hour),
			"Succeeded 10.192.0.5 on 198.18.0.1\na ended at 15 with 0 ready=false started=false restarts=0\n" +
				"PodReadyToStartContainers=False Initialized=True(PodCompleted) Ready=False(PodCompleted) ContainersReady=False(PodCompleted) PodScheduled=True"},
	} {
		t.Run(name, func(t *testing.T) {
			input := row.pod.DeepCopy()
			got := after(row.pod, row.now)
			if diff := cmp.Diff(row.want, summary(got.Status)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(input, row.pod); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
			if diff := cmp.Diff(got.Status, after(got, row.now.Add(100*time.Millisecond)).Status); diff != "" {
				t.Errorf("the status of the same pod changes: %s", diff)
			}
			// What is written comes back from the server with times to the second.
			data, err := json.Marshal(got.Status)
			if err != nil {
				t.Fatal(err)
			}
			var back corev1.PodStatus
			if err := json.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Status, back); diff != "" {
				t.Errorf("the status changes on its way: %s", diff)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		want time.Duration // from the whole second of the start
	}{
		"none":          {newPod(), -1},
		"at once":       {newPod(once("0s")), time.Second},
		"two seconds":   {newPod(once("2s")), 3 * time.Second},
		"in the past":   {newPod(once("-2s")), -1},
		"never restart": {newPod(once("1ms")), time.Second + time.Millisecond},
	} {
		got, ok := completion(row.pod, start)
		if ok != (row.want >= 0) || ok && got.Sub(start.Truncate(time.Second)) != row.want {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
}

func TestAddresses(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/29"))
	a.keep("kept", netip.MustParseAddr("10.0.0.3"))
	a.keep("thief", netip.MustParseAddr("10.0.0.3"))
	get := func(pod string) string {
		got, ok := a.of(types.UID(pod))
		if !ok {
			return "none"
		}
		return got.String()
	}
	var got []string
	for _, pod := range []string{"p1", "p2", "p1", "p3", "p4", "p5", "p6", "kept"} {
		got = append(got, get(pod))
	}
	want := []string{"10.0.0.2", "10.0.0.4", "10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.1", "none", "10.0.0.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	a.free("p5")
	a.free("unknown")
	if got := get("p6"); got != "10.0.0.1" {
		t.Error(got)
	}
}
