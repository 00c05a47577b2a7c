package storage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/excerpt"
)

// Place is the cluster in which a process creates backing claims.
type Place struct {
	// Cluster is the ID of the provider, empty for this cluster.
	Cluster string
	// Origin is the ID of this cluster.
	Origin string
	// Tenant is the tenant namespace of the provider in this cluster, empty for this cluster.
	Tenant string
	// Namespace is the namespace of the backing claims. In this cluster it is the storage namespace, in a provider the remote namespace.
	Namespace string
	// RealClass is the configured class of backing claims in this cluster; empty means the default class.
	RealClass string
	// NamespaceClass is the class of backing claims in this cluster that an annotation of the claim's namespace requests; empty means RealClass.
	NamespaceClass string
	// Offered are the classes that the provider offers.
	Offered []authv1beta1.StorageType
	// Waiting, if not empty, is the reason why the objects in the provider are unknown now.
	Waiting string
	// Problem, if not empty, is the reason why claims of this namespace get no volume in the provider, with the cure.
	Problem string
}

// State is everything that the decision about one claim depends on.
type State struct {
	// UID identifies the decision and is part of the names of the backing claim and the virtual volume. It is the UID of the claim for which they were created.
	UID types.UID
	// Claim is the claim with that UID (see UIDs). Once the virtual volume exists, it is the claim in the volume's claimRef. It is nil if there is none.
	Claim *corev1.PersistentVolumeClaim
	// Classes are the StorageClasses of this cluster.
	Classes []storagev1.StorageClass
	// Node is the node that is selected for the claim, nil if there is none.
	Node *corev1.Node
	// Volume is the volume with the name of the virtual volume, nil if there is none. It may be an object that Liqo did not create.
	Volume *corev1.PersistentVolume
	// Abandoned means that Volume belongs to a provider that this cluster no longer uses. Its data can no longer be reached, and no other process decides about
	// the volume.
	Abandoned bool
	// Tenant is the tenant namespace of the provider of Volume, if this cluster has only one for it. It is empty for a provider.
	Tenant string
	// Place is the cluster for which this process decides.
	Place Place
	// Backing is the claim at Place with the name of the backing claim, nil if there is none. It may be an object that Liqo did not create.
	Backing *corev1.PersistentVolumeClaim
	// BackingVolume is the volume that Backing is bound to, nil if it is unknown. It is always unknown for a provider.
	BackingVolume *corev1.PersistentVolume
	// Key is the name of the claim in this cluster whose backing claim has the name of Backing. Reserved are the virtual volumes that were created, or are reserved, for
	// a claim of that name. Both are set only for a provider.
	Key      types.NamespacedName
	Reserved []*corev1.PersistentVolume
	// Recovered are the recovered volumes of this cluster. It is set only for a provider.
	Recovered []*corev1.PersistentVolume
	// Hidden means that the remote namespace has data of other claims that waits for its volume; see Waits. It is set only for a recovered volume in deletion.
	Hidden bool
	// Fresh means that Volume was created a few minutes ago. It is set only for a provider.
	Fresh bool
	// Listed means that the claims at Place are read, so that a nil Backing does not exist. It is set only for a provider.
	Listed bool
	// Volumes are all volumes of this cluster. The caller needs to read them only if NeedsVolumes.
	Volumes []corev1.PersistentVolume
	// Denied is the error with which the provider denies the backing claim of a move in a dry run; see Trial. It is empty if the provider permits it, or was not
	// asked.
	Denied string
	// Moving is the virtual volume whose unfinished move is for a claim of this name; see Moving. It is empty if there is none.
	Moving string
	// ByName means that the owner of a claim that looks ephemeral has no such volume: its pods mount the claim by name.
	ByName bool
	// Mounted means that a pod on a node of Place mounts the claim. It is set only for a provider.
	Mounted bool
}

// Action is what a Step does.
type Action int

