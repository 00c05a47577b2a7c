package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
)

// View is a read-only cache of the objects of one kind. Its objects must not be changed.
type View interface {
	// Synced reports whether the content is complete.
	Synced() bool
	// Get returns an object, nil if there is none.
	Get(namespace, name string) client.Object
	List() []client.Object
	// With returns the objects that have this value in the index of the View.
	With(value string) []client.Object
	// Wrote stores an object that was just written or read. After that, Get returns this version or a later one.
	Wrote(obj client.Object)
}

// RemoteOptions are the dependencies of RemoteClaims.
type RemoteOptions struct {
	// Origin is the ID of this cluster, Cluster is the ID of the provider, and Tenant is the provider's tenant namespace in this cluster.
	Origin, Cluster, Tenant string
	// Virtual holds the virtual volumes of all clusters, indexed by the name of their claim, and recovered ones also by storage.IndexRecovered. Classes holds the StorageClasses of this cluster.
	Virtual, Classes View
	// HasNode reports whether a node is a virtual node of the provider.
	HasNode func(name string) bool
	// Offered returns the classes that the provider offers.
	Offered func() []authv1beta1.StorageType
	// Backing returns the backing claims in the remote namespace of a namespace, from a cache. They are all there if the facts about a claim of the namespace are Complete.
	Backing func(namespace string) []client.Object
	// Mapped reports whether a namespace has a remote namespace.
	Mapped func(namespace string) bool
	// Enqueue enqueues a claim of this cluster, so that Next is called for it.
	Enqueue func(types.NamespacedName)
	// Refusals reports why claims get no volume.
	Refusals *Refusals
}

// freshness is the minimum age of a recovered volume that is deleted because its data is gone.
const freshness = 10 * time.Minute

// RemoteClaims decides about the claims whose data is, or could be, in one provider. It uses package storage.
type RemoteClaims struct {
	opts RemoteOptions

	mu sync.Mutex
	// mounted maps each claim to the pods on virtual nodes that mount it.
	mounted map[types.NamespacedName]map[types.NamespacedName]bool
	// byName are the UIDs of claims that look ephemeral, and whose owner has no such volume; see storage.State.
	byName map[types.NamespacedName]types.UID
	// denied has the provider's error for each claim whose backing claim it denied in the dry run of a move.
	denied map[types.NamespacedName]denial
}

// denial is the provider's error about the claim with that UID in this cluster.
type denial struct {
	claim   types.UID
	message string
}

// trialTimeout bounds how long a provider may take to check a claim: a worker waits for it.
const trialTimeout = 10 * time.Second

// longestDenial is the maximum length, in bytes, of a provider's error in a condition.
const longestDenial = 512

// NewRemoteClaims returns RemoteClaims without pods.
func NewRemoteClaims(opts RemoteOptions) *RemoteClaims {
	return &RemoteClaims{
		opts: opts, mounted: map[types.NamespacedName]map[types.NamespacedName]bool{}, byName: map[types.NamespacedName]types.UID{},
		denied: map[types.NamespacedName]denial{},
	}
}

// RemoteFacts describe the objects with the name of one claim, in this cluster and in the provider.
type RemoteFacts struct {
	// Key is the name of the claim in this cluster. Claim is the claim in this cluster, Backing the backing claim in the provider. Each is nil if it does not
	// exist.
	Key            types.NamespacedName
	Claim, Backing *corev1.PersistentVolumeClaim
	// Namespace is the remote namespace. Unmapped means that the remote namespace and all its objects were deleted.
	Namespace string
	Unmapped  bool
	// Complete means that the remote namespace exists and that its claims are read. So a nil Backing means that there is no backing claim.
	Complete bool
}

