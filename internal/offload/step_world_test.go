package offload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// stepWorld is one pod name in two clusters, with users, a provider and a link that act at random.
type stepWorld struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	uids    int
	local   *corev1.Pod
	shadow  *offloadingv1beta1.ShadowPod
	remote  *corev1.Pod
	mapping Mapping
	up      bool
	// away means that the Node has been NotReady for some time.
	away    bool
	history []string
	// final is the phase and UID of a pod that has finished.
	final map[types.UID]corev1.PodPhase
	made  map[types.UID]int
	quiet bool
}

func (w *stepWorld) uid(kind string) types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("%s%d", kind, w.uids))
}

func (w *stepWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *stepWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory: %q", fmt.Sprintf(format, args...), w.history)
}

// event lets a random participant act.
func (w *stepWorld) event() {
	w.now = w.now.Add(time.Duration(w.r.IntN(3000)) * time.Millisecond)
	switch w.r.IntN(18) {
	case 15:
		if w.local != nil {
			w.local.Spec.Containers[0].Image = fmt.Sprint("i:", w.r.IntN(3))
			w.note("user changes the image")
		}
	case 16:
		if w.local != nil && len(w.local.Spec.EphemeralContainers) < 2 {
			c := corev1.EphemeralContainer{}
			c.Name = fmt.Sprint("debug-", len(w.local.Spec.EphemeralContainers))
			w.local.Spec.EphemeralContainers = append(w.local.Spec.EphemeralContainers, c)
			w.note("user debugs the pod")
		}
	case 17:
		if w.local != nil {
			c := corev1.PodCondition{Type: "gate", Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[w.r.IntN(2)]}
			w.local.Status.Conditions = append(slices.DeleteFunc(w.local.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "gate" }), c)
			w.note("a controller sets the gate %s", c.Status)
		}
	case 14:
		w.away = !w.away
		w.note("out of reach: %v", w.away)
	case 0, 1:
		if w.local == nil {
			w.local = localPod(w.uid("u"), func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(w.now)
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
			})
			w.note("user creates the pod")
		}
	case 2:
		if w.local != nil && w.local.DeletionTimestamp == nil {
			w.local.DeletionGracePeriodSeconds = new([]int64{30, 2, 60}[w.r.IntN(3)])
			w.local.DeletionTimestamp = &metav1.Time{Time: w.now.Add(time.Duration(*w.local.DeletionGracePeriodSeconds) * time.Second)}
			w.note("user deletes the pod, within %d s", *w.local.DeletionGracePeriodSeconds)
		}
	case 3:
		if w.local != nil && w.r.IntN(3) == 0 {
			w.local = nil
			w.note("user removes the pod by force")
		}
	case 4:
		if w.local != nil {
			w.local.Labels["color"] = fmt.Sprint(w.r.IntN(3))
			w.note("user changes a label")
		}
	case 5:
		w.up = !w.up
		w.note("link up: %v", w.up)
	case 6:
		if w.shadow != nil && w.r.IntN(3) == 0 {
			w.shadow = nil
			w.note("the provider drains it")
		}
	case 7:
		if w.remote != nil && w.remote.DeletionTimestamp == nil {
			w.remote.DeletionTimestamp = &metav1.Time{Time: w.now}
			w.note("the remote pod is deleted there")
		}
	case 8:
		if w.shadow == nil && w.remote == nil && w.mapping.Namespace != "" && w.r.IntN(4) == 0 {
			w.shadow = &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.mapping.Namespace, UID: w.uid("f"), Labels: map[string]string{api.LabelOrigin: "naples"}}}
			w.note("another consumer takes the name")
		} else if w.shadow != nil && !podrules.OwnsShadowPod(w.shadow, stepPod) {
			w.shadow = nil
			w.note("another consumer gives the name back")
		}
	case 9:
		if w.r.IntN(6) == 0 {
			if w.mapping.State == Mapped {
				w.mapping, w.shadow, w.remote = Mapping{State: Unmapped}, nil, nil
			} else {
				w.mapping = Mapping{State: Mapped, Namespace: "shop-rome"}
			}
			w.note("mapping %d", w.mapping.State)
		}
	default:
		w.provide()
	}
}