// Actions. Each of them performs at most one write.
const (
	// Nothing means that there is nothing to write.
	Nothing Action = iota
	// CreateBacking, PatchBacking and DeleteBacking write the backing claim.
	CreateBacking
	PatchBacking
	DeleteBacking
	// CreateVolume, PatchVolume and DeleteVolume write the virtual volume.
	CreateVolume
	PatchVolume
	DeleteVolume
	// PatchClaim writes the metadata of the claim, PatchClaimStatus its status.
	PatchClaim
	PatchClaimStatus
	// ReserveVolume writes the backing claim to the claimRef of a volume that an administrator created.
	ReserveVolume
)

func (a Action) String() string {
	return [...]string{
		"nothing", "create backing claim", "patch backing claim", "delete backing claim", "create volume", "patch volume", "delete volume",
		"patch claim", "patch claim status", "reserve volume",
	}[a]
}

// Object is a claim or a volume.
type Object interface {
	metav1.Object
	runtime.Object
}

// Step is the next action for one claim.
type Step struct {
	Action Action
	// Object is the object that Action writes. The caller may change it.
	Object Object
	// Old is the version of Object before the change. A patch applies only to that version. The caller must not change it.
	Old Object
	// Why is the reason for the step: one clause for the log.
	Why string
	// Refused is a message for the user of the claim. It says why the claim gets no volume, or no larger one, and how to change that. It is empty if the claim
	// is not refused. With an Action, it is the reason for that Action.
	Refused string
	// AwaitsDriver means that the driver has not created the volume of the backing claim yet. If the driver can't, its Events on the backing claim say why.
	AwaitsDriver bool
	// Retry means that the decision may change without a change of the objects of the claim, so the caller has to repeat it after a while.
	Retry bool
	// Confirm means that the caller has to decide again with objects from the API servers instead of the cache. The action may be irreversible. Or it may be
	// wrong if the claim was deleted, or depend on a claim that Liqo did not create.
	Confirm bool
}

// Next decides what to do about one claim. The same state always results in the same step, and the sequence of steps is finite.
//
// Next never changes a claim or a volume that Liqo did not create, except that it reserves an available volume for a backing claim (see premade). It
// deletes a backing claim in two cases only. In the first, its virtual volume was released and has reclaim policy Delete. In the second, it never had a
// virtual volume and nothing needs one here. Next never deletes a retained backing claim. It retains a bound backing claim without a virtual volume, because
// that volume may be unknown only: a restore from an older backup, or an administrator, may have removed it. For one in a provider it creates the volume again,
// because only virtual volumes hold remote namespaces.
func Next(s State) Step {
	volume := s.virtual()
	switch {
	case s.Place.Waiting != "":
		return Step{Why: s.Place.Waiting}
	case volume != nil && s.Place.Cluster == "" && !s.labelled(volume):
		return s.label(volume)
	case volume != nil && s.clusterOfVolume() != s.Place.Cluster && (!s.Abandoned || !s.free(volume)):
		return s.orMisplaced(s.unused("the volume of the claim is in another cluster"))
	case volume != nil && !s.Abandoned && volume.Labels[LabelTenant] != s.Place.Tenant:
		return Step{Why: "the volume belongs to another peering"}
	case volume != nil && s.Place.Cluster != "" && reused(volume):
		return s.reused(volume)
	case volume != nil && s.free(volume):
		return s.released(volume)
	case s.Claim == nil:
		return s.unused("the claim is gone")
	case volume != nil:
		return s.provisioned(volume)
	case s.ahead():
		return s.pending()
	case s.Claim.Spec.VolumeName == VolumeName(s.UID):
		return s.lost()
	case s.Claim.Spec.VolumeName != "":
		return s.foreign("the claim is bound to a volume that Liqo did not create")
	default:
		return s.pending()
	}
}

// Concerns reports whether a claim has a class of Liqo.
func Concerns(claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) bool {
	class := ClassOf(claim, classes)
	return class != nil && class.Provisioner == Provisioner
}

// virtual returns Volume if it is the virtual volume of the claim, else nil.
func (s *State) virtual() *corev1.PersistentVolume {
	if s.Volume == nil || VolumeUID(s.Volume) != s.UID {
		return nil
	}
	return s.Volume
}

