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

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Action is what a Step does.
type Action int

// Actions. Each of them performs at most one write.
const (
	// Nothing means that no write is due. Either the state is correct, or something else has to happen first (see Step.Why).
	Nothing Action = iota
	// CreateRemote creates Object in the provider.
	CreateRemote
	// PatchRemote patches Old into Object in the provider.
	PatchRemote
	// DeleteRemote deletes Object from the provider, with the object's UID as a precondition.
	DeleteRemote
	// PatchLocalStatus patches the status, labels and annotations of Old into those of Object, in this cluster.
	PatchLocalStatus
	// DeleteLocal deletes Object in this cluster, with grace period 0 and the object's UID as a precondition.
	DeleteLocal
	// CreateLocal creates Object in this cluster.
	CreateLocal
	// PatchLocal patches Old into Object in this cluster.
	PatchLocal
)

func (a Action) String() string {
	return [...]string{"nothing", "create remote", "patch remote", "delete remote", "patch local status", "delete local", "create local", "patch local"}[a]
}

// Step is the next action for one object and its counterpart in the other cluster.
type Step struct {
	Action Action
	// Object is the object that Action writes; see the actions. It belongs to the receiver, which may change it.
	Object Object
	// Old is the object that Object was derived from, for patches. The receiver must not change it.
	Old Object
	// Why is the reason for the step: one clause for the log.
	Why string
	// Warning is a message to the user about the local object; empty for none. It is reported once, after the action succeeded.
	Warning string
	// Confirm requires a second decision, on facts from the API servers instead of the cache. It is set in two cases: the action can't be undone and
	// the cache may be stale, or the cache does not hold everything that the action writes.
	Confirm bool
	// Locked makes a patch apply only to the resource version of Old. If the object has changed since, the step does nothing, and the change triggers
	// another reconciliation.
	Locked bool
	// Part names the changed part of Object, if the provider can refuse that part alone. After a refusal, the next decision is made without this
	// part: see Env.LeftOut.
	Part string
	// Again asks for another decision immediately after the action, because the action is only the first of several.
	Again bool
	// After, if not zero, asks for a requeue after that time.
	After time.Duration
}

// MappingState is the state of a namespace's remote namespace.
type MappingState int

// Mapping states.
const (
	// MappingUnknown means that the NamespaceMap was not read yet. Nothing is concluded from this state.
	MappingUnknown MappingState = iota
	// Unmapped means that the namespace is not offloaded to this provider.
	Unmapped
	// MappingWanted means that the consumer requests a remote namespace, and the provider has none.
	MappingWanted
	// Mapped means that the remote namespace exists.
	Mapped
	// MappingTerminating means that the remote namespace is being deleted, or will be.
	MappingTerminating
)

// Mapping is the remote namespace of a local namespace, and its state.
type Mapping struct {
	State MappingState
	// Namespace is the name of the remote namespace; set with Mapped and MappingTerminating.
	Namespace string
	// Problem is the reason why the provider has not created the requested namespace; may be empty.
	Problem string
}

// MappingOf reads the mapping of a namespace from a NamespaceMap, which may be nil. Without a NamespaceMap the state is MappingWanted: nothing can be
// concluded about running pods, and no new pod is offloaded.
//
// The spec of the NamespaceMap is written by this cluster, the status by the provider. The status alone does not give the provider a namespace: a
// namespace in the status that the spec does not request, or no longer requests, is MappingTerminating.
func MappingOf(m *offloadingv1beta1.NamespaceMap, namespace string) Mapping {
	if m == nil {
		return Mapping{State: MappingWanted}
	}
	wanted, desired := m.Spec.DesiredMapping[namespace]
	current, found := m.Status.CurrentMapping[namespace]
	switch {
	case found && current.Phase == offloadingv1beta1.MappingAccepted && desired && current.RemoteNamespace == wanted:
		return Mapping{State: Mapped, Namespace: current.RemoteNamespace}
	case found && (current.Phase == offloadingv1beta1.MappingAccepted || current.Phase == offloadingv1beta1.MappingTerminating):
		return Mapping{State: MappingTerminating, Namespace: current.RemoteNamespace}
	case found && current.Phase == offloadingv1beta1.MappingCreationLoopBackOff:
		return Mapping{State: MappingWanted, Problem: "namespace " + current.RemoteNamespace + " can't be created there: " + whyNoRemoteNamespace}
	case desired:
		return Mapping{State: MappingWanted}
	default:
		return Mapping{State: Unmapped}
	}
}

