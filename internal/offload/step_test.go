package offload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

var (
	stepNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	stepPod = podrules.Options{Origin: "rome", Destination: "milan", Node: "node", HostIP: "10.0.0.1"}
)

func localPod(uid types.UID, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: uid, Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(stepNow.Add(-time.Minute))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(p)
	}
	return p
}

func labelled(p *corev1.Pod) {
	p.Labels[offloadingv1beta1.LabelShadowPod] = "true"
	p.Annotations = map[string]string{podrules.AnnotationOffloaded: string(p.UID)}
	p.Status.Phase = corev1.PodRunning
}

// pasted gives a new Pod the labels and annotations in the manifest of an offloaded Pod.
func pasted(p *corev1.Pod) {
	p.Labels[offloadingv1beta1.LabelShadowPod] = "true"
	p.Labels[offloadingv1beta1.LabelCreatorUser], p.Labels[offloadingv1beta1.LabelManagedBy] = "naples-0a1b", offloadingv1beta1.ManagedByShadowPod // of a Pod offloaded to here
	p.Annotations = map[string]string{
		podrules.AnnotationOffloaded: "u0", podrules.AnnotationRestarts: "c=7",
		podrules.AnnotationSpec: "image=1", podrules.AnnotationGates: "gate=True", podrules.AnnotationGrace: "0", // of a Pod offloaded to here
	}
}
func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: stepNow} }
func phase2(phase corev1.PodPhase, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { labelled(p); p.Status.Phase, p.Status.Reason = phase, reason }
}

func shadowFor(local *corev1.Pod, uid types.UID, change func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	s := podrules.ShadowPod(local, "shop-rome", stepPod)
	s.UID = uid
	if change != nil {
		change(s)
	}
	return s
}

func remoteFor(s *offloadingv1beta1.ShadowPod, change func(*corev1.Pod)) *corev1.Pod {
	p := Pod(s, PodMetadata{})
	p.UID, p.CreationTimestamp = "p-"+s.UID, metav1.NewTime(stepNow.Add(-time.Second))
	p.Status.Phase = corev1.PodPending
	if change != nil {
		change(p)
	}
	return p
}