// ahead reports whether AnnotationAhead of the claim requests a second volume with this UID.
func (s *State) ahead() bool {
	_, uid := ahead(s.Claim)
	return uid != "" && uid == s.UID
}

// free reports whether no claim uses the virtual volume any more.
func (s *State) free(volume *corev1.PersistentVolume) bool {
	return s.Claim == nil || volume.Status.Phase == corev1.VolumeReleased
}

func (s *State) clusterOfVolume() string { return ClusterOf(s.Volume) }

// ours reports whether the backing claim was created for the claim. In a provider, it must also have the labels of this consumer, because others write claims
// there.
func (s *State) ours() bool {
	return s.Backing != nil && s.UID != "" && BackingUID(s.Backing) == s.UID &&
		(s.Place.Cluster == "" || s.Backing.Labels[api.LabelOrigin] == s.Place.Origin && s.Backing.Labels[api.LabelDestination] == s.Place.Cluster)
}

// disposable reports whether the backing claim may be deleted together with the virtual volume. Both must be in the same cluster, and the backing claim must
// not be retained. Otherwise a virtual kubelet could delete retained data: it can create a virtual volume with the name of a deleted one.
func (s *State) disposable() bool {
	return s.ours() && s.clusterOfVolume() == s.Place.Cluster && s.Backing.Annotations[AnnotationRetained] != api.True
}

// unused deletes a backing claim that never had a virtual volume and that nothing needs here.
func (s *State) unused(why string) Step {
	switch {
	case s.forgotten() && s.Claim == nil && s.full(): // the claims of this cluster need no limit
		return s.forgottenBeyondLimit()
	case s.forgotten():
		return s.recover()
	}
	if !s.ours() || s.Backing.DeletionTimestamp != nil || s.Backing.Annotations[AnnotationRetained] == api.True {
		return Step{Why: why}
	}
	if s.Backing.Spec.VolumeName != "" && s.Backing.Annotations[AnnotationRetained] != retainedCopy {
		return s.keep("it may have data, and this cluster does not know its virtual volume: " + why)
	}
	return Step{Action: DeleteBacking, Object: s.Backing, Why: why, Confirm: true}
}

// keep marks a backing claim as retained.
func (s *State) keep(why string) Step {
	kept := s.Backing.DeepCopy()
	annotate(&kept.ObjectMeta, AnnotationRetained, api.True)
	return Step{Action: PatchBacking, Object: kept, Old: s.Backing, Why: why, Confirm: true}
}

// foreign decides about a claim that Liqo does not provision. Its volume is not available to pods in a provider, unless the provider has a claim of that name
// that Liqo did not create.
func (s *State) foreign(why string) Step {
	step := s.unused(why)
	scheduled := s.Claim.Spec.VolumeName == "" && s.Node != nil && ProviderOf(s.Node) == s.Place.Cluster
	if step.Action == Nothing && s.Place.Cluster != "" && s.Backing == nil && !s.Mounted && scheduled {
		return s.refuseClass()
	}
	return s.orMisplaced(step)
}

// lost decides about a claim whose virtual volume was deleted, or whose volume Liqo did not create. The backing claim may hold data, so it is kept.
func (s *State) lost() Step {
	if s.forgotten() {
		return s.recover()
	}
	if s.Volume == nil && s.ours() {
		step := refuse("PersistentVolume %s of this claim was deleted, its data is in PersistentVolumeClaim %s in %s: copy the data to a new claim",
			VolumeName(s.UID), s.backingName(), s.where())
		step.Confirm = true // the cache of a virtual kubelet has no volume that lost its labels
		return step
	}
	return s.orMisplaced(Step{Why: "the claim is bound to a volume that Liqo did not create"})
}