// provide performs one action of the provider's controller, garbage collector or kubelet.
func (w *stepWorld) provide() {
	switch {
	case w.remote != nil && w.remote.DeletionTimestamp != nil:
		w.remote = nil
		w.note("the remote pod is gone")
	case w.remote != nil && (w.shadow == nil || !OwnedBy(w.remote, w.shadow)):
		w.remote.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.note("the remote pod is collected")
	case w.shadow != nil && w.remote == nil && podrules.OwnsShadowPod(w.shadow, stepPod) && w.action() == PodCreate:
		w.remote = Pod(w.shadow, PodMetadata{})
		w.remote.UID, w.remote.CreationTimestamp, w.remote.Status.Phase = w.uid("p"), metav1.NewTime(w.now), corev1.PodPending
		w.note("the provider makes the remote pod")
	case w.changes():
	case w.ends():
		w.remote.DeletionTimestamp = &metav1.Time{Time: w.now}
		seconds, _ := podrules.Grace(w.shadow)
		w.remote.DeletionGracePeriodSeconds = &seconds
		w.note("the provider ends the remote pod within %d s", seconds)
	case w.remote != nil && w.remote.Status.Phase == corev1.PodPending:
		remoteRuns(w.remote)
		start := metav1.NewTime(w.now)
		w.remote.Status.StartTime = &start
		w.note("the remote pod runs")
	case w.remote != nil && w.remote.Status.Phase == corev1.PodRunning && !w.quiet && w.r.IntN(8) == 0:
		w.remote.Status.Phase = corev1.PodSucceeded
		w.note("the remote pod succeeds")
	case w.shadow != nil && w.remote != nil && w.shadow.Status.Phase != w.remote.Status.Phase && OwnedBy(w.remote, w.shadow):
		w.shadow.Status.Phase = w.remote.Status.Phase
		w.note("the ShadowPod tells %s", w.shadow.Status.Phase)
	}
}

// action is the next action of the provider's controller.
func (w *stepWorld) action() PodAction {
	action, _ := Shadow(w.shadow, w.remote, PodMetadata{})
	return action
}

// changes updates the remote pod as the provider's controller would, and reports whether anything had to change.
func (w *stepWorld) changes() bool {
	if w.shadow == nil || w.remote == nil || !OwnedBy(w.remote, w.shadow) {
		return false
	}
	switch w.action() {
	case PodRelabel:
		w.remote.Labels, w.remote.Annotations = Relabelled(w.shadow, w.remote, PodMetadata{})
	case PodChange:
		for _, part := range podrules.SpecParts(&w.shadow.Spec.Pod) {
			spec, _ := part.Over(&w.remote.Spec)
			w.remote.Spec = *spec
		}
		w.remote.Annotations[podrules.AnnotationSpec] = w.shadow.Annotations[podrules.AnnotationSpec]
	case PodGates:
		w.remote.Status.Conditions = append(slices.DeleteFunc(w.remote.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == "gate" }), Gates(w.shadow, w.remote)...)
	default:
		return false
	}
	w.note("the provider's controller changes the remote pod")
	return true
}

// ends reports whether the provider must delete the remote pod with a grace period that the consumer requested.
func (w *stepWorld) ends() bool {
	return w.shadow != nil && w.remote != nil && OwnedBy(w.remote, w.shadow) && w.action() == PodEnd
}

func (w *stepWorld) next() Step {
	env := Env{Mapping: w.mapping, RemoteSynced: w.up && w.mapping.Namespace != "", Now: w.now, Pod: stepPod}
	env.Pod.Unavailable = w.away
	shadow, remote := w.shadow, w.remote
	if !env.RemoteSynced {
		shadow, remote = nil, nil
	}
	return Next(w.local.DeepCopy(), shadow.DeepCopy(), remote.DeepCopy(), env)
}