// Env holds the facts that a decision about a pod depends on, besides the pod itself.
type Env struct {
	Mapping Mapping
	// RemoteSynced means that the provider responds and that the cache of the remote namespace is complete. While it is false, a missing remote
	// object does not mean that the object was deleted.
	RemoteSynced bool
	// RefusedSince is the time since when the provider refuses reads of the remote namespace, zero while it does not. Causes are a drained or removed
	// tenant, or broken RBAC. If RemoteSynced is true as well, the cache is complete, and the provider reports a drain or refused only a confirming read.
	RefusedSince time.Time
	// Drained means that the provider reports why it refuses reads: it drained or removed the tenant, so the pods in the remote namespace end.
	Drained bool
	// Since is when this process first observed the ShadowPod, the zero time if that is unknown.
	Since time.Time
	// Now is the current time of this cluster's clock.
	Now time.Time
	// LeftOut are the parts (Step.Part) that the provider refused during this reconciliation.
	LeftOut []string
	// Refusals are the provider's error messages for these parts, by part.
	Refusals map[string]string
	// Pod holds the facts about the virtual node.
	Pod podrules.Options
}

// Delays before the state of a normally starting pod is written to the local Pod. Most pods are ready before the delay ends, and need one status
// write instead of four. The longer delay applies until a node accepts the remote Pod: both Pods are Pending then, so there is nothing else to show.
const (
	startingGrace   = 3 * time.Second
	acceptanceGrace = 20 * time.Second
)

// Next decides what to do about a Pod of this virtual node. The argument local is the Pod in this cluster; shadow and remote are its ShadowPod and
// its Pod in the provider. Each may be nil, and shadow may belong to another owner. Next is a pure function: the same facts give the same step,
// whatever happened before. The sequence of steps is finite.
//
// An unreachable provider is never treated as a missing pod, a final phase never changes, and objects of other owners are never changed.
func Next(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	ours := shadow != nil && podrules.OwnsShadowPod(shadow, env.Pod)
	env.Pod.Now = env.Now
	switch {
	case env.Mapping.State == MappingUnknown:
		return Step{Why: "the namespace map was not read yet"}
	case !env.RefusedSince.IsZero() && (local == nil || local.DeletionTimestamp == nil && api.PodFinished(local)):
		return Step{Why: "the provider refuses access to the remote namespace", After: revokedGrace}
	case local == nil:
		return onLocalDeleted(shadow, ours, env)
	case local.DeletionTimestamp != nil:
		return onTerminating(local, shadow, remote, ours, env)
	case api.PodFinished(local):
		return finished(local, shadow, remote, ours, env)
	case !env.RefusedSince.IsZero() && env.Mapping.Namespace != "":
		return revoked(local, shadow, remote, env)
	case env.Mapping.State != Mapped && (!env.RemoteSynced || shadow == nil || !podrules.Offloaded(local)):
		return onUnmapped(local, env)
	case !env.RemoteSynced && env.Pod.Unavailable && podrules.Offloaded(local):
		return showStatus(local, podrules.Unreachable(local), "the provider is unreachable")
	case !env.RemoteSynced:
		return Step{Why: "the provider is unreachable, or its objects were not read yet"}
	case shadow == nil:
		return onShadowMissing(local, env)
	case !ours:
		return refuse(local, "a ShadowPod of that name exists in the provider and was not created by this virtual node")
	default:
		return onPresent(local, shadow, remote, env)
	}
}