// reused decides about a virtual volume of a provider to which a claim of another name is bound. The copies of pods mount claims by name, so pods in the provider can't
// mount it. The other claim uses the data nevertheless, so the data stays.
func (s *State) reused(volume *corev1.PersistentVolume) Step {
	data := DataOf(volume)
	if s.Claim == nil {
		return Step{Why: "claim " + ReservedFor(volume).String() + " uses the volume"}
	}
	return refuse("PersistentVolume %s has its data in PersistentVolumeClaim %s of cluster %s, and pods there mount claims by name: the claim of this volume must be %[2]s in namespace %[4]s. "+
		"Set persistentVolumeReclaimPolicy of the volume to Retain, which keeps the data, before you delete this claim. Then reserve the volume for that claim, and create "+
		"it with spec.volumeName %[1]s: kubectl patch pv %[1]s --type merge --patch '{\"spec\":{\"claimRef\":{\"namespace\":\"%[4]s\",\"name\":\"%[2]s\",\"uid\":null,\"resourceVersion\":null}}}'",
		volume.Name, data.Name, s.Place.Cluster, data.Namespace)
}

// released decides about a virtual volume whose claim was deleted. If a person deletes the volume, released does not wait until Kubernetes releases it, because
// it may never have been bound.
func (s *State) released(volume *corev1.PersistentVolume) Step {
	deleting := volume.DeletionTimestamp != nil
	switch {
	case volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return s.retain(volume, deleting)
	case !deleting && volume.Status.Phase != corev1.VolumeReleased:
		return Step{Why: "waiting for Kubernetes to release the volume"}
	case s.disposable() && s.Backing.DeletionTimestamp == nil:
		return Step{Action: DeleteBacking, Object: s.Backing, Why: "the volume is released, its reclaim policy is Delete", Confirm: true}
	case s.disposable():
		return Step{Why: "waiting for the deletion of the backing claim"}
	case !deleting:
		return Step{Action: DeleteVolume, Object: volume, Why: "its backing claim is gone", Confirm: true}
	default:
		return s.release(volume)
	}
}

// retain decides about a virtual volume whose claim is gone and whose reclaim policy is not Delete. It keeps the backing claim.
//
// In a provider, only the virtual volume keeps the remote namespace from being deleted, so the volume stays until the backing claim is gone. In this cluster, the
// storage namespace is never deleted, so the volume can be released. retain marks the backing claim before that, because the function unused may delete an
// unmarked backing claim without a virtual volume.
func (s *State) retain(volume *corev1.PersistentVolume, deleting bool) Step {
	switch {
	case s.Place.Cluster != "" && s.ours() && s.Backing.Annotations[AnnotationRetained] == api.True: // by an earlier release; it would outlive policy Delete
		unmarked := s.Backing.DeepCopy()
		annotate(&unmarked.ObjectMeta, AnnotationRetained, "")
		return Step{Action: PatchBacking, Object: unmarked, Old: s.Backing, Why: "its virtual volume decides about it", Confirm: true}
	case !deleting && s.dataGone(volume) && s.Fresh: // so a provider that creates and deletes claims causes no more than the limit of volumes in that time
		return Step{Why: "the data is gone, and the volume was created a few minutes ago", Retry: true}
	case !deleting && s.dataGone(volume):
		return Step{Action: DeleteVolume, Object: volume, Why: "it was created again for data that is gone", Confirm: true}
	case !deleting:
		return Step{Why: "the volume is retained"}
	case s.Place.Cluster != "" && s.ours():
		return Step{Why: "the volume holds the namespace of its retained data"}
	case s.disposable():
		return s.keep("the reclaim policy of its volume is " + string(volume.Spec.PersistentVolumeReclaimPolicy))
	default:
		return s.release(volume)
	}
}

// release removes the finalizer of a virtual volume.
func (s *State) release(volume *corev1.PersistentVolume) Step {
	switch {
	case !slices.Contains(volume.Finalizers, Finalizer):
		return Step{Why: "the volume is being deleted"}
	case s.Hidden && !s.held():
		return Step{Why: "the volume holds the namespace of other data, which gets its volume first", Retry: true}
	}
	free := volume.DeepCopy()
	free.Finalizers = slices.DeleteFunc(free.Finalizers, func(f string) bool { return f == Finalizer })
	return Step{Action: PatchVolume, Object: free, Old: volume, Why: "nothing is left to do for its backing claim", Confirm: true}
}

