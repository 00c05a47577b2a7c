package offload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Action is what a Step does.
type Action int

// Actions. Every one of them is at most one write.
const (
	// Nothing is right as it is, or something else has to happen first.
	Nothing Action = iota
	// CreateRemote makes Object in the provider.
	CreateRemote
	// PatchRemote turns Old into Object in the provider.
	PatchRemote
	// DeleteRemote removes Object from the provider: that very one, by UID.
	DeleteRemote
	// PatchLocalStatus turns the status, labels and annotations of Old into those of Object, here.
	PatchLocalStatus
	// DeleteLocal removes Object here, at once: that very one, by UID.
	DeleteLocal
	// CreateLocal makes Object here.
	CreateLocal
	// PatchLocal turns Old into Object here.
	PatchLocal
)

func (a Action) String() string {
	return [...]string{"nothing", "create remote", "patch remote", "delete remote", "patch local status", "delete local", "create local", "patch local"}[a]
}

// Step is the next thing to do about one object and its twin.
type Step struct {
	Action Action
	// Object is what the action is about; see the actions. It belongs to the receiver.
	Object Object
	// Old is what Object was made from, for patches. It must not be changed.
	Old Object
	// Why is one clause for the log.
	Why string
	// Warning is what the user should hear, about the local object; empty for nothing. It is said once, after the action succeeded.
	Warning string
	// Confirm asks to decide once more on facts read from the API servers, not from a cache: what is done can't be undone and a cache may be
	// late, or the cache does not hold all that is to be written.
	Confirm bool
	// Part names what of Object is new, where it can be refused by itself: then the rest is decided on without it. See Env.LeftOut.
	Part string
	// Again asks to look once more at once when it is done: it was only the beginning.
	Again bool
	// After, if not zero, asks to look again after that time.
	After time.Duration
}

// MappingState is how far the twin of a namespace is.
type MappingState int

// Mapping states.
const (
	// MappingUnknown says that nobody told yet. Nothing is concluded.
	MappingUnknown MappingState = iota
	// Unmapped says that the namespace is not offloaded to this provider.
	Unmapped
	// MappingWanted says that the consumer asked for it, and the provider has none.
	MappingWanted
	// Mapped says that the twin is there.
	Mapped
	// MappingTerminating says that the twin is on its way out.
	MappingTerminating
)

// Mapping tells where the twin of a local namespace is.
type Mapping struct {
	State MappingState
	// Namespace is its name in the provider; set with Mapped and MappingTerminating.
	Namespace string
	// Problem is why the provider has none although it is asked for; may be empty.
	Problem string
}

// MappingOf reads where the twin of a namespace is from a NamespaceMap, nil if there is none: then nothing can be concluded about pods that
// run already, and no new one is offloaded.
//
// What was asked for is said here, what became of it by the provider: it does not get a namespace by saying that it has one. One that it was not
// asked for, or is not asked for any more, is on its way out.
func MappingOf(m *offv1.NamespaceMap, namespace string) Mapping {
	if m == nil {
		return Mapping{State: MappingWanted}
	}
	wanted, desired := m.Spec.DesiredMapping[namespace]
	current, found := m.Status.CurrentMapping[namespace]
	switch {
	case found && current.Phase == offv1.MappingAccepted && desired && current.RemoteNamespace == wanted:
		return Mapping{State: Mapped, Namespace: current.RemoteNamespace}
	case found && (current.Phase == offv1.MappingAccepted || current.Phase == offv1.MappingTerminating):
		return Mapping{State: MappingTerminating, Namespace: current.RemoteNamespace}
	case found && current.Phase == offv1.MappingCreationLoopBackOff:
		return Mapping{State: MappingWanted, Problem: "namespace " + current.RemoteNamespace + " can't be made there: " + whyNoTwin}
	case desired:
		return Mapping{State: MappingWanted}
	default:
		return Mapping{State: Unmapped}
	}
}

