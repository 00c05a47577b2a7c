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
)

// Place is a cluster in which a process creates backing claims.
type Place struct {
	// Cluster is the ID of the provider, empty for this cluster.
	Cluster string
	// Origin is the ID of this cluster.
	Origin string
	// Tenant is the tenant namespace of the provider in this cluster, empty for this cluster.
	Tenant string
	// Namespace is the namespace of the backing claims: the storage namespace, or the remote namespace.
	Namespace string
	// RealClass is the configured class of backing claims in this cluster; empty means the default class.
	RealClass string
	// NamespaceClass is the class of backing claims in this cluster that the namespace of the claim asks for; empty means RealClass.
	NamespaceClass string
	// Offered are the classes that the provider offers.
	Offered []authv1beta1.StorageType
	// Waiting, if not empty, is the reason why it is not known at the moment what exists in the provider.
	Waiting string
	// Problem, if not empty, is the reason why claims of this namespace get no volume in the provider, with the cure.
	Problem string
}

// State is everything that the decision about one claim depends on.
type State struct {
	// UID is the UID of the claim that the backing claim and the virtual volume are named after.
	UID types.UID
	// Claim is the claim with that UID, or, once there is a virtual volume, the claim that the volume is reserved for. It is nil if there is none.
	Claim *corev1.PersistentVolumeClaim
	// Classes are the StorageClasses of this cluster.
	Classes []storagev1.StorageClass
	// Node is the node that is selected for the claim, nil if it does not exist.
	Node *corev1.Node
	// Volume is the volume with the name of the virtual volume, nil if there is none. It may belong to somebody else.
	Volume *corev1.PersistentVolume
	// Abandoned tells that Volume belongs to a provider that this cluster no longer uses. Nothing can be done about its data, and no other process decides
	// about the volume.
	Abandoned bool
	// Place is the cluster for which this process decides.
	Place Place
	// Backing is the claim with the name of the backing claim at Place, nil if there is none. It may belong to somebody else.
	Backing *corev1.PersistentVolumeClaim
	// BackingVolume is the volume that Backing is bound to, nil if it is unknown. It is never known for a provider.
	BackingVolume *corev1.PersistentVolume
	// Mounted tells that a pod on a node of Place mounts the claim. It is only known for a provider.
	Mounted bool
}

// Action is what a Step does.
type Action int

// Actions. Each of them performs at most one write.
const (
	// Nothing means that no write is due.
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
)