// Next returns the next step for all claims that have, or had, the name in the facts. These are the claim in this cluster, the former claim whose backing claim
// is still in the provider, and former claims whose virtual volumes still exist. If no write is due and the claim in this cluster is refused, the step has the
// reason. The caches must be complete.
func (r *RemoteClaims) Next(f *RemoteFacts) storage.Step {
	if f.Claim == nil {
		r.forget(f.Key)
	}
	out, bound := storage.Step{Why: "there is no claim"}, false
	for _, uid := range r.uids(f) {
		step := storage.Next(r.state(f, uid))
		if step.Action != storage.Nothing {
			return step
		}
		out.Why, out.Retry = step.Why, out.Retry || step.Retry
		if f.Claim != nil && step.Refused != "" && !bound {
			out.Refused, out.Confirm = step.Refused, step.Confirm
			bound = storage.VolumeName(uid) == f.Claim.Spec.VolumeName // the claim has this volume, whatever its own UID is
		}
	}
	if step := r.vouch(f); step.Action != storage.Nothing {
		return step
	}
	return out
}

// forget drops what Refresh read about a claim that is gone.
func (r *RemoteClaims) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, key)
	delete(r.denied, key)
}

// vouch returns the step that reports, in a condition of the claim, whether the claim in the provider belongs to a move.
func (r *RemoteClaims) vouch(f *RemoteFacts) storage.Step {
	if f.Claim == nil || !f.Complete && !f.Unmapped {
		return storage.Step{}
	}
	return storage.Vouch(r.moveState(f))
}

// reserved returns the virtual volumes that were created, or are reserved, for a claim of that name.
func (r *RemoteClaims) reserved(key types.NamespacedName) []*corev1.PersistentVolume {
	return r.with(key.String())
}

// with returns the virtual volumes that have this value in their index.
func (r *RemoteClaims) with(value string) []*corev1.PersistentVolume {
	var volumes []*corev1.PersistentVolume
	for _, obj := range r.opts.Virtual.With(value) {
		if volume, ok := obj.(*corev1.PersistentVolume); ok {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

// recovered returns the recovered volumes whose namespaces have a remote namespace. The data of others is gone, or nothing can be known about it.
func (r *RemoteClaims) recovered() []*corev1.PersistentVolume {
	return slices.DeleteFunc(r.with(storage.IndexRecovered), func(v *corev1.PersistentVolume) bool { return !r.opts.Mapped(storage.DataOf(v).Namespace) })
}

// moveState returns the state of the claim in the facts as storage.Vouch and storage.Trial need it, and the virtual volumes of its name.
func (r *RemoteClaims) moveState(f *RemoteFacts) (storage.State, []*corev1.PersistentVolume) {
	volumes := r.reserved(f.Key)
	s := r.state(f, f.Claim.UID)
	s.Claim = f.Claim
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.denied[f.Key]; known.claim == f.Claim.UID {
		s.Denied = known.message
	}
	return s, volumes
}

// Misplaced returns the step of a virtual kubelet that does not decide about the claims of the provider. The step has the message for the pods on its node; see
// storage.Misplaced.
func (r *RemoteClaims) Misplaced(f *RemoteFacts) storage.Step {
	if f.Claim == nil {
		return storage.Step{Why: "there is no claim"}
	}
	uid := f.Claim.UID
	if volume := r.volumeOf(f.Claim); volume != nil {
		uid = storage.VolumeUID(volume)
	}
	return storage.Misplaced(r.state(f, uid))
}

// LeftToPods reports whether the virtual kubelet of each pod's node has to report to that pod why the claim has no volume; see storage.LeftToPods.
func (r *RemoteClaims) LeftToPods(claim *corev1.PersistentVolumeClaim) bool {
	var classes []storagev1.StorageClass // that of the claim suffices
	if name := claim.Spec.StorageClassName; name != nil {
		if class, ok := r.opts.Classes.Get("", *name).(*storagev1.StorageClass); ok {
			classes = []storagev1.StorageClass{*class}
		}
	}
	return storage.LeftToPods(claim, r.volumeOf(claim), classes, r.opts.Cluster)
}

// volumeOf returns the virtual volume that a claim is bound to, nil if there is none.
func (r *RemoteClaims) volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume, _ := r.opts.Virtual.Get("", claim.Spec.VolumeName).(*corev1.PersistentVolume)
	return volume
}

func (r *RemoteClaims) classes() []storagev1.StorageClass {
	var out []storagev1.StorageClass
	for _, obj := range r.opts.Classes.List() {
		if class, ok := obj.(*storagev1.StorageClass); ok {
			out = append(out, *class)
		}
	}
	return out
}

// Wrote records a volume that a step has created or changed, and reports one that was created again. Kubernetes has not seen a new volume, so its phase is Pending.
func (r *RemoteClaims) Wrote(obj client.Object) {
	r.opts.Virtual.Wrote(obj)
	volume, is := obj.(*corev1.PersistentVolume)
	if is && (volume.Status.Phase == "" || volume.Status.Phase == corev1.VolumePending) && storage.IsRecovered(volume) {
		full := storage.RecoveredFull(r.recovered(), r.opts.Cluster)
		r.opts.Refusals.Recovered(volume, storage.Recovered(volume, full))
	}
}

// VolumesRemain reports whether a virtual volume of a claim with that name still exists.
func (r *RemoteClaims) VolumesRemain(key types.NamespacedName) bool {
	return len(r.opts.Virtual.With(key.String())) > 0
}

// Observe enqueues the claims of a pod when the pod is scheduled on the virtual node, and again when the last pod that uses a claim is deleted. A claim of a
// class that is not one of Liqo does not name the virtual node, so only its pods show that it is used there. pod is nil if it no longer exists.
func (r *RemoteClaims) Observe(key types.NamespacedName, pod *corev1.Pod) {
	claims := map[types.NamespacedName]bool{}
	if pod != nil {
		for i := range pod.Spec.Volumes {
			if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
				claims[types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName}] = true
			}
		}
	}
	r.mu.Lock()
	var changed []types.NamespacedName
	for claim, pods := range r.mounted {
		if pods[key] && !claims[claim] {
			if delete(pods, key); len(pods) == 0 {
				delete(r.mounted, claim)
				changed = append(changed, claim)
			}
		}
	}
	var joined []types.NamespacedName
	for claim := range claims {
		pods := r.mounted[claim]
		if pods[key] {
			continue
		}
		if joined = append(joined, claim); pods == nil {
			pods = map[types.NamespacedName]bool{}
			r.mounted[claim] = pods
			changed = append(changed, claim)
		}
		pods[key] = true
	}
	r.mu.Unlock()
	for _, claim := range changed {
		r.opts.Enqueue(claim)
	}
	for _, claim := range joined {
		r.opts.Refusals.Observe(claim)
	}
}