// Env is what a decision about a pod depends on beside the pod.
type Env struct {
	Mapping Mapping
	// RemoteSynced tells that the provider answers and that what is known of the twin namespace is complete. While it is false, an
	// absent remote object means nothing.
	RemoteSynced bool
	// RefusedSince is since when the provider refuses reads of the remote namespace, zero while it does not: the tenant is drained or removed, or
	// the rights are broken. With RemoteSynced the cache is complete and only a confirming read was refused.
	RefusedSince time.Time
	// Since is when the ShadowPod became known, the zero time if nobody knows.
	Since time.Time
	// Now is the time here.
	Now time.Time
	// LeftOut are the parts that the provider refused just now.
	LeftOut []string
	// Refusals are the answers to them, by part.
	Refusals map[string]string
	// Pod are the facts about the virtual node.
	Pod kinds.PodOptions
}

// How long a pod on its ordinary way to being ready may take before its steps are shown one by one. Most are ready by then, and cost one
// status write instead of four. While no node has taken the pod there is nothing to show but that it waits, which it does here as well.
const (
	startingGrace   = 3 * time.Second
	acceptanceGrace = 20 * time.Second
)

// Next decides what to do about a Pod of this virtual node: local here, shadow and remote in the provider; each may be nil, and shadow
// may be somebody else's. The same facts give the same step, whatever happened before, and doing what the steps say comes to an end.
//
// An unreachable provider is never read as an absent pod, a final phase is never left, and nothing that another one made is touched.
func Next(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, env Env) Step {
	ours := shadow != nil && kinds.OwnsShadowPod(shadow, env.Pod)
	env.Pod.Now = env.Now
	switch {
	case env.Mapping.State == MappingUnknown:
		return Step{Why: "the namespace map was not read yet"}
	case !env.RefusedSince.IsZero() && (local == nil || local.DeletionTimestamp == nil && kinds.Finished(local)):
		return Step{Why: "the provider refuses access to the remote namespace", After: revokedGrace}
	case local == nil:
		return orphan(shadow, ours, env)
	case local.DeletionTimestamp != nil:
		return leaving(local, shadow, remote, ours, env)
	case kinds.Finished(local):
		return finished(local, shadow, remote, ours, env)
	case !env.RefusedSince.IsZero() && env.Mapping.Namespace != "":
		return revoked(local, shadow, env)
	case env.Mapping.State != Mapped && (!env.RemoteSynced || shadow == nil || !kinds.Offloaded(local)):
		return homeless(local, env)
	case !env.RemoteSynced && env.Pod.Unavailable && kinds.Offloaded(local):
		return showStatus(local, kinds.Unreachable(local), "the provider is out of reach")
	case !env.RemoteSynced:
		return Step{Why: "the provider does not answer, or what it has was not read yet"}
	case shadow == nil:
		return absent(local, env)
	case !ours:
		return refuse(local, "a ShadowPod of that name exists in the provider and was not made by this node")
	default:
		return present(local, shadow, remote, env)
	}
}

// orphan: the local Pod is gone, or moved to another node.
func orphan(shadow *offv1.ShadowPod, ours bool, env Env) Step {
	if !ours || !env.RemoteSynced {
		return Step{Why: "there is no pod"}
	}
	return deleteShadow(shadow, "the pod is gone", true)
}