func (a Action) String() string {
	return [...]string{
		"nothing", "create backing claim", "patch backing claim", "delete backing claim", "create volume", "patch volume", "delete volume",
		"patch claim", "patch claim status",
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
	// Object is the object that Action writes. It belongs to the receiver.
	Object Object
	// Old is the object that Object was derived from, for patches, which apply only to that version. The receiver must not change it.
	Old Object
	// Why is the reason for the step: one clause for the log.
	Why string
	// Refused is a message for the user of the claim: why it gets no volume, or no larger one, and the cure. Empty for none.
	Refused string
	// AwaitsDriver tells that the driver has still to create the volume of the backing claim. Its Events on that claim say why it does not.
	AwaitsDriver bool
	// Confirm requires a second decision, on objects that are read from the API servers and not from a cache: the action can't be undone, it would be wrong
	// for a claim that is gone, or it depends on a claim that Liqo did not create.
	Confirm bool
}

// Next decides what to do about one claim. The same state gives the same step, whatever happened before, and the sequence of steps is finite.
//
// Next never changes a claim or a volume of somebody else. It deletes a backing claim in two cases only: its virtual volume was released and has reclaim
// policy Delete, or no virtual volume was ever created and nothing needs one here. It never deletes a retained one.
func Next(s State) Step {
	volume := s.virtual()
	switch {
	case s.Place.Waiting != "":
		return Step{Why: s.Place.Waiting}
	case volume != nil && s.clusterOfVolume() != s.Place.Cluster && (!s.Abandoned || !s.free(volume)):
		return s.unused("the volume of the claim is in another cluster")
	case volume != nil && !s.Abandoned && volume.Labels[LabelTenant] != s.Place.Tenant:
		return Step{Why: "the volume belongs to another peering"}
	case volume != nil && s.free(volume):
		return s.released(volume)
	case s.Claim == nil:
		return s.unused("the claim is gone")
	case volume != nil:
		return s.provisioned(volume)
	case s.Claim.Spec.VolumeName == VolumeName(s.UID):
		return s.lost()
	case s.Claim.Spec.VolumeName != "":
		return s.foreign("the claim is bound to a volume that Liqo did not create")
	default:
		return s.pending()
	}
}

// Concerns tells whether a claim is one of Liqo's: its class has the provisioner of Liqo.
func Concerns(claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass) bool {
	class := ClassOf(claim, classes)
	return class != nil && class.Provisioner == Provisioner
}

// virtual returns the volume if it is the virtual volume of the claim.
func (s *State) virtual() *corev1.PersistentVolume {
	if s.Volume == nil || VolumeUID(s.Volume) != s.UID {
		return nil
	}
	return s.Volume
}

// free tells whether no claim uses the virtual volume any more.
func (s *State) free(volume *corev1.PersistentVolume) bool {
	return s.Claim == nil || volume.Status.Phase == corev1.VolumeReleased
}

func (s *State) clusterOfVolume() string { return s.Volume.Labels[api.LabelRemoteClusterID] }

// ours tells whether the backing claim was created for the claim. The metadata of a claim in a provider proves it only together with the origin.
func (s *State) ours() bool {
	return s.Backing != nil && s.UID != "" && BackingUID(s.Backing) == s.UID &&
		(s.Place.Cluster == "" || s.Backing.Labels[api.LabelOrigin] == s.Place.Origin && s.Backing.Labels[api.LabelDestination] == s.Place.Cluster)
}

// disposable tells whether the backing claim goes with the virtual volume. Only a volume of the same cluster speaks for it, and never for retained data:
// a virtual kubelet can create a volume with the name of one that is gone.
func (s *State) disposable() bool {
	return s.ours() && s.clusterOfVolume() == s.Place.Cluster && s.Backing.Annotations[AnnotationRetained] != api.True
}

// unused deletes a backing claim that never got a virtual volume and that nothing needs here.
func (s *State) unused(why string) Step {
	if !s.ours() || s.Backing.DeletionTimestamp != nil || s.Backing.Annotations[AnnotationRetained] == api.True {
		return Step{Why: why}
	}
	return Step{Action: DeleteBacking, Object: s.Backing, Why: why, Confirm: true}
}

// foreign decides about a claim that is not one of Liqo. A pod in a provider can't use it, unless the provider has a claim of that name from somebody else.
func (s *State) foreign(why string) Step {
	step := s.unused(why)
	scheduled := s.Claim.Spec.VolumeName == "" && s.Node != nil && ProviderOf(s.Node) == s.Place.Cluster
	if step.Action != Nothing || s.Place.Cluster == "" || s.Backing != nil || !s.Mounted && !scheduled || s.Mounted && Ephemeral(s.Claim) {
		return step
	}
	class := "no StorageClass"
	if named := s.Claim.Spec.StorageClassName; named != nil && *named != "" {
		class = "StorageClass " + *named
	}
	step = refuse("the claim has %s, whose volumes are in this cluster only, and its pod is scheduled on a virtual node of cluster %s: use a claim of StorageClass %s, "+
		"keep the pod off virtual nodes (node affinity with %s DoesNotExist), or create PersistentVolumeClaim %s in %s",
		class, s.Place.Cluster, s.ownClass(), api.LabelType, s.Claim.Name, s.where())
	step.Confirm = true // caches hold only claims that Liqo created
	return step
}

// ownClass returns the name of a class of Liqo.
func (s *State) ownClass() string {
	for i := range s.Classes {
		if s.Classes[i].Provisioner == Provisioner {
			return s.Classes[i].Name
		}
	}
	return "liqo"
}

// lost decides about a claim whose virtual volume is gone, or has never been one of Liqo. The backing claim may hold data, so it stays.
func (s *State) lost() Step {
	if s.Volume == nil && s.ours() {
		return refuse("PersistentVolume %s of this claim is gone, its data is in PersistentVolumeClaim %s in %s: copy the data to a new claim, and delete this one",
			VolumeName(s.UID), s.backingName(), s.where())
	}
	return Step{Why: "the claim is bound to a volume that Liqo did not create"}
}

// released decides about a virtual volume whose claim is gone. A volume that a person deletes need not be released before: it may have had no claim.
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
		return release(volume)
	}
}

// retain keeps the backing claim of a virtual volume. It marks the backing claim before the volume is gone: afterwards it would look like a backing claim
// that never got a volume.
func (s *State) retain(volume *corev1.PersistentVolume, deleting bool) Step {
	switch {
	case !deleting:
		return Step{Why: "the volume is retained"}
	case s.disposable():
		kept := s.Backing.DeepCopy()
		annotate(&kept.ObjectMeta, AnnotationRetained, api.True)
		why := "the reclaim policy of its volume is " + string(volume.Spec.PersistentVolumeReclaimPolicy)
		return Step{Action: PatchBacking, Object: kept, Old: s.Backing, Why: why, Confirm: true}
	default:
		return release(volume)
	}
}