func remoteRuns(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

// TestStepLawsByEnumeration covers every combination of states of the pod, its ShadowPod, the remote pod and the link.
func TestStepLawsByEnumeration(t *testing.T) {
	locals := map[string]*corev1.Pod{
		"none": nil, "new": localPod("u1", nil), "offloaded": localPod("u1", labelled), "deleting": localPod("u1", deleting),
		"offloaded, deleting": localPod("u1", func(p *corev1.Pod) { labelled(p); deleting(p) }),
		"held, deleting": localPod("u1", func(p *corev1.Pod) {
			labelled(p)
			deleting(p)
			p.Finalizers = []string{batchv1.JobTrackingFinalizer}
		}),
		"copy of another": localPod("u1", pasted),
		"succeeded":       localPod("u1", phase2(corev1.PodSucceeded, "")),
		"aborted":         localPod("u1", phase2(corev1.PodFailed, offloadingv1beta1.PodOffloadingAborted)),
		"refused":         localPod("u1", func(p *corev1.Pod) { p.Status.Reason = offloadingv1beta1.PodOffloadingBackOff }),
	}
	base := localPod("u1", nil)
	dying := func(s *offloadingv1beta1.ShadowPod) { s.DeletionTimestamp = &metav1.Time{Time: stepNow} }
	shadows := map[string]*offloadingv1beta1.ShadowPod{
		"none": nil, "ours": shadowFor(base, "s1", nil), "ours, deleting": shadowFor(base, "s1", dying),
		"of an earlier pod":           shadowFor(localPod("u0", nil), "s0", nil),
		"of an earlier pod, deleting": shadowFor(localPod("u0", nil), "s0", dying),
		"finished":                    shadowFor(base, "s1", func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
		"foreign":                     shadowFor(base, "f1", func(s *offloadingv1beta1.ShadowPod) { s.Labels = map[string]string{"x": "y"} }),
	}
	s1, s0 := shadows["ours"], shadows["of an earlier pod"]
	remotes := map[string]*corev1.Pod{
		"none": nil, "pending": remoteFor(s1, nil), "running": remoteFor(s1, remoteRuns),
		"terminating":             remoteFor(s1, func(p *corev1.Pod) { remoteRuns(p); deleting(p); p.Status.Phase = corev1.PodFailed }),
		"failed":                  remoteFor(s1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"of an earlier ShadowPod": remoteFor(s0, remoteRuns),
	}
	states := map[string]Mapping{
		"unknown": {}, "unmapped": {State: Unmapped}, "wanted": {State: MappingWanted},
		"mapped": {State: Mapped, Namespace: "shop-rome"}, "terminating": {State: MappingTerminating, Namespace: "shop-rome"},
	}
	tried := 0
	for ln, local := range locals {
		for sn, shadow := range shadows {
			for rn, remote := range remotes {
				for mn, mapping := range states {
					for _, synced := range []bool{false, true} {
						if synced && mapping.Namespace == "" {
							continue // without a remote namespace there is no cache that could be complete
						}
						if !synced && (shadow != nil || remote != nil) {
							continue // remote objects are unknown while the cache is incomplete
						}
						for _, unavailable := range []bool{false, true} {
							tried++
							name := fmt.Sprintf("local %s, shadow %s, remote %s, namespace %s, synced %v, unavailable %v", ln, sn, rn, mn, synced, unavailable)
							env := Env{Mapping: mapping, RemoteSynced: synced, Now: stepNow, Pod: stepPod}
							env.Pod.Unavailable = unavailable
							checkStep(t, name, local, shadow, remote, env)
						}
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d combinations", tried)
	}
}

// forgotten reports whether the local Pod has finished, but the provider did not record this, and runs the remote Pod or is about to recreate it.
func forgotten(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod) bool {
	return local != nil && api.PodFinished(local) && shadow != nil && !api.PhaseFinal(shadow.Status.Phase) && (remote == nil || !api.PodFinished(remote))
}

func checkStep(t *testing.T, name string, local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) {
	t.Helper()
	l, s, r := local.DeepCopy(), shadow.DeepCopy(), remote.DeepCopy()
	step := Next(local, shadow, remote, env)
	fail := func(why string) { t.Errorf("%s: %s (%s: %s)", name, why, step.Action, step.Why) }
	if !equality.Semantic.DeepEqual(l, local) || !equality.Semantic.DeepEqual(s, shadow) || !equality.Semantic.DeepEqual(r, remote) {
		fail("the facts were changed")
	}
	if again := Next(local, shadow, remote, env); !equality.Semantic.DeepEqual(step, again) {
		fail("the same facts gave another step")
	}
	if step.Why == "" {
		fail("it does not say why")
	}
	if env.Mapping.State == MappingUnknown && step.Action != Nothing {
		fail("it acts before it knows anything")
	}
	ours := shadow != nil && podrules.OwnsShadowPod(shadow, env.Pod)
	if aborted := local != nil && local.Status.Reason == offloadingv1beta1.PodOffloadingAborted; aborted && ours && env.RemoteSynced &&
		shadow.DeletionTimestamp == nil && env.Mapping.State != MappingUnknown && step.Action != DeleteRemote {
		fail("an aborted pod keeps its ShadowPod")
	}
	if forgotten(local, shadow, remote) && ours && kinds.MadeFor(shadow, local) && env.RemoteSynced && shadow.DeletionTimestamp == nil && step.Action != DeleteRemote {
		fail("a pod that has finished runs again")
	}
	switch step.Action {
	case CreateRemote:
		if !env.RemoteSynced || env.Mapping.State != Mapped || shadow != nil || podrules.Offloaded(local) {
			fail("it creates what may be there, or where it must not")
		}
	case PatchRemote, DeleteRemote:
		if !env.RemoteSynced || !ours {
			fail("it touches what is not known, or not its own")
		}
		if step.Action == DeleteRemote && local != nil && local.DeletionTimestamp == nil && kinds.MadeFor(shadow, local) &&
			local.Status.Reason != offloadingv1beta1.PodOffloadingAborted && !forgotten(local, shadow, remote) {
			fail("it takes away a ShadowPod that is needed")
		}
		if forgotten(local, shadow, remote) && local.DeletionTimestamp == nil && local.Status.Reason != offloadingv1beta1.PodOffloadingAborted && !step.Confirm {
			fail("it does not make sure that the provider would run the pod again")
		}
		if local == nil && !step.Confirm {
			fail("it does not make sure that the pod is gone")
		}
		if step.Action == PatchRemote && !kinds.MadeFor(shadow, local) {
			fail("it takes over the ShadowPod of another pod")
		}
	case DeleteLocal:
		if local.DeletionTimestamp == nil {
			fail("it removes a pod that nobody deleted")
		}
		if len(local.Finalizers) > 0 && !api.PodFinished(local) {
			fail("it removes a pod that others hold until it has ended")
		}
		if env.Mapping.Namespace != "" && (!env.RemoteSynced || ours || remote != nil) {
			fail("it removes a pod that may still run")
		}
	case PatchLocalStatus:
		now, ok := step.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("%s: %T", name, step.Object)
		}
		if api.PodFinished(local) {
			fail("it changes a final phase")
		}
		if equality.Semantic.DeepEqual(now, local) {
			fail("it writes what is there")
		}
		if ours && local.DeletionTimestamp == nil && remote != nil && !OwnedBy(remote, shadow) && now.Status.PodIP == remote.Status.PodIP && now.Status.PodIP != "" {
			fail("it shows the state of another pod")
		}
		if said := now.Labels[podrules.LabelRemoteUnavailable] != ""; said && !env.Pod.Unavailable || ready(now) && env.Pod.Unavailable && !api.PodFinished(now) {
			fail("it does not say whether the provider is out of reach")
		}
		if now.UID != local.UID || !equality.Semantic.DeepEqual(now.Spec, local.Spec) {
			fail("it changes more than the state")
		}
		if now.Status.Reason == offloadingv1beta1.PodOffloadingAborted {
			if !podrules.Offloaded(local) {
				fail("a pod that was never offloaded was aborted")
			}
			if env.Mapping.State != Unmapped && (!env.RemoteSynced || shadow != nil || !step.Confirm) {
				fail("silence was read as absence")
			}
		}
	}
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// TestUnreachableProviderIsShownOnce: the pods of an unreachable provider are not ready. That takes one write, and one more when the provider is
// back.
func TestUnreachableProviderIsShownOnce(t *testing.T) {
	local := localPod("u1", labelled)
	shadow := shadowFor(local, "s1", nil)
	remote := remoteFor(shadow, remoteRuns)
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	shown := Next(local, shadow, remote, env)
	pod, _ := shown.Object.(*corev1.Pod)
	for _, way := range []struct {
		name               string
		synced, unreadable bool
	}{{"the network alone", true, false}, {"the API server, too", false, true}} {
		away := env
		away.Pod.Unavailable, away.RemoteSynced = true, way.synced
		s, r := shadow, remote
		if way.unreadable {
			s, r = nil, nil
		}
		step := Next(pod, s, r, away)
		gone, _ := step.Object.(*corev1.Pod)
		if step.Action != PatchLocalStatus || gone == nil || ready(gone) || gone.Labels[podrules.LabelRemoteUnavailable] != "true" || gone.Status.Phase != corev1.PodRunning {
			t.Fatalf("%s: %+v", way.name, step)
		}
		if again := Next(gone, s, r, away); again.Action != Nothing {
			t.Errorf("%s, it is written again: %+v", way.name, again)
		}
		back := Next(gone, shadow, remote, env)
		if now, _ := back.Object.(*corev1.Pod); back.Action != PatchLocalStatus || !ready(now) || now.Labels[podrules.LabelRemoteUnavailable] != "" {
			t.Errorf("%s, it does not come back: %+v", way.name, back)
		}
		// The step reports nothing until the provider's objects were listed again.
		blind := env
		blind.RemoteSynced = false
		if step := Next(gone, nil, nil, blind); step.Action != Nothing {
			t.Errorf("%s, it comes back unseen: %+v", way.name, step)
		}
	}
}

// TestRefusedAddressIsReported: an address that the provider must not use is not shown, and the user gets the reason.
func TestRefusedAddressIsReported(t *testing.T) {
	local := localPod("u1", labelled)
	shadow := shadowFor(local, "s1", nil)
	remote := remoteFor(shadow, remoteRuns)
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	env.Pod.TranslateIP = func(string) (string, error) { return "", errors.New("it is a loopback address") }
	step := Next(local, shadow, remote, env)
	if pod, _ := step.Object.(*corev1.Pod); step.Action != PatchLocalStatus || pod.Status.PodIP != "" || !strings.Contains(step.Warning, "a loopback address") {
		t.Errorf("%+v", step)
	}
	env.Pod.TranslateIP = func(string) (string, error) { return "", nil } // not known yet
	if step := Next(local, shadow, remote, env); step.Action != PatchLocalStatus || step.Warning != "" {
		t.Errorf("%+v", step)
	}
}

// TestGracePeriodOfADeletion: a pod that is deleted with another grace period than its own ends within that, before its ShadowPod is deleted.
func TestGracePeriodOfADeletion(t *testing.T) {
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	local := localPod("u1", func(p *corev1.Pod) {
		labelled(p)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: stepNow.Add(2 * time.Second)}, new(int64(2))
	})
	shadow := shadowFor(local, "s1", nil)
	remote := remoteFor(shadow, remoteRuns)
	step := Next(local, shadow, remote, env)
	told, _ := step.Object.(*offloadingv1beta1.ShadowPod)
	if step.Action != PatchRemote || told == nil {
		t.Fatalf("%s (%s)", step.Action, step.Why)
	}
	if seconds, ok := podrules.Grace(told); !ok || seconds != 2 {
		t.Fatalf("told %d, %v", seconds, ok)
	}
	if step = Next(local, told, remote, env); step.Action != Nothing || step.After != 10*time.Second {
		t.Errorf("until the provider acts: %s after %s", step.Action, step.After)
	}
	if action, _ := Shadow(told, remote, PodMetadata{}); action != PodEnd {
		t.Errorf("the provider: action %d", action)
	}
	for name, facts := range map[string]struct {
		remote *corev1.Pod
		after  time.Duration
	}{
		"it ends":                   {remoteFor(shadow, deleting), 0},
		"it has ended":              {nil, 0},
		"the provider does nothing": {remote, 11 * time.Second},
	} {
		env := env
		env.Now = stepNow.Add(facts.after)
		if step := Next(local, told, facts.remote, env); step.Action != DeleteRemote {
			t.Errorf("%s: %s (%s)", name, step.Action, step.Why)
		}
	}
	usual := local.DeepCopy()
	usual.DeletionGracePeriodSeconds = new(int64(30))
	if step := Next(usual, shadow, remote, env); step.Action != DeleteRemote {
		t.Errorf("as long as it takes anyway: %s (%s)", step.Action, step.Why)
	}
}

// TestRefusedChangeDelaysNoOther: labels and status are copied although the provider refuses a change of the specification.
func TestRefusedChangeDelaysNoOther(t *testing.T) {
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	local := localPod("u1", labelled)
	shadow := shadowFor(local, "s1", nil)
	local.Labels["tier"] = "front"
	local.Spec.Containers[0].Image = "i:2"
	remote := remoteFor(shadow, remoteRuns)
	step := Next(local, shadow, remote, env)
	relabelled, _ := step.Object.(*offloadingv1beta1.ShadowPod)
	if step.Action != PatchRemote || step.Confirm || relabelled.Labels["tier"] == "" || relabelled.Spec.Pod.Containers[0].Image != "i" {
		t.Fatalf("first the labels: %s (%s)", step.Action, step.Why)
	}
	step = Next(local, relabelled, remote, env)
	shown, _ := step.Object.(*corev1.Pod)
	if step.Action != PatchLocalStatus {
		t.Fatalf("then the state: %s (%s)", step.Action, step.Why)
	}
	step = Next(shown, relabelled, remote, env)
	changed, _ := step.Object.(*offloadingv1beta1.ShadowPod)
	if step.Action != PatchRemote || !step.Confirm || changed.Spec.Pod.Containers[0].Image != "i:2" {
		t.Fatalf("then the image: %s (%s)", step.Action, step.Why)
	}
	if step = Next(shown, changed, remote, env); step.Action != Nothing {
		t.Errorf("it never settles: %s (%s)", step.Action, step.Why)
	}
	shown.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	if step = Next(shown, relabelled, remote, env); step.Part == "" || !step.Again {
		t.Fatalf("the image before the container for debugging: %+v", step)
	}
	env.LeftOut = []string{step.Part}
	step = Next(shown, relabelled, remote, env)
	if without, _ := step.Object.(*offloadingv1beta1.ShadowPod); step.Action != PatchRemote || without.Spec.Pod.Containers[0].Image != "i" || len(without.Spec.Pod.EphemeralContainers) != 1 {
		t.Fatalf("the image is refused: %+v", step)
	}
	env.LeftOut = append(env.LeftOut, step.Part)
	if step = Next(shown, relabelled, remote, env); step.Action != Nothing {
		t.Errorf("all is refused: %s (%s)", step.Action, step.Why)
	}
}

func TestStartIsShownAtOnceOrLater(t *testing.T) {
	local := localPod("u1", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(stepNow)}}
	})
	shadow := shadowFor(local, "s1", nil)
	creating := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	}
	failing := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
	}
	for name, test := range map[string]struct {
		remote func(*corev1.Pod)
		at     time.Duration
		// known is how long this process has known the ShadowPod; 0 means that this is unknown.
		known  time.Duration
		action Action
		after  time.Duration
	}{
		"nothing to show":                 {nil, time.Second, 0, Nothing, 19 * time.Second},
		"nothing to show for long":        {nil, time.Minute, 0, PatchLocalStatus, 0},
		"creating":                        {creating, time.Second, 0, Nothing, 2 * time.Second},
		"creating for long":               {creating, 4 * time.Second, 0, PatchLocalStatus, 0},
		"creating, after many others":     {creating, 20 * time.Second, 19 * time.Second, Nothing, 2 * time.Second},
		"creating long after many others": {creating, 24 * time.Second, 19 * time.Second, PatchLocalStatus, 0},
		"creating, and known for long":    {creating, time.Second, -time.Hour, Nothing, 2 * time.Second},
		"a clock that goes after us":      {creating, -time.Hour, 0, Nothing, 3 * time.Second},
		"no image":                        {failing, 0, 0, PatchLocalStatus, 0},
		"no image, known for a moment":    {failing, 20 * time.Second, 20 * time.Second, PatchLocalStatus, 0},
		"ready":                           {remoteRuns, 0, 0, PatchLocalStatus, 0},
	} {
		var since time.Time
		if test.known != 0 {
			since = stepNow.Add(test.known)
		}
		env := Env{Since: since, Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow.Add(test.at), Pod: stepPod}
		step := Next(local, shadow, remoteFor(shadow, test.remote), env)
		if step.Action != test.action || step.After != test.after {
			t.Errorf("%s: %s after %s (%s)", name, step.Action, step.After, step.Why)
		}
	}
}

// TestCopyOfAnOffloadedPodIsNew: a pod created from the manifest of an offloaded pod counts as a new pod, also if the manifest is in the template of a
// Deployment.
func TestCopyOfAnOffloadedPodIsNew(t *testing.T) {
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	step := Next(localPod("u1", pasted), nil, nil, env)
	if step.Action != CreateRemote {
		t.Fatalf("%s (%s), want it to be offloaded", step.Action, step.Why)
	}
	shadow, _ := step.Object.(*offloadingv1beta1.ShadowPod)
	shadow.UID = "s1"
	for key, value := range shadow.Annotations {
		if localPod("u1", pasted).Annotations[key] == value {
			t.Errorf("annotation %s went to the provider", key)
		}
	}
	for _, key := range []string{offloadingv1beta1.LabelShadowPod, offloadingv1beta1.LabelCreatorUser, offloadingv1beta1.LabelManagedBy} {
		if _, found := shadow.Labels[key]; found {
			t.Errorf("label %s went to the provider", key)
		}
	}
	shadow.Labels[offloadingv1beta1.LabelCreatorUser] = "rome-2c3d" // the provider set this label; it stays even if an earlier release listed it as a label of the local Pod
	shadow.Annotations[kinds.AnnotationLabels] += "," + offloadingv1beta1.LabelCreatorUser
	relabelled, _ := Next(localPod("u1", pasted), shadow, remoteFor(shadow, remoteRuns), env).Object.(*offloadingv1beta1.ShadowPod)
	if relabelled == nil || relabelled.Labels[offloadingv1beta1.LabelCreatorUser] != "rome-2c3d" {
		t.Fatalf("its creator is written over: %+v", relabelled)
	}
	shadow = relabelled
	step = Next(localPod("u1", pasted), shadow, remoteFor(shadow, remoteRuns), env)
	shown, _ := step.Object.(*corev1.Pod)
	if step.Action != PatchLocalStatus || !podrules.Offloaded(shown) || shown.Annotations[podrules.AnnotationRestarts] != "" {
		t.Errorf("%s (%s): annotations %v", step.Action, step.Why, shown.GetAnnotations())
	}
	if step = Next(shown, shadow, remoteFor(shadow, remoteRuns), env); step.Action != Nothing {
		t.Errorf("it never settles: %s (%s)", step.Action, step.Why)
	}
	env.Mapping = Mapping{State: Unmapped}
	env.RemoteSynced = false
	step = Next(localPod("u1", pasted), nil, nil, env)
	if refused, _ := step.Object.(*corev1.Pod); refused == nil || refused.Status.Phase != corev1.PodPending {
		t.Errorf("without a remote namespace: %s (%s), want it to wait as any new pod", step.Action, step.Why)
	}
}

// TestAbortedPodsAreReported: a pod that ends because its namespace is no longer offloaded gets an Event with the reason and the cure.
func TestAbortedPodsAreReported(t *testing.T) {
	step := Next(localPod("u1", labelled), nil, nil, Env{Mapping: Mapping{State: Unmapped}, RemoteSynced: true, Now: stepNow, Pod: stepPod})
	for _, want := range []string{"no longer offloaded to cluster", "delete the pod and create it again"} {
		if !strings.Contains(step.Warning, want) {
			t.Errorf("%s: %q, want %q", step.Action, step.Warning, want)
		}
	}
}

// TestObjectsThatStayAreReportedLater: a pod that waits for a Secret that is not copied is reported also if the Secret was not in the cache when the pod was
// created in the provider. A pod that runs does not wait for it.
func TestObjectsThatStayAreReportedLater(t *testing.T) {
	local := localPod("u1", func(p *corev1.Pod) {
		labelled(p)
		p.Status.Phase = corev1.PodPending
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "robot"}}}}
	})
	shadow := shadowFor(local, "s1", nil)
	env := Env{Mapping: Mapping{State: Mapped, Namespace: "shop-rome"}, RemoteSynced: true, Now: stepNow, Pod: stepPod}
	env.Pod.Destination = "milan"
	env.Pod.Secret = func(string, string) *corev1.Secret { return &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken} }
	pending := func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
	early := env
	early.Now = local.CreationTimestamp.Time
	for name, step := range map[string]Step{
		"no remote pod":     Next(local, shadow, nil, env),
		"it starts":         Next(local, shadow, remoteFor(shadow, pending), early),
		"it does not start": Next(local, shadow, remoteFor(shadow, pending), env),
	} {
		if !strings.Contains(step.Warning, "spec.volumes v needs Secret robot") || !strings.Contains(step.Warning, kinds.AnnotationAllow) {
			t.Errorf("%s: %s (%s), warning %q", name, step.Action, step.Why, step.Warning)
		}
	}
	if step := Next(local, shadow, remoteFor(shadow, remoteRuns), env); step.Warning != "" {
		t.Errorf("it runs: warning %q", step.Warning)
	}
}