// leaving: the local Pod is being deleted. It may go when nothing is left of it in the provider, which takes as long as the grace period in the
// Pod's spec says, that travelled with it, or the one that was given with the deletion.
func leaving(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, ours bool, env Env) Step {
	switch {
	case env.Mapping.State == Unmapped || env.Mapping.State == MappingWanted:
		return Step{Action: DeleteLocal, Object: local, Why: "it is being deleted, and its namespace has no twin"}
	case !env.RemoteSynced && !env.RefusedSince.IsZero():
		if rest := revokedLimit - env.Now.Sub(env.RefusedSince); rest > 0 {
			return Step{Why: "it is being deleted, and the provider refuses access to the remote namespace", After: min(rest, revokedLimit)}
		}
		return Step{Action: DeleteLocal, Object: local, Why: "it is being deleted, and the provider has revoked access to the remote namespace"}
	case !env.RemoteSynced:
		return Step{Why: "it is being deleted, and the provider does not answer"}
	case ours && shadow.DeletionTimestamp == nil:
		if seconds, asked := kinds.AskedGrace(local); asked && kinds.MadeFor(shadow, local) {
			return within(seconds, local, shadow, remote, env)
		}
		return deleteShadow(shadow, "the pod is being deleted", false)
	case remote != nil && kinds.Finished(remote) && !kinds.Finished(local):
		return showStatus(local, kinds.PodStatus(local, remote, env.Pod), "the remote pod has ended")
	case ours || remote != nil:
		return Step{Why: "the remote pod is on its way out"}
	default:
		return Step{Action: DeleteLocal, Object: local, Why: "nothing of it is left in the provider"}
	}
}

// gracePatience is how long the provider may take to end a Pod within another time than its own before its ShadowPod is removed all the same.
const gracePatience = 10 * time.Second

// within: the local Pod is to end within so many seconds. A ShadowPod has no grace period: the provider is told to end its Pod, and loses the
// ShadowPod once it does.
func within(seconds int64, local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, env Env) Step {
	since := local.DeletionTimestamp.Add(-time.Duration(seconds) * time.Second)
	told, found := kinds.Grace(shadow)
	switch rest := gracePatience - env.Now.Sub(since); {
	case remote == nil || remote.DeletionTimestamp != nil || kinds.Finished(remote) || rest <= 0:
		return deleteShadow(shadow, "the pod is being deleted", false)
	case found && told == seconds:
		return Step{Why: "the provider is about to end the remote pod", After: min(rest, gracePatience)}
	default:
		return Step{Action: PatchRemote, Object: kinds.WithGrace(shadow, seconds), Old: shadow, Why: fmt.Sprintf("the pod is to end within %d s", seconds)}
	}
}

// finished: the local Pod has come to its end. A provider that did not take note of that end would run the Pod once more when it is gone there.
func finished(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, ours bool, env Env) Step {
	switch {
	case !ours || !env.RemoteSynced:
	case local.Status.Reason == offv1.PodOffloadingAborted:
		return deleteShadow(shadow, "its offloading was aborted", false)
	case kinds.MadeFor(shadow, local) && !Finished(shadow.Status.Phase) && (remote == nil || !kinds.Finished(remote)):
		return deleteShadow(shadow, "it has finished, and the provider would run it again", true)
	}
	return Step{Why: "it has finished"}
}

// homeless: the namespace has no usable twin, and no ShadowPod is known.
func homeless(local *corev1.Pod, env Env) Step {
	switch {
	case !kinds.Offloaded(local):
		message := "namespace " + local.Namespace + " is not offloaded to cluster " + env.Pod.Destination
		if env.Mapping.Problem != "" {
			message += ": " + env.Mapping.Problem
		}
		return refuse(local, message)
	case env.Mapping.State == Unmapped:
		return abort(local, "namespace "+local.Namespace+" is no longer offloaded to cluster "+env.Pod.Destination, "its namespace is no longer offloaded")
	case env.Mapping.State == MappingTerminating && env.RemoteSynced:
		return absent(local, env)
	case env.Mapping.State == MappingTerminating && env.Pod.Unavailable:
		return showStatus(local, kinds.Unreachable(local), "the provider is out of reach")
	default:
		return Step{Why: "the twin namespace is not there at the moment"}
	}
}