// release removes the finalizer of a virtual volume.
func release(volume *corev1.PersistentVolume) Step {
	if !slices.Contains(volume.Finalizers, Finalizer) {
		return Step{Why: "the volume is being deleted"}
	}
	free := volume.DeepCopy()
	free.Finalizers = slices.DeleteFunc(free.Finalizers, func(f string) bool { return f == Finalizer })
	return Step{Action: PatchVolume, Object: free, Old: volume, Why: "its backing claim is decided about", Confirm: true}
}

// provisioned decides about a claim that has a virtual volume here.
func (s *State) provisioned(volume *corev1.PersistentVolume) Step {
	switch {
	case volume.DeletionTimestamp != nil && s.Claim.Spec.VolumeName == "":
		return release(volume) // Kubernetes binds no such volume, so no pod used it; another one follows
	case volume.DeletionTimestamp != nil:
		return Step{Why: "the volume is deleted together with its claim"}
	case s.Claim.Spec.VolumeName != volume.Name:
		return Step{Why: "waiting for Kubernetes to bind the volume"}
	case s.backedByPod():
		return Step{Why: "the claim has its volume"}
	case !s.ours():
		return refuse("the claim behind volume %s is gone, PersistentVolumeClaim %s in %s: restore it from a backup, or delete this claim",
			volume.Name, s.backingName(), s.where())
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
		if s.Place.Cluster != "" { // the controller manager reports it
			return Step{Why: err.Error()}
		}
		return refuse("%s", err)
	}
	node := s.Claim.Annotations[AnnotationSelectedNode]
	switch {
	case node == "":
		return Step{Why: "waiting for the first pod of the claim to be scheduled"}
	case s.Node == nil:
		return Step{Why: "node " + node + " does not exist"}
	case ProviderOf(s.Node) != s.Place.Cluster:
		return s.unused("the pod of the claim is scheduled in another cluster")
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
		return refuse("PersistentVolumeClaim %s exists in %s and does not belong to this claim: delete it there, or give this claim another name",
			s.backingName(), s.where())
	case s.Backing.Status.Phase == corev1.ClaimLost:
		return refuse("the volume of PersistentVolumeClaim %s in %s is lost: delete this claim and create it again", s.backingName(), s.where())
	case s.Place.Cluster == "" && !s.bound():
		return s.reselect(node)
	case s.Claim.Annotations[AnnotationMove] != "":
		return refuse("the data of the claim is being moved to node %s: if liqoctl has ended, run liqoctl move volume %s --namespace %s --target-node %s again",
			node, s.Claim.Name, s.Claim.Namespace, node)
	default:
		return s.createVolume("its backing claim exists")
	}
}

// backedByPod tells whether the data is in a claim that belongs to the copy of the claim's pod in a provider.
func (s *State) backedByPod() bool { return s.Place.Cluster != "" && Ephemeral(s.Claim) }

func (s *State) createVolume(why string) Step {
	if s.Volume != nil {
		return refuse("PersistentVolume %s exists and was not created by Liqo: delete it", s.Volume.Name)
	}
	return Step{Action: CreateVolume, Object: s.newVolume(), Why: why, Confirm: true}
}

// bound tells whether the backing claim is bound to a known volume.
func (s *State) bound() bool {
	return s.Backing.Status.Phase == corev1.ClaimBound && s.BackingVolume != nil && s.BackingVolume.Name == s.Backing.Spec.VolumeName
}

// reselect passes the selected node on to an unbound backing claim, and passes on to the claim that the driver refused the node.
func (s *State) reselect(node string) Step {
	selected, written, refused := s.Backing.Annotations[AnnotationSelectedNode], s.Backing.Annotations[annotationNode], s.Backing.Annotations[annotationRefused]
	next := s.Backing.DeepCopy()
	step := Step{Action: PatchBacking, Object: next, Old: s.Backing}
	switch {
	case s.Backing.Spec.VolumeName != "":
		return Step{Why: "waiting for Kubernetes to bind the backing claim"}
	case written == node && selected == node:
		return Step{Why: "waiting for the driver to create the volume", AwaitsDriver: true}
	case written == node && selected == "" && refused == "":
		annotate(&next.ObjectMeta, annotationRefused, s.Claim.ResourceVersion)
		step.Why = "the driver refused node " + node
	case selected == "" && refused == s.Claim.ResourceVersion:
		again := s.Claim.DeepCopy()
		annotate(&again.ObjectMeta, AnnotationSelectedNode, "")
		return Step{Action: PatchClaim, Object: again, Old: s.Claim, Why: "the driver can't create the volume for node " + node}
	default:
		annotate(&next.ObjectMeta, AnnotationSelectedNode, node)
		annotate(&next.ObjectMeta, annotationNode, node)
		annotate(&next.ObjectMeta, annotationRefused, "")
		step.Why = "node " + node + " is selected"
	}
	return step
}

// unsupported returns why a claim can't have a volume of Liqo in any cluster, nil if it can.
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

// where names the namespace of the backing claim for users.
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