// onLocalDeleted decides for a local Pod that was deleted, or that is on another node now.
func onLocalDeleted(shadow *offloadingv1beta1.ShadowPod, ours bool, env Env) Step {
	if !ours || !env.RemoteSynced {
		return Step{Why: "there is no pod"}
	}
	return deleteShadow(shadow, "the pod is gone", true)
}

// onTerminating decides for a local Pod that is being deleted. The Pod is removed once nothing of it is left in the provider. That takes at most the
// grace period of the Pod's spec, which the remote Pod has as well, or the grace period of the deletion.
func onTerminating(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, ours bool, env Env) Step {
	switch {
	case env.Mapping.State == Unmapped || env.Mapping.State == MappingWanted:
		return remove(local, "it is being deleted, and its namespace has no remote namespace")
	case !env.RemoteSynced && !env.RefusedSince.IsZero():
		limit := revokedLimit
		if env.Drained {
			limit = revokedGrace
		}
		if rest := limit - env.Now.Sub(env.RefusedSince); rest > 0 {
			return Step{Why: "it is being deleted, and the provider refuses access to the remote namespace", After: min(rest, drainRecheck)}
		}
		return remove(local, "it is being deleted, and the provider has revoked access to the remote namespace")
	case !env.RemoteSynced:
		return Step{Why: "it is being deleted, and the provider is unreachable"}
	case ours && shadow.DeletionTimestamp == nil:
		if seconds, asked := podrules.RequestedGrace(local); asked && kinds.MadeFor(shadow, local) {
			return withGracePeriod(seconds, local, shadow, remote, env)
		}
		return deleteShadow(shadow, "the pod is being deleted", false)
	case remote != nil && api.PodFinished(remote) && !api.PodFinished(local):
		return showStatus(local, podrules.PodStatus(local, remote, env.Pod), "the remote pod has ended")
	case ours || remote != nil:
		return Step{Why: "the remote pod is being deleted"}
	default:
		return remove(local, "the provider has neither its ShadowPod nor its Pod")
	}
}

// remove deletes a local Pod that has nothing running in the provider. A Pod with finalizers outlives its deletion, so it gets a final phase first,
// as a kubelet does. The Job controller, for example, holds the Pods of a Job with a podFailurePolicy until their phase is final.
func remove(local *corev1.Pod, why string) Step {
	if len(local.Finalizers) > 0 && !api.PodFinished(local) {
		return showStatus(local, podrules.Removed(local), why)
	}
	return Step{Action: DeleteLocal, Object: local, Why: why}
}

// graceTimeout is how long the provider may take to delete a Pod with a grace period other than the one in its spec. After that, its ShadowPod is
// deleted regardless.
const graceTimeout = 10 * time.Second

// withGracePeriod decides for a local Pod that has to terminate within the given seconds. A ShadowPod has no grace period. So the step first
// annotates the ShadowPod with the seconds, which lets the provider delete the remote Pod, and deletes the ShadowPod once that deletion has begun.
func withGracePeriod(seconds int64, local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	since := local.DeletionTimestamp.Add(-time.Duration(seconds) * time.Second)
	reported, found := podrules.Grace(shadow)
	switch rest := graceTimeout - env.Now.Sub(since); {
	case remote == nil || remote.DeletionTimestamp != nil || api.PodFinished(remote) || rest <= 0:
		return deleteShadow(shadow, "the pod is being deleted", false)
	case found && reported == seconds:
		return Step{Why: "the provider is about to delete the remote pod", After: min(rest, graceTimeout)}
	default:
		return Step{Action: PatchRemote, Object: podrules.WithGrace(shadow, seconds), Old: shadow, Why: fmt.Sprintf("the pod must terminate within %d s", seconds)}
	}
}