// How long the provider must refuse access to the remote namespace before anything follows from it: API servers that start, and bindings that are
// recreated, refuse it for seconds.
const (
	// revokedGrace is for a Pod whose ShadowPod was observed to be deleted.
	revokedGrace = 30 * time.Second
	// revokedLimit is for a Pod of whose ShadowPod nothing is known: it may still run.
	revokedLimit = 5 * time.Minute
)

// revoked: the provider responds, and refuses access to the remote namespace. A provider that drains a tenant first revokes its rights and then deletes
// its namespaces, so that no read can confirm the deletion of a ShadowPod.
func revoked(local *corev1.Pod, shadow *offv1.ShadowPod, env Env) Step {
	message := "cluster " + env.Pod.Destination + " refuses access to namespace " + env.Mapping.Namespace + ": it drained or removed the tenant of cluster " +
		env.Pod.Origin + ", or the RoleBinding there is missing; there, liqoctl activate tenant " + env.Pod.Origin + " ends a drain"
	grace, passed := revokedGrace, env.Now.Sub(env.RefusedSince)
	if kinds.Offloaded(local) && !env.RemoteSynced {
		grace = revokedLimit
	}
	switch {
	case env.RemoteSynced && shadow != nil:
		return Step{Why: "the provider refuses access to the remote namespace", After: revokedGrace}
	case passed >= grace && kinds.Offloaded(local):
		return abort(local, message, "the provider revoked access to the remote namespace")
	case passed >= grace:
		return refuse(local, message)
	}
	s := Step{Why: "the provider refuses access to the remote namespace"}
	if kinds.Offloaded(local) && !env.RemoteSynced && passed >= revokedGrace {
		s = showStatus(local, kinds.Unreachable(local), "the provider refuses access to the remote namespace")
	}
	rest := grace - passed
	if grace > revokedGrace && passed < revokedGrace {
		rest = revokedGrace - passed
	}
	s.After = min(rest, grace)
	return s
}

// absent: there is no ShadowPod. The local Pod tells whether there was one.
func absent(local *corev1.Pod, env Env) Step {
	if waiting := kinds.WaitsForAPIServer(local, env.Pod); waiting != "" && !kinds.Offloaded(local) {
		return Step{Why: waiting, Warning: "it is not offloaded yet: " + waiting}
	}
	if !kinds.Offloaded(local) {
		return Step{
			Action: CreateRemote, Object: kinds.ShadowPod(local, env.Mapping.Namespace, env.Pod), Why: "the pod is new",
			Warning: strings.Join(slices.Concat(kinds.Problems(local), kinds.AnnotationProblems(local, env.Pod), kinds.SecretProblems(local, env.Pod)), "; "),
		}
	}
	s := abort(local, "cluster "+env.Pod.Destination+" removed the pod", "the provider removed its ShadowPod")
	s.Confirm = true
	return s
}

// abort ends the Pod with the message as its cause, and reports in an Event what happened and what to do.
func abort(local *corev1.Pod, message, why string) Step {
	s := showStatus(local, kinds.Aborted(local, message), why)
	s.Warning = "its offloading was aborted: " + message + "; its controller creates another pod, one without a controller has to be deleted and created again"
	return s
}

// present: the ShadowPod is there and ours.
func present(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, env Env) Step {
	switch {
	case !kinds.MadeFor(shadow, local):
		if shadow.DeletionTimestamp == nil {
			return deleteShadow(shadow, "it belongs to an earlier pod of that name", true)
		}
		return Step{Why: "the ShadowPod of an earlier pod is on its way out"}
	case shadow.DeletionTimestamp != nil:
		return Step{Why: "the provider removes the ShadowPod"}
	}
	if out, changed := kinds.ShadowPodMetadata(shadow, local, remote, env.Pod); changed {
		return Step{Action: PatchRemote, Object: out, Old: shadow, Why: "labels or annotations changed"}
	}
	s := shown(local, shadow, remote, env)
	// What is to change may be refused: neither labels nor state wait for it, nor one part for another.
	if s.Action == Nothing && kinds.SpecChanged(shadow, local) {
		if change, found := kinds.ChangeSpec(shadow, local, env.LeftOut); found {
			return Step{
				Action: PatchRemote, Object: change.Shadow, Old: shadow, Why: "the specification changed: " + change.Part, Confirm: true,
				Part: change.Part, Again: change.More,
			}
		}
	}
	return s
}

