package volumes

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/provider"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// volumeRetry is the requeue interval for a virtual volume whose claim was deleted, because changes of the NamespaceMap do not enqueue its name, and for data that waits
// for the limit of recovered volumes.
const volumeRetry = 30 * time.Second

// askedRetry is the interval in which the provider is asked again whether a move may start: whether the name of its claim is free there, and the claim permitted. No watch shows that its answer changes.
const askedRetry = 5 * time.Second

// ClaimKind is the name of PersistentVolumeClaims in the options of copies, and in the flags of the virtual kubelet.
const ClaimKind = "persistentvolumeclaim"

// Options are what Volumes needs of its virtual kubelet.
type Options struct {
	// Origin and Cluster are the IDs of this cluster and of the provider, Tenant is the tenant namespace of the provider, and Node the name of the virtual node.
	Origin, Cluster, Tenant, Node string
	// Workers is the number of claims that are handled at a time. With 0, the virtual kubelet creates no volumes.
	Workers int
	There   *provider.State
	// Offered returns the classes that the provider offers.
	Offered func() []authv1beta1.StorageType
	// Backing returns the claims in the remote namespace of a namespace. Mapped reports whether it has one.
	Backing func(namespace string) []client.Object
	Mapped  func(namespace string) bool
	// Enqueue is called after a change that concerns a single claim, All after a change that concerns every claim.
	Enqueue func(types.NamespacedName)
	All     func()
	// Refusals are the options for the reports about claims. New sets HasNode, Node, Decides and LeftToPods.
	Refusals storagecontrollers.RefusalOptions
}

// Volumes connects the decisions about claims with data in a provider to the engine of a virtual kubelet, which carries them out.
type Volumes struct {
	opts Options
	// virtual are the virtual volumes of all clusters, indexed by the names of their claims. classes are the StorageClasses of this cluster.
	virtual, classes *reflection.View

	claims   *storagecontrollers.RemoteClaims
	refusals *storagecontrollers.Refusals
}

// New returns the volumes of a virtual kubelet. They do nothing before Run.
func New(opts Options) *Volumes {
	v := &Volumes{opts: opts}
	refusals := opts.Refusals
	refusals.HasNode, refusals.Node, refusals.Decides = opts.There.HasNode, opts.Node, v.reports
	refusals.LeftToPods = func(claim *corev1.PersistentVolumeClaim) bool { return v.claims.LeftToPods(claim) }
	v.refusals = storagecontrollers.NewRefusals(refusals)
	v.virtual = reflection.NewObservedView(reflection.Resource{
		Object: &corev1.PersistentVolume{}, Labels: storage.LabelVirtual + "=" + api.True,
		Index: func(obj client.Object) []string {
			names := make([]string, 0, 1)
			for _, key := range claimsOf(obj) {
				names = append(names, key.String())
			}
			if volume, ok := obj.(*corev1.PersistentVolume); ok && storage.IsRecovered(volume) {
				names = append(names, storage.IndexRecovered)
			}
			return names
		},
	}, func(before, now client.Object) {
		for _, obj := range []client.Object{before, now} {
			for _, key := range claimsOf(obj) {
				opts.Enqueue(key)
			}
		}
	}, opts.All)
	v.classes = reflection.NewView(reflection.Resource{Object: &storagev1.StorageClass{}}, opts.All)
	v.claims = storagecontrollers.NewRemoteClaims(storagecontrollers.RemoteOptions{
		Origin: opts.Origin, Cluster: opts.Cluster, Tenant: opts.Tenant,
		Virtual: v.virtual, Classes: v.classes, HasNode: opts.There.HasNode, Offered: opts.Offered, Backing: opts.Backing, Mapped: opts.Mapped,
		Enqueue: opts.Enqueue, Refusals: v.refusals,
	})
	return v
}

// claimsOf returns the names of the claim for which a volume was created, and of the claim that it is reserved for now.
func claimsOf(obj client.Object) []types.NamespacedName {
	volume, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	keys := []types.NamespacedName{storage.DataOf(volume), storage.ReservedFor(volume)}
	return slices.DeleteFunc(slices.Compact(keys), func(key types.NamespacedName) bool { return key.Name == "" })
}

// Run keeps the views up to date until ctx ends.
func (v *Volumes) Run(ctx context.Context, local client.WithWatch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return v.virtual.Run(ctx, local, "") })
	group.Go(func() error { return v.classes.Run(ctx, local, "") })
	group.Go(func() error { return v.refusals.Run(ctx) })
	return group.Wait()
}

// Kind returns the Kind for the engine.
func (v *Volumes) Kind() reflection.Kind {
	k := reflection.PersistentVolumeClaims(v.opts.Workers, v.opts.There.Copies(ClaimKind)(), v.next)
	k.Refresh = func(ctx context.Context, here, there client.Client, f reflection.Facts) error {
		return v.claims.Refresh(ctx, here, there, v.facts(f))
	}
	k.Other = v.claims.Wrote
	return k
}

// next returns the step of the engine for all present and deleted claims with the name in the facts.
func (v *Volumes) next(f reflection.Facts) offload.Step {
	facts := v.facts(f)
	claim := facts.Claim
	if facts.Backing != nil && facts.Backing.Status.Phase == corev1.ClaimBound {
		v.refusals.Provided(storage.BackingUID(facts.Backing))
	}
	step := v.decide(f)
	// Settle the refusals of a claim only if the facts are complete and no write is due, because the provider may refuse that write again.
	if claim != nil && (facts.Complete || facts.Unmapped) && step.Action == offload.Nothing && step.Warning == "" {
		v.refusals.Settle(claim)
	}
	if claim != nil && facts.Complete && step.Action == offload.Nothing && storage.Asked(claim, v.opts.Cluster) {
		step.After, step.Confirm = askedRetry, true
	}
	if step.Action == offload.Nothing && claim == nil && v.claims.VolumesRemain(f.Key) {
		step.After = volumeRetry
	}
	return step
}