// finished decides for a local Pod in a final phase. If the provider did not record a final phase, it would recreate the remote Pod after a deletion,
// so the ShadowPod is deleted.
func finished(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, ours bool, env Env) Step {
	switch {
	case !ours || !env.RemoteSynced:
	case local.Status.Reason == offloadingv1beta1.PodOffloadingAborted:
		return deleteShadow(shadow, "its offloading was aborted", false)
	case kinds.MadeFor(shadow, local) && !api.PhaseFinal(shadow.Status.Phase) && (remote == nil || !api.PodFinished(remote)):
		return deleteShadow(shadow, "it has finished, and the provider would run it again", true)
	}
	return Step{Why: "it has finished"}
}

// onUnmapped decides for a Pod whose namespace has no usable remote namespace. It covers Pods that are not offloaded yet, and Pods whose ShadowPod is
// missing or can't be observed.
func onUnmapped(local *corev1.Pod, env Env) Step {
	switch {
	case !podrules.Offloaded(local):
		message := "namespace " + local.Namespace + " is not offloaded to cluster " + env.Pod.Destination
		if env.Mapping.Problem != "" {
			message += ": " + env.Mapping.Problem
		}
		return refuse(local, message)
	case env.Mapping.State == Unmapped:
		return abort(local, "namespace "+local.Namespace+" is no longer offloaded to cluster "+env.Pod.Destination, "its namespace is no longer offloaded")
	case env.Mapping.State == MappingTerminating && env.RemoteSynced:
		return onShadowMissing(local, env)
	case env.Mapping.State == MappingTerminating && env.Pod.Unavailable:
		return showStatus(local, podrules.Unreachable(local), "the provider is unreachable")
	default:
		return Step{Why: "the remote namespace does not exist at the moment"}
	}
}

// Times for which the provider must refuse access to the remote namespace without a reason before the Pod is aborted or refused. API servers that start,
// and RoleBindings that are recreated, refuse access for seconds. A reported drain needs no such time.
const (
	// revokedGrace applies when the ShadowPod is known to be deleted.
	revokedGrace = 30 * time.Second
	// revokedLimit applies when the state of the ShadowPod is unknown: its Pod may still run.
	revokedLimit = 5 * time.Minute
	// drainRecheck is the interval at which a Pod whose provider refuses access is reconciled, since a drain may be reported later than the refusal.
	drainRecheck = 5 * time.Second
)

// revoked decides for a Pod whose provider responds, and refuses access to the remote namespace. A provider that drains a tenant first revokes its rights and
// then deletes its ShadowPods. So no read can confirm the deletion of a ShadowPod. Instead, the provider's report of the drain confirms it.
func revoked(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	message := "cluster " + env.Pod.Destination + " refuses access to namespace " + env.Mapping.Namespace + ": it drained or removed the tenant of cluster " +
		env.Pod.Origin + ", or the RoleBinding there is missing; there, liqoctl activate tenant " + env.Pod.Origin + " ends a drain"
	grace, passed := revokedGrace, env.Now.Sub(env.RefusedSince)
	switch {
	case env.Drained:
		grace, message = 0, "cluster "+env.Pod.Destination+" drained or removed the tenant of cluster "+env.Pod.Origin+
			"; there, liqoctl activate tenant "+env.Pod.Origin+" ends a drain"
	case podrules.Offloaded(local) && !env.RemoteSynced:
		grace = revokedLimit
	}
	switch {
	case env.RemoteSynced && shadow != nil && !env.Drained:
		s := Step{Why: "the provider refuses access to the remote namespace"}
		if kinds.MadeFor(shadow, local) && passed >= drainRecheck { // there is no drain: the watches still report how the remote pod ends
			s = show(local, shadow, remote, env)
		}
		s.Confirm, s.After = false, revokedGrace
		if passed < drainRecheck {
			s.After = drainRecheck
		}
		return s
	case passed >= grace && podrules.Offloaded(local):
		return abort(local, message, "the provider revoked access to the remote namespace")
	case passed >= grace:
		return refuse(local, message)
	}
	s := Step{Why: "the provider refuses access to the remote namespace"}
	if podrules.Offloaded(local) && !env.RemoteSynced && passed >= revokedGrace {
		s = showStatus(local, podrules.Unreachable(local), "the provider refuses access to the remote namespace")
	}
	s.After = min(grace-passed, drainRecheck)
	return s
}