// shown: the local Pod is to show the state of the remote one.
func shown(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, env Env) Step {
	switch {
	case remote == nil && (shadow.Status.Phase == corev1.PodSucceeded || shadow.Status.Phase == corev1.PodFailed):
		return showStatus(local, kinds.RemoteTerminated(local, shadow, env.Pod), "the remote pod had finished before it was removed")
	case remote == nil:
		return Step{Why: "the provider has not made the pod yet, or makes it again"}
	case !belongs(remote, shadow):
		return Step{Why: "the pod of an earlier ShadowPod is on its way out"}
	}
	return follow(local, shadow, remote, env)
}

// follow shows the state of the remote Pod, but not every step of a start that goes well.
func follow(local *corev1.Pod, shadow *offv1.ShadowPod, remote *corev1.Pod, env Env) Step {
	want := kinds.ShownStatus(local, shadow, remote, env.Refusals[kinds.PartResources], env.Pod)
	if kinds.Starting(&want.Status) && local.Status.Phase == corev1.PodPending && local.Status.Reason == "" {
		grace := startingGrace
		if len(want.Status.ContainerStatuses)+len(want.Status.InitContainerStatuses) == 0 {
			grace = acceptanceGrace
		}
		// One of many that are made at once has waited for its ShadowPod: what is a start that goes well begins then.
		began := bound(local)
		if env.Since.After(began) {
			began = env.Since
		}
		if rest := grace - env.Now.Sub(began); rest > 0 {
			return Step{Why: "it is starting", After: min(rest, grace)}
		}
	}
	s := showStatus(local, want, "the remote pod changed")
	if problem := kinds.AddressProblem(remote, env.Pod); problem != nil {
		s.Warning = "the pod is shown without an address: " + problem.Error()
	}
	return s
}

// bound is when the Pod got its node, by the clock of this cluster.
func bound(local *corev1.Pod) time.Time {
	for _, c := range local.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return local.CreationTimestamp.Time
}

// belongs tells whether the remote Pod was made for that ShadowPod. One without an owner is taken by its name.
func belongs(remote *corev1.Pod, shadow *offv1.ShadowPod) bool {
	return metav1.GetControllerOf(remote) == nil || OwnedBy(remote, shadow)
}

func deleteShadow(shadow *offv1.ShadowPod, why string, confirm bool) Step {
	if shadow.DeletionTimestamp != nil {
		return Step{Why: "the ShadowPod is on its way out"}
	}
	return Step{Action: DeleteRemote, Object: shadow, Why: why, Confirm: confirm}
}

// refuse says on the Pod why it is not offloaded. The user hears it as well where the Pod says so already: whoever wrote that may have gone before
// it told him.
func refuse(local *corev1.Pod, message string) Step {
	s := showStatus(local, kinds.Refused(local, message), message)
	s.Warning = message
	return s
}

// Refuse is the step after the provider refused the ShadowPod of local.
func Refuse(local *corev1.Pod, message string) Step { return refuse(local, message) }

// showStatus writes the difference between two states of the local Pod, if there is one.
func showStatus(local, want *corev1.Pod, why string) Step {
	if equality.Semantic.DeepEqual(local.Status, want.Status) && equality.Semantic.DeepEqual(local.Labels, want.Labels) &&
		equality.Semantic.DeepEqual(local.Annotations, want.Annotations) {
		return Step{Why: "it shows the remote state"}
	}
	return Step{Action: PatchLocalStatus, Object: want, Old: local, Why: why}
}
