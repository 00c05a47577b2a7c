package podrules

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/fieldtest"
)

// TestEveryFieldOfAStatusHasARule checks all fields of a PodStatus: each is copied from the provider, kept from the local Pod, or computed.
func TestEveryFieldOfAStatusHasARule(t *testing.T) {
	const remote, local, made = "remote", "local", "made"
	rules := map[string]string{
		"Phase": remote, "Message": remote, "Reason": remote, "PodIP": remote, "PodIPs": remote, "StartTime": remote, "Conditions": remote,
		"InitContainerStatuses": remote, "ContainerStatuses": remote, "Resize": remote, "AllocatedResources": remote, "Resources": remote,
		"VolumeHealth":                         remote,
		"NodeAllocatableResourceClaimStatuses": local, "NominatedNodeName": local, "QOSClass": local, "EphemeralContainerStatuses": remote, "ResourceClaimStatuses": local, "ExtendedResourceClaimStatus": local,
		"HostIP": made, "HostIPs": made, "ObservedGeneration": made,
	}
	for field := range reflect.TypeFor[corev1.PodStatus]().Fields() {
		t.Run(field.Name, func(t *testing.T) {
			theirs, ours := pod(nil), pod(nil)
			if field.Name == "Conditions" { // the observed generations in the conditions become the local generation
				ours.Generation = 7
			}
			fieldtest.Fill(reflect.ValueOf(&theirs.Status).Elem().FieldByName(field.Name))
			out := reflect.ValueOf(PodStatus(ours, theirs, options).Status).FieldByName(field.Name)
			want := reflect.ValueOf(theirs.Status).FieldByName(field.Name)
			switch rules[field.Name] {
			case remote:
				if diff := cmp.Diff(want.Interface(), out.Interface()); diff != "" {
					t.Error(diff)
				}
			case local:
				if !out.IsZero() {
					t.Errorf("taken over: %v", out.Interface())
				}
			case made:
				if reflect.DeepEqual(want.Interface(), out.Interface()) {
					t.Errorf("taken over: %v", out.Interface())
				}
			default:
				t.Error("a field without a rule: decide where it comes from")
			}
		})
	}
}

func running(restarts int32, created, started time.Time) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(created)
		start := metav1.NewTime(started)
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.0.9", PodIPs: []corev1.PodIP{{IP: "10.1.0.9"}, {IP: "fd00::9"}}, HostIP: "192.0.2.9", StartTime: &start,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}
	})
}