// onShadowMissing decides for a Pod without a ShadowPod. The annotation of the local Pod reports whether it had one (podrules.Offloaded).
func onShadowMissing(local *corev1.Pod, env Env) Step {
	if waiting := podrules.WaitsForAPIServer(local, env.Pod); waiting != "" && !podrules.Offloaded(local) {
		return Step{Why: waiting, Warning: "it is not offloaded yet: " + waiting}
	}
	if !podrules.Offloaded(local) {
		return Step{
			Action: CreateRemote, Object: podrules.ShadowPod(local, env.Mapping.Namespace, env.Pod), Why: "the pod is new",
			Warning: strings.Join(slices.Concat(
				podrules.Problems(local), podrules.AnnotationProblems(local, env.Pod), podrules.MissingObjects(local, env.Pod), podrules.ForeignNames(local, env.Pod), podrules.NamespaceValues(local, env.Pod),
				podrules.LongSearches(local, env.Pod),
			), "; "),
		}
	}
	s := abort(local, "cluster "+env.Pod.Destination+" removed the pod", "the provider removed its ShadowPod")
	s.Confirm = true
	return s
}

// abort sets the Pod to Failed with the message as its cause, and reports in an Event what happened and what to do.
func abort(local *corev1.Pod, message, why string) Step {
	s := showStatus(local, podrules.Aborted(local, message), why)
	s.Warning = "its offloading was aborted: " + message + "; the pod's controller creates another pod, or, if it has no controller, delete the pod and create it again"
	return s
}

// onPresent decides for a Pod whose ShadowPod exists and belongs to this node.
func onPresent(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	switch {
	case !kinds.MadeFor(shadow, local):
		if shadow.DeletionTimestamp == nil {
			return deleteShadow(shadow, "it belongs to an earlier pod of that name", true)
		}
		return Step{Why: "the ShadowPod of an earlier pod is being deleted"}
	case shadow.DeletionTimestamp != nil:
		return Step{Why: "the provider is deleting the ShadowPod"}
	}
	if out, changed := podrules.ShadowPodMetadata(shadow, local, remote, env.Pod); changed {
		return Step{Action: PatchRemote, Object: out, Old: shadow, Why: "labels or annotations changed"}
	}
	s := show(local, shadow, remote, env)
	// The provider may refuse a change of the specification. So labels and status are written first, and each part separately.
	if s.Action == Nothing && podrules.SpecChanged(shadow, local) {
		if change, found := podrules.ChangeSpec(shadow, local, env.LeftOut, env.Pod); found {
			return Step{
				Action: PatchRemote, Object: change.Shadow, Old: shadow, Why: "the specification changed: " + change.Part, Confirm: true,
				Part: change.Part, Again: change.More,
			}
		}
	}
	return s
}

// show makes the local Pod show the state of the remote Pod.
func show(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	switch {
	case remote == nil && api.PhaseFinal(shadow.Status.Phase):
		return showStatus(local, podrules.RemoteTerminated(local, shadow, env.Pod), "the remote pod had finished before it was removed")
	case remote == nil && api.PodReady(local): // it was shown as ready until its end, which is confirmed: see syncStatus
		s := showStatus(local, podrules.WithoutRemotePod(local), "the remote pod is gone, and its ShadowPod is not")
		s.Confirm = true
		return s
	case remote == nil:
		return Step{Why: "the provider has not created the pod yet, or is recreating it", Warning: missingObjects(local, env)}
	case !belongs(remote, shadow):
		return Step{Why: "the pod of an earlier ShadowPod is being deleted"}
	}
	return syncStatus(local, shadow, remote, env)
}