// isMounted reports whether a pod of the virtual node mounts a claim.
func (r *RemoteClaims) isMounted(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mounted[key]) > 0
}

// DriverWarning returns the Warning Event by which a CSI driver in the provider reports that it cannot provision the backing claim, with the cure. Users do not
// see the backing claim, and Kubernetes reports nothing on the pod that waits there. The result is empty for other Events, and if the backing claim has or had a
// volume, because its data may still be there. backing is nil if this consumer did not create the claim in the Event. pod is the owner of an ephemeral claim,
// nil if it is not on this node.
func (r *RemoteClaims) DriverWarning(claim, backing *corev1.PersistentVolumeClaim, pod *corev1.Pod, event *corev1.Event) string {
	if event.Type != corev1.EventTypeWarning || event.Reason != reasons.ProvisioningFailed {
		return ""
	}
	if api.Ephemeral(claim) {
		return r.ephemeral(claim, pod, event)
	}
	if backing == nil || event.InvolvedObject.UID != backing.UID || !slices.Contains(storage.UIDs(claim), storage.BackingUID(backing)) ||
		backing.Spec.VolumeName != "" || backing.Status.Phase != corev1.ClaimPending && backing.Status.Phase != "" {
		return ""
	}
	return unprovided(backing, r.opts.Cluster, event.Message, "name one that the cluster offers in annotation "+api.AnnotationRemoteStorageClass+" of the new claim")
}