func ready(p *corev1.Pod) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func TestPodStatus(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	remote := running(0, t0, t0.Add(time.Second))

	out := PodStatus(pod(nil), remote, options)
	if out.Labels[offloadingv1beta1.LabelShadowPod] != "true" || !Offloaded(out) || out.Status.HostIP != "10.0.0.1" || len(out.Status.PodIPs) != 2 || ready(out) != corev1.ConditionTrue {
		t.Errorf("labels %v, status %+v", out.Labels, out.Status)
	}
	if again := PodStatus(out, remote, options); !reflect.DeepEqual(out, again) {
		t.Errorf("it never settles: %s", cmp.Diff(out, again))
	}

	t.Run("translated address", func(t *testing.T) {
		o := options
		o.TranslateIP = func(string) (string, error) { return "172.16.0.9", nil }
		if s := PodStatus(pod(nil), remote, o).Status; s.PodIP != "172.16.0.9" || len(s.PodIPs) != 1 || s.PodIPs[0].IP != s.PodIP {
			t.Errorf("%s %v", s.PodIP, s.PodIPs)
		}
		for _, problem := range []error{nil, errors.New("it is a loopback address")} {
			o.TranslateIP = func(string) (string, error) { return "127.0.0.1", problem }
			if problem == nil {
				o.TranslateIP = func(string) (string, error) { return "", nil }
			}
			if s := PodStatus(pod(nil), remote, o).Status; s.PodIP != "" || len(s.PodIPs) != 0 {
				t.Errorf("%s %v", s.PodIP, s.PodIPs)
			}
			if got := AddressProblem(remote, o); !errors.Is(got, problem) {
				t.Errorf("problem %v, want %v", got, problem)
			}
		}
	})
	t.Run("several addresses", func(t *testing.T) {
		o := options
		o.TranslateIP = func(string) (string, error) { return "", nil }
		forged := running(0, t0, t0)
		forged.Status.PodIP, forged.Status.PodIPs = "", []corev1.PodIP{{IP: "10.96.0.10"}}
		if s := PodStatus(pod(nil), forged, o).Status; s.PodIP != "" || len(s.PodIPs) != 0 {
			t.Errorf("%q %v", s.PodIP, s.PodIPs)
		}
	})
	t.Run("generations without a value", func(t *testing.T) {
		told := running(0, t0, t0)
		told.Status.ObservedGeneration, told.Status.Conditions[0].ObservedGeneration = 1, 1
		local := pod(func(p *corev1.Pod) { p.Generation = 3 })
		local.Status = PodStatus(local, told, options).Status
		for name, again := range map[string]*corev1.Pod{"told": told, "not told": remote} { // an API server keeps observed generations that a later status omits
			if s := PodStatus(local, again, options).Status; s.ObservedGeneration != 3 || s.Conditions[0].ObservedGeneration != 3 || s.Conditions[1].ObservedGeneration != 0 {
				t.Errorf("%s: %d, conditions %+v", name, s.ObservedGeneration, s.Conditions)
			}
		}
	})
	t.Run("conditions of others", func(t *testing.T) {
		local := pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "lb.example/attached", Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized}}
		})
		var types []corev1.PodConditionType
		for _, c := range PodStatus(local, remote, options).Status.Conditions {
			types = append(types, c.Type)
		}
		if diff := cmp.Diff([]corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, "lb.example/attached"}, types); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("remote unavailable", func(t *testing.T) {
		o := options
		o.Unavailable = true
		for name, got := range map[string]*corev1.Pod{"by its remote pod": PodStatus(out, remote, o), "without it": Unreachable(out)} {
			if ready(got) != corev1.ConditionFalse || got.Status.Phase != corev1.PodRunning || got.Labels[LabelRemoteUnavailable] != "true" {
				t.Errorf("%s: labels %v, status %+v", name, got.Labels, got.Status)
			}
			if again := PodStatus(got, remote, o); !reflect.DeepEqual(got, again) {
				t.Errorf("%s, it never settles: %s", name, cmp.Diff(got, again))
			}
			if back := PodStatus(got, remote, options); !reflect.DeepEqual(back, out) {
				t.Errorf("%s, it does not come back: %s", name, cmp.Diff(out, back))
			}
		}
		ended := running(0, t0, t0.Add(time.Second))
		ended.Status.Phase = corev1.PodSucceeded
		if got := PodStatus(out, ended, o); got.Labels[LabelRemoteUnavailable] != "" {
			t.Errorf("a pod that has ended keeps the label for ever: %v", got.Labels)
		}
	})
	t.Run("recreated", func(t *testing.T) {
		local, dying := out.DeepCopy(), remote.DeepCopy()
		local.Status.ContainerStatuses[0].RestartCount = 2
		dying.DeletionTimestamp, dying.Status.Phase = &metav1.Time{Time: t0}, corev1.PodFailed
		got := PodStatus(local, dying, options)
		if got.Status.Phase != corev1.PodRunning || ready(got) != corev1.ConditionFalse {
			t.Errorf("while it is replaced: %+v", got.Status)
		}
		next := running(1, t0, t0) // the start time is not later than before, because the node's clock is wrong
		next.UID = "p2"
		got = PodStatus(got, next, options)
		if n := got.Status.ContainerStatuses[0].RestartCount; n != 4 || got.Annotations[AnnotationRestarts] != "c=3" {
			t.Errorf("%d restarts, %v", n, got.Annotations)
		}
		if again := PodStatus(got, next, options); !reflect.DeepEqual(got, again) {
			t.Errorf("it never settles: %s", cmp.Diff(got, again))
		}
	})
	t.Run("recreated before it started", func(t *testing.T) {
		local := out.DeepCopy()
		local.Spec.RestartPolicy = corev1.RestartPolicyAlways
		for i, uid := range []types.UID{"p2", "p3", "p4"} {
			next := running(0, t0, t0)
			if next.UID = uid; uid == "p3" {
				next.Status = corev1.PodStatus{Phase: corev1.PodPending}
			}
			local = PodStatus(local, next, options)
			want := int32(i + 1)
			if uid == "p4" { // the former Pod p3 never had a running container, so its end is no restart
				want--
			}
			if s := local.Status.ContainerStatuses; len(s) != 1 || s[0].Name != "c" || s[0].RestartCount != want || s[0].Ready != (uid != "p3") {
				t.Errorf("%s: %+v, want %d restarts", uid, s, want)
			}
			if again := PodStatus(local, next, options); !equality.Semantic.DeepEqual(again, local) {
				t.Errorf("%s: it never settles: %s", uid, cmp.Diff(local, again))
			}
		}
	})
	t.Run("recreated while it crashed", func(t *testing.T) {
		local, next := out.DeepCopy(), running(0, t0, t0)
		local.Spec.RestartPolicy = corev1.RestartPolicyAlways
		next.UID, next.Status = "p2", corev1.PodStatus{Phase: corev1.PodPending}
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
		local.Status.ContainerStatuses[0].ContainerID = ""
		local.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		local.Status.ContainerStatuses[0].LastTerminationState, local.Status.ContainerStatuses[0].RestartCount = ended, 4
		local.Spec.InitContainers = []corev1.Container{{Name: "side"}}
		local.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "side", State: ended, RestartCount: 1}}
		got := PodStatus(local, next, options)
		if side, c := got.Status.InitContainerStatuses, got.Status.ContainerStatuses; len(side) != 1 || side[0].RestartCount != 2 || len(c) != 1 || c[0].RestartCount != 5 {
			t.Errorf("%+v, %+v", side, c)
		}
	})
	t.Run("recreated, with an end", func(t *testing.T) {
		local, next := out.DeepCopy(), running(0, t0, t0)
		local.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		local.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		local.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		next.UID, next.Status.InitContainerStatuses = "p2", []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
		for _, want := range []int{0, 1, 1} { // Kubernetes rejects leaving a terminal state, but accepts a new value of it
			if local = PodStatus(local, next, options); len(local.Status.InitContainerStatuses) != want || local.Status.ContainerStatuses[0].RestartCount != 1 {
				t.Errorf("%+v, want %d init containers", local.Status, want)
			}
		}
		// A container's own restart policy overrides that of the Pod.
		other := local.DeepCopy()
		other.Spec.RestartPolicy = corev1.RestartPolicyAlways
		other.Spec.InitContainers = []corev1.Container{{Name: "init", RestartPolicy: new(corev1.ContainerRestartPolicyNever)}}
		other.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		other.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		next.UID = "p3"
		if got := PodStatus(other, next, options).Status; len(got.InitContainerStatuses) > 0 || len(got.ContainerStatuses) != 1 {
			t.Errorf("%+v", got)
		}
		next.Status = corev1.PodStatus{Phase: corev1.PodPending}
		if got := PodStatus(other, next, options).Status; len(got.InitContainerStatuses) > 0 || len(got.ContainerStatuses) != 1 {
			t.Errorf("of a pod that no node has taken: %+v", got)
		}
		if got := PodStatus(local, next, options); len(got.Status.InitContainerStatuses)+len(got.Status.ContainerStatuses) > 0 {
			t.Errorf("containers of a pod that no node has taken: %+v", got.Status)
		}
	})
	t.Run("resized", func(t *testing.T) {
		local, resizing := out.DeepCopy(), remote.DeepCopy()
		resizing.Status.Conditions = append(resizing.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
		if got := PodStatus(PodStatus(local, resizing, options), remote, options); !reflect.DeepEqual(got, out) {
			t.Errorf("the resize never ends: %s", cmp.Diff(out, got))
		}
	})
	t.Run("killed, and not to run twice", func(t *testing.T) {
		local, dying := out.DeepCopy(), remote.DeepCopy()
		local.Spec.RestartPolicy = corev1.RestartPolicyNever
		dying.DeletionTimestamp, dying.Status.Phase = &metav1.Time{Time: t0}, corev1.PodFailed
		if got := PodStatus(local, dying, options); got.Status.Phase != corev1.PodFailed {
			t.Errorf("%+v", got.Status)
		}
	})
	t.Run("completed while it is deleted", func(t *testing.T) {
		local, dying := out.DeepCopy(), remote.DeepCopy()
		local.Spec.RestartPolicy = corev1.RestartPolicyNever
		dying.DeletionTimestamp, dying.Status.Phase = &metav1.Time{Time: t0}, corev1.PodSucceeded
		if got := PodStatus(local, dying, options); got.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%+v", got.Status)
		}
	})
}