// syncStatus writes the state of the remote Pod to the local Pod. It skips the intermediate states of a normal start. The end of a remote Pod is
// confirmed: if the provider drains the tenant, the local Pod must be Failed at the first moment at which it is not ready, and the watch of the remote
// Pods may be ahead of the one that reports the deletion of the ShadowPod.
func syncStatus(local *corev1.Pod, shadow *offloadingv1beta1.ShadowPod, remote *corev1.Pod, env Env) Step {
	want := podrules.ShownStatus(local, shadow, remote, env.Refusals[podrules.PartResources], env.Pod)
	if podrules.Starting(&want.Status) && local.Status.Phase == corev1.PodPending && local.Status.Reason == "" {
		grace := startingGrace
		if len(want.Status.ContainerStatuses)+len(want.Status.InitContainerStatuses) == 0 {
			grace = acceptanceGrace
		}
		// When many pods are created at once, a pod waits for its ShadowPod. The delay therefore starts with the ShadowPod.
		began := bound(local)
		if env.Since.After(began) {
			began = env.Since
		}
		if rest := grace - env.Now.Sub(began); rest > 0 {
			return Step{Why: "it is starting", After: min(rest, grace), Warning: missingObjects(local, env)}
		}
	}
	s := showStatus(local, want, "the remote pod changed")
	s.Confirm = s.Action != Nothing && !remote.DeletionTimestamp.IsZero() && api.PodReady(local) && !api.PodReady(want) && !api.PodFinished(want)
	if want.Status.Phase == corev1.PodPending {
		s.Warning = missingObjects(local, env)
	}
	if problem := podrules.AddressProblem(remote, env.Pod); problem != nil {
		s.Warning = "the pod is shown without an address: " + problem.Error()
	}
	return s
}

// missingObjects returns the warning about the Secrets and ConfigMaps that a Pod needs and that are not copied. A pod that has not started is checked again
// after its creation, because the caches of Secrets and ConfigMaps may be older than that of Pods.
func missingObjects(local *corev1.Pod, env Env) string {
	return strings.Join(podrules.MissingObjects(local, env.Pod), "; ")
}

// bound returns when the Pod was bound to its node, by the clock of this cluster.
func bound(local *corev1.Pod) time.Time {
	for _, c := range local.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return local.CreationTimestamp.Time
}

// belongs reports whether the remote Pod was created for that ShadowPod. A remote Pod without an owner is matched by name.
func belongs(remote *corev1.Pod, shadow *offloadingv1beta1.ShadowPod) bool {
	return metav1.GetControllerOf(remote) == nil || OwnedBy(remote, shadow)
}

func deleteShadow(shadow *offloadingv1beta1.ShadowPod, why string, confirm bool) Step {
	if shadow.DeletionTimestamp != nil {
		return Step{Why: "the ShadowPod is being deleted"}
	}
	return Step{Action: DeleteRemote, Object: shadow, Why: why, Confirm: confirm}
}

// refuse writes to the Pod why it is not offloaded. It sets the warning even if the Pod has that status already: the process that wrote the status
// may have stopped before it reported the warning.
func refuse(local *corev1.Pod, message string) Step {
	s := showStatus(local, podrules.Refused(local, message), message)
	s.Warning = message
	return s
}

// Refuse returns the step to take after the provider refused the ShadowPod of local.
func Refuse(local *corev1.Pod, message string) Step { return refuse(local, message) }

// showStatus returns a step that writes want to the local Pod, or no write if both are equal.
func showStatus(local, want *corev1.Pod, why string) Step {
	if equality.Semantic.DeepEqual(local.Status, want.Status) && equality.Semantic.DeepEqual(local.Labels, want.Labels) &&
		equality.Semantic.DeepEqual(local.Annotations, want.Annotations) {
		return Step{Why: "it shows the remote state"}
	}
	return Step{Action: PatchLocalStatus, Object: want, Old: local, Why: why}
}