// Observe passes a pod of the virtual node to the decisions about claims. obj is nil if the pod was deleted.
func (v *Volumes) Observe(key types.NamespacedName, obj client.Object) {
	if v.opts.Workers > 0 {
		pod, _ := obj.(*corev1.Pod)
		v.claims.Observe(key, pod)
	}
}

// isDriverWarning reports whether an object is an Event of a driver that creates no volume.
func isDriverWarning(obj client.Object) bool {
	event, is := obj.(*corev1.Event)
	return is && event.Type == corev1.EventTypeWarning && event.Reason == reasons.ProvisioningFailed && event.InvolvedObject.Kind == reflection.PersistentVolumeClaimKind
}

// Refuse reports that a write for a claim was refused.
func (v *Volumes) Refuse(claim *corev1.PersistentVolumeClaim, message string) {
	v.refusals.Refuse(claim, message)
}

// reports returns true if this virtual kubelet may report problems of a claim. The leader reports about every claim. For an ephemeral claim, the
// virtual kubelet of the pod's node reports too.
func (v *Volumes) reports(claim *corev1.PersistentVolumeClaim) bool {
	return v.opts.There.Copies(ClaimKind)().Waiting == "" || api.Ephemeral(claim)
}

// WatchDrivers makes the engine call observeDriver for the Warnings of storage drivers among the Events of the provider. pod returns a pod of the
// virtual node, nil if there is none of that name.
func (v *Volumes) WatchDrivers(events *reflection.Kind, pod func(namespace, name string) *corev1.Pod) {
	events.Urgent, events.Observe = isDriverWarning, func(f reflection.Facts) { v.observeDriver(f, pod) }
}

// observeDriver handles an Event by which a storage driver in the provider warns that it can't create the volume of a claim. It passes the warning on
// to the refusals. A new leader handles all Events again. pod returns a pod of the virtual node, nil if there is none of that name.
func (v *Volumes) observeDriver(f reflection.Facts, pod func(namespace, name string) *corev1.Pod) {
	event, is := f.Remote[0].(*corev1.Event) // nil if it is gone
	claim, isClaim := f.About.(*corev1.PersistentVolumeClaim)
	if !is || !isClaim || v.opts.Workers == 0 || !v.reports(claim) {
		return
	}
	var owner *corev1.Pod
	if api.Ephemeral(claim) {
		owner = pod(claim.Namespace, metav1.GetControllerOf(claim).Name)
	}
	backing, _ := f.Counterpart.(*corev1.PersistentVolumeClaim)
	if message := v.claims.DriverWarning(claim, backing, owner, event); message != "" {
		v.refusals.DriverWarning(claim, message)
	}
}

func (v *Volumes) facts(f reflection.Facts) *storagecontrollers.RemoteFacts {
	out := &storagecontrollers.RemoteFacts{
		Key: f.Key, Namespace: f.Mapping.Namespace, Unmapped: f.Mapping.State == offload.Unmapped, Complete: f.Mapping.State == offload.Mapped && f.RemoteSynced,
	}
	out.Claim, _ = f.Local.(*corev1.PersistentVolumeClaim)
	out.Backing, _ = f.Remote[0].(*corev1.PersistentVolumeClaim)
	return out
}

func (v *Volumes) decide(f reflection.Facts) offload.Step {
	waiting := v.opts.There.Copies(ClaimKind)().Waiting
	switch {
	case waiting != "" && !v.opts.There.Ready():
		return offload.Step{Why: waiting}
	case !v.virtual.Synced() || !v.classes.Synced():
		return offload.Step{Why: "waiting for the volumes and StorageClasses to be read"}
	case f.Mapping.State == offload.MappingUnknown:
		return offload.Step{Why: "waiting for the NamespaceMap to be read"}
	}
	if waiting != "" {
		step := v.claims.Misplaced(v.facts(f))
		return offload.Step{Why: waiting, Warning: step.Refused, Confirm: step.Confirm}
	}
	step := v.claims.Next(v.facts(f))
	if step.Action == storage.Nothing {
		out := offload.Step{Why: step.Why, Warning: step.Refused, Confirm: step.Confirm}
		if step.Retry {
			out.After = volumeRetry
		}
		return out
	}
	return translate(step, f.Mapping.State)
}

// engineActions maps the actions of package storage to actions of the engine.
var engineActions = map[storage.Action]offload.Action{
	storage.CreateBacking: offload.CreateRemote, storage.PatchBacking: offload.PatchRemote, storage.DeleteBacking: offload.DeleteRemote,
	storage.CreateVolume: offload.CreateLocal, storage.PatchVolume: offload.PatchLocal, storage.DeleteVolume: offload.DeleteLocal,
	storage.PatchClaim: offload.PatchLocal, storage.PatchClaimStatus: offload.PatchLocalStatus,
}

// translate converts a step of package storage to a step of the engine. If the remote namespace was deleted, there is no claim to confirm.
func translate(step storage.Step, state offload.MappingState) offload.Step {
	return offload.Step{
		Action: engineActions[step.Action], Object: step.Object, Old: step.Old, Why: step.Why, Locked: true,
		Confirm: step.Confirm && state != offload.Unmapped, Again: step.Action == storage.CreateBacking, // Again, because the volume is created right after the backing claim
	}
}