// ephemeral is DriverWarning for the claim of an ephemeral volume. In the provider, Kubernetes creates that claim for the copy of the pod, so its UID is
// unknown here. It returns nothing if the Event is older than the claim, because then it is about an earlier pod of that name. It also returns nothing if the
// pod is not Pending, because then the pod has its volume.
func (r *RemoteClaims) ephemeral(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, event *corev1.Event) string {
	if pod == nil || pod.UID != metav1.GetControllerOf(claim).UID || pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" ||
		latest(event).Before(claim.CreationTimestamp.Time) {
		return ""
	}
	return fmt.Sprintf("cluster %s, which has to create the ephemeral volume of pod %s, creates none: %s: repair the driver, or delete the pod and create it again with "+
		"accessModes, a volumeMode, a size and a storageClassName in spec.volumes[].ephemeral.volumeClaimTemplate that the cluster has",
		r.opts.Cluster, pod.Name, excerpt.Line(event.Message, longestWarning))
}

// uids returns the UIDs of the claims to decide about, without duplicates. The UID of the claim in this cluster is the last one. Annotations with UIDs are not
// trusted: users write those of claims, and the provider writes those of backing claims. So uids omits a UID whose volume was created for another claim, unless it
// is bound to the claim in this cluster.
func (r *RemoteClaims) uids(f *RemoteFacts) []types.UID {
	var out []types.UID
	seen := map[types.UID]bool{"": true}
	add := func(uid types.UID) {
		if seen[uid] {
			return
		}
		seen[uid] = true
		volume, ok := r.opts.Virtual.Get("", storage.VolumeName(uid)).(*corev1.PersistentVolume)
		if !ok || storage.DataOf(volume) == f.Key || storage.ReservedFor(volume) == f.Key {
			out = append(out, uid)
		}
	}
	for _, volume := range r.reserved(f.Key) {
		add(storage.VolumeUID(volume))
	}
	if f.Backing != nil {
		add(storage.BackingUID(f.Backing))
	}
	if f.Claim != nil {
		if volume := r.volumeOf(f.Claim); volume != nil {
			add(storage.VolumeUID(volume))
		}
		for _, uid := range slices.Backward(storage.UIDs(f.Claim)) {
			add(uid)
		}
	}
	return out
}

// state returns everything that the decision about the claim with a UID depends on.
func (r *RemoteClaims) state(f *RemoteFacts, uid types.UID) storage.State {
	return r.stateOf(storage.State{Classes: r.classes(), Recovered: r.recovered(), Place: storage.Place{
		Cluster: r.opts.Cluster, Tenant: r.opts.Tenant, Origin: r.opts.Origin, Namespace: f.Namespace, Offered: r.opts.Offered(),
	}}, f, uid)
}

// stateOf adds the facts about one claim to s, which has the facts that all claims of its namespace share.
func (r *RemoteClaims) stateOf(s storage.State, f *RemoteFacts, uid types.UID) storage.State {
	shared := s
	s.UID, s.ByName, s.Key, s.Reserved, s.Listed = uid, r.isByName(f), f.Key, r.reserved(f.Key), f.Complete
	if f.Claim != nil {
		s.Moving = storage.Moving(s.Reserved, f.Claim)
	}
	owner := false
	if volume, ok := r.opts.Virtual.Get("", storage.VolumeName(uid)).(*corev1.PersistentVolume); ok {
		s.Fresh = time.Since(volume.CreationTimestamp.Time) < freshness
		s.Volume = volume // the UID in its claimRef is that of the claim
		owner = f.Claim != nil && volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == f.Claim.UID
	} else if f.Claim != nil {
		owner = storage.Owns(f.Claim, r.volumeOf(f.Claim), uid)
	}
	if owner {
		s.Claim = f.Claim
		s.Node = r.node(storage.SelectedNode(f.Claim, s.UID))
	}
	switch {
	case f.Unmapped: // there is no backing claim
	case f.Complete:
		s.Backing = f.Backing
		s.Mounted = r.isMounted(f.Key)
		s.Hidden = s.Volume != nil && s.Volume.DeletionTimestamp != nil && storage.IsRecovered(s.Volume) && r.hidden(shared, f)
	case s.Volume == nil && s.Claim != nil && s.Node != nil && len(s.Place.Offered) == 0:
		s.Place.Problem = s.Place.NoOffer()
	default:
		s.Place.Waiting = "the provider is unreachable, or the objects of both clusters were not read yet"
	}
	return s
}