// obey applies the step as an API server would.
func (w *stepWorld) obey(step Step) {
	if step.Action != Nothing {
		w.note("STEP %s: %s", step.Action, step.Why)
	}
	switch step.Action {
	case CreateRemote:
		if w.shadow != nil {
			w.fatal("a ShadowPod was created over another")
		}
		s, _ := step.Object.(*offloadingv1beta1.ShadowPod)
		s.UID = w.uid("s")
		w.shadow = s
		if w.made[w.local.UID]++; w.made[w.local.UID] > 1 && podrules.Offloaded(w.local) {
			w.fatal("a pod that ran was made twice")
		}
	case PatchRemote:
		s, _ := step.Object.(*offloadingv1beta1.ShadowPod)
		if s.UID != w.shadow.UID || !podrules.OwnsShadowPod(w.shadow, stepPod) {
			w.fatal("a foreign ShadowPod was changed")
		}
		w.shadow = s
	case DeleteRemote:
		if step.Object.GetUID() != w.shadow.UID || !podrules.OwnsShadowPod(w.shadow, stepPod) {
			w.fatal("a foreign ShadowPod was deleted")
		}
		w.shadow = nil
	case DeleteLocal:
		if w.remote != nil && w.mapping.Namespace != "" && w.shadow != nil && podrules.OwnsShadowPod(w.shadow, stepPod) {
			w.fatal("a pod that runs was removed")
		}
		w.local = nil
	case PatchLocalStatus:
		p, _ := step.Object.(*corev1.Pod)
		if equality.Semantic.DeepEqual(p, w.local) {
			w.fatal("a write that changes nothing")
		}
		if w.final[p.UID] != "" {
			w.fatal("a final phase was left")
		}
		w.local = p
		if api.PodFinished(p) {
			w.final[p.UID] = p.Status.Phase
		}
	}
}

// TestStepLawsInRandomWorlds runs the engine at any moment of a random history, then lets everything settle.
func TestStepLawsInRandomWorlds(t *testing.T) {
	const worlds = 2000
	for seed := range uint64(worlds) {
		w := &stepWorld{
			t: t, r: rand.New(rand.NewPCG(seed, 1)), now: stepNow, up: true, mapping: Mapping{State: Mapped, Namespace: "shop-rome"},
			final: map[types.UID]corev1.PodPhase{}, made: map[types.UID]int{},
		}
		w.note("seed %d", seed)
		for range 60 {
			w.event()
			for range w.r.IntN(3) { // the engine may run twice, once or not at all between two events
				w.obey(w.next())
			}
		}
		// Settle: the link is up, the namespace is mapped, foreign objects no longer appear, and the provider does its work.
		w.quiet, w.up, w.away = true, true, false
		if w.mapping.State != Mapped {
			w.mapping = Mapping{State: Mapped, Namespace: "shop-rome"}
		}
		if w.shadow != nil && !podrules.OwnsShadowPod(w.shadow, stepPod) {
			w.shadow = nil
		}
		for range 40 {
			w.now = w.now.Add(time.Minute)
			w.provide()
			w.obey(w.next())
		}
		if step := w.next(); step.Action != Nothing {
			w.fatal("it does not settle: %s, %s", step.Action, step.Why)
		}
		w.atRest()
	}
}

func (w *stepWorld) atRest() {
	switch {
	case w.local == nil:
		if w.shadow != nil || w.remote != nil {
			w.fatal("something was left behind")
		}
	case w.local.DeletionTimestamp != nil:
		w.fatal("a deleted pod stays")
	case api.PodFinished(w.local):
		if w.local.Status.Reason == offloadingv1beta1.PodOffloadingAborted && w.shadow != nil {
			w.fatal("an aborted pod has a ShadowPod")
		}
	default:
		if w.shadow != nil && (podrules.SpecChanged(w.shadow, w.local) || w.shadow.Spec.Pod.Containers[0].Image != w.local.Spec.Containers[0].Image ||
			len(w.shadow.Spec.Pod.EphemeralContainers) != len(w.local.Spec.EphemeralContainers)) {
			w.fatal("the specification did not follow: %+v, %+v", w.local.Spec, w.shadow.Spec.Pod)
		}
		if w.shadow == nil || w.remote == nil || !OwnedBy(w.remote, w.shadow) || !kinds.MadeFor(w.shadow, w.local) {
			w.fatal("a pod does not run")
		}
		if w.local.Labels[podrules.LabelRemoteUnavailable] != "" || !ready(w.local) {
			w.fatal("a pod that runs is not ready: %+v", w.local)
		}
		for gate, status := range podrules.ParseGates(w.shadow.Annotations[podrules.AnnotationGates]) {
			for _, pod := range []*corev1.Pod{w.local, w.remote} {
				if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate && c.Status == status }) {
					w.fatal("gate %s is not %s: %+v", gate, status, pod.Status.Conditions)
				}
			}
		}
		if w.remote.Spec.Containers[0].Image != w.local.Spec.Containers[0].Image {
			w.fatal("the remote pod has another image")
		}
		if w.local.Status.Phase != w.remote.Status.Phase || w.local.Labels[offloadingv1beta1.LabelShadowPod] == "" || w.local.Labels["color"] != w.shadow.Labels["color"] {
			w.fatal("what is shown is not what is: %+v, %+v", w.local, w.remote)
		}
	}
}