// endedShadow is the ShadowPod of an earlier release that recorded only the final phase.
func endedShadow(phase corev1.PodPhase) *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{Status: offloadingv1beta1.ShadowPodStatus{Phase: phase}}
}

func TestEnds(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	local := running(0, t0, t0)
	for _, test := range []struct {
		got      *corev1.Pod
		phase    corev1.PodPhase
		reason   string
		exitCode int32
	}{
		{Aborted(local, "m"), corev1.PodFailed, "OffloadingAborted", 1},
		{RemoteTerminated(local, endedShadow(corev1.PodSucceeded), options), corev1.PodSucceeded, "RemotePodTerminated", 0},
		{RemoteTerminated(local, endedShadow(corev1.PodFailed), options), corev1.PodFailed, "RemotePodTerminated", 1},
		{Aborted(pod(nil), "m"), corev1.PodFailed, "OffloadingAborted", 1}, // a pod without any reported container status
	} {
		s := test.got.Status
		if s.Phase != test.phase || s.Reason != test.reason || ready(test.got) == corev1.ConditionTrue || !api.PodFinished(test.got) {
			t.Errorf("%+v", s)
		}
		if len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].Ready || s.ContainerStatuses[0].State.Terminated == nil || s.ContainerStatuses[0].State.Terminated.ExitCode != test.exitCode {
			t.Errorf("containers %+v", s.ContainerStatuses)
		}
	}
	local.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "done", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "sidecar", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	for _, c := range Aborted(local, "m").Status.InitContainerStatuses {
		if c.State.Terminated == nil || (c.State.Terminated.ExitCode == 1) != (c.Name == "sidecar") {
			t.Errorf("init container %+v", c)
		}
	}
	if s := Refused(pod(nil), "m").Status; s.Phase != corev1.PodPending || s.Reason != "OffloadingBackOff" || s.Message != "m" {
		t.Errorf("%+v", s)
	}
}

func TestStarting(t *testing.T) {
	waiting := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	notReady := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	for name, test := range map[string]struct {
		s    corev1.PodStatus
		want bool
	}{
		"fresh":             {corev1.PodStatus{Phase: corev1.PodPending}, true},
		"creating":          {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ContainerCreating")}, true},
		"not ready yet":     {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: notReady}, true},
		"ready":             {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}, false},
		"no image":          {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ErrImagePull")}, false},
		"no node":           {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}, false},
		"restarted":         {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: notReady, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 1}}}, false},
		"a container ended": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: notReady, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}}, false},
		"failed":            {corev1.PodStatus{Phase: corev1.PodFailed}, false},
	} {
		if got := Starting(&test.s); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