// provisioned decides about a claim that has a virtual volume at Place.
func (s *State) provisioned(volume *corev1.PersistentVolume) Step {
	switch {
	case volume.DeletionTimestamp != nil && s.Claim.Spec.VolumeName == "" && s.Claim.UID != s.UID:
		return s.released(volume) // it has the data of an earlier claim
	case volume.DeletionTimestamp != nil && s.Claim.Spec.VolumeName == "":
		return s.release(volume) // Kubernetes never bound it, so no pod used it; Liqo creates another one
	case volume.DeletionTimestamp != nil:
		return Step{Why: "the volume is deleted together with its claim"}
	case s.Claim.Spec.VolumeName != volume.Name:
		return Step{Why: "waiting for Kubernetes to bind the volume"}
	case s.backedByPod():
		return Step{Why: "the claim has its volume"}
	case !s.ours():
		return refuse("the backing claim of volume %s, PersistentVolumeClaim %s in %s, was deleted or replaced by another one: restore its data from a backup to a new claim",
			volume.Name, s.backingName(), s.where())
	case s.Backing.Annotations[AnnotationRetained] == retainedCopy || s.Place.Cluster == "" && s.Backing.Annotations[AnnotationRetained] == api.True:
		used := s.Backing.DeepCopy()
		annotate(&used.ObjectMeta, AnnotationRetained, "")
		return Step{Action: PatchBacking, Object: used, Old: s.Backing, Why: "its virtual volume is bound, and decides about it from now on", Confirm: true}
	default:
		return s.grow(volume)
	}
}

// pending decides about a claim without a volume.
func (s *State) pending() Step {
	if !Concerns(s.Claim, s.Classes) {
		return s.foreign("its StorageClass is not one of Liqo")
	}
	if err := s.unsupported(); err != nil {
		if s.Place.Cluster != "" { // the controller manager of this cluster reports the refusal
			return Step{Why: err.Error()}
		}
		return refuse("%s", err)
	}
	if s.Moving != "" && s.Claim.Annotations[AnnotationMove] == "" && !s.ahead() {
		return refuse("the data of PersistentVolumeClaim %s in namespace %s is in PersistentVolume %s, and its move to another node is unfinished. A claim of this name gets no empty volume meanwhile. "+
			"liqoctl doctor names the nodes: continue or cancel the move (liqoctl move volume %[1]s --namespace %[2]s --target-node NODE)", s.Claim.Name, s.Claim.Namespace, s.Moving)
	}
	node := SelectedNode(s.Claim, s.UID)
	switch {
	case node == "" && s.ahead():
		return Step{Why: "the driver can't create the volume for the node"}
	case node == "" && s.forgotten():
		return s.recover()
	case node == "":
		return s.orMisplaced(Step{Why: "waiting for the first pod of the claim to be scheduled"})
	case s.Node == nil && s.mayReselect():
		again := s.Claim.DeepCopy()
		annotate(&again.ObjectMeta, AnnotationSelectedNode, "")
		return Step{Action: PatchClaim, Object: again, Old: s.Claim, Why: "node " + node + " does not exist, so the scheduler selects another one", Confirm: true}
	case s.Node == nil:
		return Step{Why: "node " + node + " does not exist"}
	case ProviderOf(s.Node) != s.Place.Cluster:
		return s.unused("the pod of the claim is scheduled in another cluster")
	case s.stuck():
		return s.disown()
	case s.Claim.DeletionTimestamp != nil:
		return Step{Why: "the claim is being deleted"}
	case s.Place.Problem != "":
		return refuse("%s", s.Place.Problem)
	case s.backedByPod():
		return s.createVolume("the copy of its pod has a claim of its own")
	case s.Backing == nil:
		return s.createBacking(node)
	case s.Backing.DeletionTimestamp != nil:
		return Step{Why: "waiting for the deletion of claim " + s.backingName()}
	case !s.ours():
		return s.foreignBacking()
	case s.Backing.Status.Phase == corev1.ClaimLost:
		return refuse("PersistentVolume %s of PersistentVolumeClaim %s in %s does not exist any more: restore it, if it had data that is needed, or use a claim with another name",
			s.Backing.Spec.VolumeName, s.backingName(), s.where())
	case s.Place.Cluster == "" && !s.bound():
		return s.reselect(node)
	case s.Claim.Annotations[AnnotationMove] != "":
		return refuse("the data of the claim is being moved to node %s: if liqoctl has ended, run liqoctl move volume %s --namespace %s --target-node %s again",
			node, s.Claim.Name, s.Claim.Namespace, node)
	default:
		return s.createVolume("its backing claim exists")
	}
}