// hidden reports whether the remote namespace has data of other claims that waits for its volume. shared is what all claims of the namespace share.
func (r *RemoteClaims) hidden(shared storage.State, f *RemoteFacts) bool {
	return slices.ContainsFunc(r.opts.Backing(f.Key.Namespace), func(obj client.Object) bool {
		backing, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok || backing.Name == f.Key.Name || backing.Spec.VolumeName == "" || r.opts.Virtual.Get("", storage.VolumeName(storage.BackingUID(backing))) != nil {
			return false
		}
		other := *f
		other.Key.Name, other.Claim, other.Backing = backing.Name, nil, backing
		s := r.stateOf(shared, &other, storage.BackingUID(backing))
		return s.Waits()
	})
}

// node returns the virtual node with that name, nil if it is not a node of this provider. Other processes decide about the claims of other nodes.
func (r *RemoteClaims) node(name string) *corev1.Node {
	if name == "" || !r.opts.HasNode(name) {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: r.opts.Cluster,
	}}}
}

// Refresh reads the virtual volumes of the claims, and the pod that owns the claim, from the API server of this cluster. It asks the API server of the provider
// whether it denies the claim that a move needs there.
func (r *RemoteClaims) Refresh(ctx context.Context, here client.Reader, there client.Writer, f *RemoteFacts) error {
	var problems []error
	for _, uid := range r.uids(f) {
		volume := &corev1.PersistentVolume{}
		err := here.Get(ctx, types.NamespacedName{Name: storage.VolumeName(uid)}, volume)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			problems = append(problems, fmt.Errorf("reading PersistentVolume %s: %w", storage.VolumeName(uid), err))
		case storage.VolumeUID(volume) != "":
			r.opts.Virtual.Wrote(volume)
		}
	}
	return errors.Join(append(problems, r.readOwner(ctx, here, f), r.try(ctx, there, f))...)
}

// try creates the claim that a move needs in the provider, in a dry run, and records the provider's error if it denies the claim.
func (r *RemoteClaims) try(ctx context.Context, there client.Writer, f *RemoteFacts) error {
	var trial *corev1.PersistentVolumeClaim
	if f.Claim != nil && f.Complete {
		trial = storage.Trial(r.moveState(f))
	}
	var err error
	if trial != nil {
		ctx, cancel := context.WithTimeout(ctx, trialTimeout)
		defer cancel()
		err = there.Create(ctx, trial, client.DryRunAll)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.denied, f.Key)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), strings.Contains(err.Error(), "does not support dry run"): // the last one is about a webhook
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err),
		apierrors.IsBadRequest(err),    // without another code, a webhook denies with Bad Request
		apierrors.IsInternalError(err): // a webhook that must be called can't be
		r.denied[f.Key] = denial{f.Claim.UID, excerpt.Line(err.Error(), longestDenial)}
		return nil
	}
	return fmt.Errorf("checking the creation of PersistentVolumeClaim %s in namespace %s of cluster %s: %w", trial.Name, trial.Namespace, r.opts.Cluster, err)
}

// readOwner reads the pod that owns a claim which looks ephemeral. If the pod is gone, Kubernetes deletes the claim as well.
func (r *RemoteClaims) readOwner(ctx context.Context, here client.Reader, f *RemoteFacts) error {
	byName := false
	if f.Claim != nil && api.Ephemeral(f.Claim) {
		owner := types.NamespacedName{Namespace: f.Claim.Namespace, Name: metav1.GetControllerOf(f.Claim).Name}
		pod := &corev1.Pod{}
		if err := here.Get(ctx, owner, pod); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading Pod %s, the owner of PersistentVolumeClaim %s: %w", owner, f.Key, err)
		} else if err == nil {
			byName = !api.EphemeralOf(f.Claim, pod)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.byName, f.Key); byName {
		r.byName[f.Key] = f.Claim.UID
	}
	return nil
}

// isByName reports whether the last Refresh found that the owner of the claim has no ephemeral volume of that name.
func (r *RemoteClaims) isByName(f *RemoteFacts) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.Claim != nil && r.byName[f.Key] == f.Claim.UID
}