// mayReselect reports whether the selected node may be removed from the claim. Only the controller manager of this cluster does that, because other processes know
// their own nodes only. A move selects its node itself.
func (s *State) mayReselect() bool {
	return s.Place.Cluster == "" && !s.ahead() && s.Claim.Annotations[AnnotationMove] == "" && s.Claim.DeletionTimestamp == nil
}

// stuck reports whether an unbound backing claim in a provider waits for a virtual volume that Liqo does not create now. Liqo creates no virtual volume for a
// claim that is being deleted, and none during a move. Users can cause both at any time, with a finalizer or with AnnotationMove.
func (s *State) stuck() bool {
	return s.Place.Cluster != "" && s.ours() && s.Backing.DeletionTimestamp == nil && s.Backing.Spec.VolumeName == "" && s.Backing.Annotations[AnnotationRetained] == "" &&
		(s.Claim.DeletionTimestamp != nil || s.Claim.Annotations[AnnotationMove] != "")
}

// foreignBacking refuses a claim because the claim at Place with the name of its backing claim was not created for it. That claim may have the data of an earlier
// claim, so the message names it by its UIDs, and does not advise to delete it. A provider may write any text as UID.
func (s *State) foreignBacking() Step {
	whose := "was not created by Liqo"
	if uid := BackingUID(s.Backing); uid != "" {
		whose = fmt.Sprintf("was created for an earlier claim (UID %s)", excerpt.Line(string(uid), longestUID))
	}
	for _, v := range s.Reserved {
		if VolumeUID(v) == BackingUID(s.Backing) && ClusterOf(v) == s.Place.Cluster && Unclaimed(v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			return refuse("PersistentVolumeClaim %s in %s has the data of an earlier claim, and PersistentVolume %s is its volume. %s", shown(s.backingName()), s.where(), v.Name, reuse(v))
		}
	}
	return refuse("PersistentVolumeClaim %s exists in %s (UID %s) and %s: it may have data that is needed, so it stays as it is. Use a claim with another name. If this claim is to "+
		"have that data, find out how it was replaced: liqoctl doctor names unfinished moves and retained volumes", s.backingName(), s.where(), excerpt.Line(string(s.Backing.UID), longestUID), whose)
}

// longestUID is the length of a UID that Kubernetes creates.
const longestUID = 36

// disown marks a backing claim without data, so that unused deletes it even if it is bound later. Otherwise its storage would stay allocated without a user,
// and the quota of the claim's namespace would not count it.
func (s *State) disown() Step {
	empty := s.Backing.DeepCopy()
	annotate(&empty.ObjectMeta, AnnotationRetained, retainedCopy)
	return Step{Action: PatchBacking, Object: empty, Old: s.Backing, Why: "it has no data, and gets no virtual volume for now", Confirm: true}
}

// backedByPod reports whether the data is in an ephemeral claim that Kubernetes created in the provider for the copy of the pod. Once the virtual volume exists, it
// says so.
func (s *State) backedByPod() bool {
	if volume := s.virtual(); volume != nil && s.Place.Cluster != "" {
		return volume.Annotations[annotationEphemeral] == api.True
	}
	return s.Place.Cluster != "" && api.Ephemeral(s.Claim) && !s.ByName && !s.ours()
}

func (s *State) createVolume(why string) Step {
	if s.Volume != nil {
		return refuse("PersistentVolume %s exists and was not created by Liqo, so it stays as it is, and the claim gets no volume: find out who created it and which data it has, or "+
			"use a claim with another name", s.Volume.Name)
	}
	return Step{Action: CreateVolume, Object: s.newVolume(), Why: why, Confirm: true}
}

// bound reports whether the backing claim is bound and its volume is known.
func (s *State) bound() bool {
	return s.Backing.Status.Phase == corev1.ClaimBound && s.BackingVolume != nil && s.BackingVolume.Name == s.Backing.Spec.VolumeName
}

// reselect copies the selected node to an unbound backing claim. If the driver rejects the node, reselect removes the node from the claim as well.
func (s *State) reselect(node string) Step {
	selected, written, refused := s.Backing.Annotations[AnnotationSelectedNode], s.Backing.Annotations[annotationNode], s.Backing.Annotations[annotationRefused]
	next := s.Backing.DeepCopy()
	step := Step{Action: PatchBacking, Object: next, Old: s.Backing}
	switch {
	case s.Backing.Spec.VolumeName != "":
		return Step{Why: "waiting for Kubernetes to bind the backing claim"}
	case s.NeedsVolumes():
		return s.premade(node)
	case written == node && selected == node:
		return Step{Why: "waiting for the driver to create the volume", AwaitsDriver: true}
	case written == node && selected == "" && refused == "":
		annotate(&next.ObjectMeta, annotationRefused, s.Claim.ResourceVersion)
		step.Why = "the driver refused node " + node
	case selected == "" && refused == s.Claim.ResourceVersion:
		return s.deselect("the driver can't create the volume for node " + node)
	default:
		annotate(&next.ObjectMeta, AnnotationSelectedNode, node)
		annotate(&next.ObjectMeta, annotationNode, node)
		annotate(&next.ObjectMeta, annotationRefused, "")
		step.Why = "node " + node + " is selected"
	}
	return step
}

// unsupported returns the reason why a claim can't have a volume of Liqo in any cluster, nil if it can.
func (s *State) unsupported() error {
	spec := &s.Claim.Spec
	source := func(field, kind, name string) error {
		return fmt.Errorf("%s %s %s is not supported by StorageClass %s, since snapshots and clones stay within one driver: "+
			"leave it out and copy the data, or use a class of the cluster that has it", field, kind, name, *spec.StorageClassName)
	}
	class := ClassOf(s.Claim, s.Classes)
	switch {
	case s.Place.Cluster == "" && s.Claim.Namespace == s.Place.Namespace:
		return fmt.Errorf("namespace %s holds the claims behind those of StorageClass %s: create this claim in another namespace", s.Claim.Namespace, class.Name)
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return fmt.Errorf("volumeBindingMode of StorageClass %s is not %s, so no pod decides in which cluster the volume is: use a class that has this mode",
			class.Name, storagev1.VolumeBindingWaitForFirstConsumer)
	case spec.DataSourceRef != nil:
		return source("spec.dataSourceRef", spec.DataSourceRef.Kind, spec.DataSourceRef.Name)
	case spec.DataSource != nil:
		return source("spec.dataSource", spec.DataSource.Kind, spec.DataSource.Name)
	case spec.Selector != nil:
		return fmt.Errorf("spec.selector is not supported by StorageClass %s, which creates volumes: leave it out", class.Name)
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		return fmt.Errorf("spec.volumeAttributesClassName %s is not supported by StorageClass %s: leave it out", *spec.VolumeAttributesClassName, class.Name)
	}
	return nil
}

// where describes the namespace of the backing claim to users.
func (s *State) where() string {
	if s.Place.Cluster == "" {
		return "namespace " + s.Place.Namespace
	}
	return "namespace " + s.Place.Namespace + " of cluster " + s.Place.Cluster
}

func refuse(format string, args ...any) Step {
	message := fmt.Sprintf(format, args...)
	return Step{Why: message, Refused: message}
}
