package app

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

// claimOption is the name of PersistentVolumeClaims in the flags of a virtual kubelet.
const claimOption = "persistentvolumeclaim"

// volumes connects the decisions about claims with data in the provider to the engine, which carries them out.
type volumes struct {
	opts  *virtualKubeletOptions
	there *provider.State
	// virtual are the virtual volumes of all clusters, indexed by the names of their claims. classes are the StorageClasses of this cluster.
	virtual, classes *reflection.View

	claims   *storagecontrollers.RemoteClaims
	refusals *storagecontrollers.Refusals
}

// newVolumes returns the volumes of a virtual kubelet. After a change that concerns a single claim they call enqueue, after a change that concerns
// every claim they call all. offered returns the classes that the provider offers, backing the claims in the remote namespace of a namespace, and mapped reports whether it has
// one. newVolumes sets the remaining fields of refusals.
func newVolumes(
	opts *virtualKubeletOptions, there *provider.State, offered func() []authv1beta1.StorageType, backing func(namespace string) []client.Object, mapped func(namespace string) bool,
	enqueue func(types.NamespacedName), all func(), refusals storagecontrollers.RefusalOptions,
) *volumes {
	v := &volumes{opts: opts, there: there}
	refusals.HasNode, refusals.Node, refusals.Decides = there.HasNode, opts.nodeName, v.reports
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
				enqueue(key)
			}
		}
	}, all)
	v.classes = reflection.NewView(reflection.Resource{Object: &storagev1.StorageClass{}}, all)
	v.claims = storagecontrollers.NewRemoteClaims(storagecontrollers.RemoteOptions{
		Origin: opts.clusterID, Cluster: opts.foreignClusterID, Tenant: opts.tenantNamespace,
		Virtual: v.virtual, Classes: v.classes, HasNode: there.HasNode, Offered: offered, Backing: backing, Mapped: mapped, Enqueue: enqueue, Refusals: v.refusals,
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

// run keeps the views up to date until ctx ends.
func (v *volumes) run(ctx context.Context, local client.WithWatch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return v.virtual.Run(ctx, local, "") })
	group.Go(func() error { return v.classes.Run(ctx, local, "") })
	group.Go(func() error { return v.refusals.Run(ctx) })
	return group.Wait()
}

// kind returns the Kind for the engine.
func (v *volumes) kind() reflection.Kind {
	k := reflection.PersistentVolumeClaims(v.opts.workers(claimOption), v.there.Copies(claimOption)(), v.next)
	k.Refresh = func(ctx context.Context, here, there client.Client, f reflection.Facts) error {
		return v.claims.Refresh(ctx, here, there, v.facts(f))
	}
	k.Other = v.claims.Wrote
	return k
}

// next returns the step of the engine for all present and deleted claims with the name in the facts.
func (v *volumes) next(f reflection.Facts) offload.Step {
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
	if claim != nil && facts.Complete && step.Action == offload.Nothing && storage.Asked(claim, v.opts.foreignClusterID) {
		step.After, step.Confirm = askedRetry, true
	}
	if step.Action == offload.Nothing && claim == nil && v.claims.VolumesRemain(f.Key) {
		step.After = volumeRetry
	}
	return step
}

// observe passes a pod of the virtual node to the decisions about claims. obj is nil if the pod was deleted.
func (v *volumes) observe(key types.NamespacedName, obj client.Object) {
	if v.opts.workers(claimOption) > 0 {
		pod, _ := obj.(*corev1.Pod)
		v.claims.Observe(key, pod)
	}
}

// isDriverWarning reports whether an object is an Event of a driver that creates no volume.
func isDriverWarning(obj client.Object) bool {
	event, is := obj.(*corev1.Event)
	return is && event.Type == corev1.EventTypeWarning && event.Reason == reasons.ProvisioningFailed && event.InvolvedObject.Kind == reflection.PersistentVolumeClaimKind
}

// reports returns true if this virtual kubelet may report problems of a claim. The leader reports about every claim. For an ephemeral claim, the
// virtual kubelet of the pod's node reports too.
func (v *volumes) reports(claim *corev1.PersistentVolumeClaim) bool {
	return v.there.Copies(claimOption)().Waiting == "" || api.Ephemeral(claim)
}

// watchDrivers makes the engine call observeDriver for the Warnings of storage drivers among the Events of the provider. pod returns a pod of the
// virtual node, nil if there is none of that name.
func (v *volumes) watchDrivers(events *reflection.Kind, pod func(namespace, name string) *corev1.Pod) {
	events.Urgent, events.Observe = isDriverWarning, func(f reflection.Facts) { v.observeDriver(f, pod) }
}

// observeDriver handles an Event by which a storage driver in the provider warns that it can't create the volume of a claim. It passes the warning on
// to the refusals. A new leader handles all Events again. pod returns a pod of the virtual node, nil if there is none of that name.
func (v *volumes) observeDriver(f reflection.Facts, pod func(namespace, name string) *corev1.Pod) {
	event, is := f.Remote[0].(*corev1.Event) // nil if it is gone
	claim, isClaim := f.About.(*corev1.PersistentVolumeClaim)
	if !is || !isClaim || v.opts.workers(claimOption) == 0 || !v.reports(claim) {
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

func (v *volumes) facts(f reflection.Facts) *storagecontrollers.RemoteFacts {
	out := &storagecontrollers.RemoteFacts{
		Key: f.Key, Namespace: f.Mapping.Namespace, Unmapped: f.Mapping.State == offload.Unmapped, Complete: f.Mapping.State == offload.Mapped && f.RemoteSynced,
	}
	out.Claim, _ = f.Local.(*corev1.PersistentVolumeClaim)
	out.Backing, _ = f.Remote[0].(*corev1.PersistentVolumeClaim)
	return out
}

func (v *volumes) decide(f reflection.Facts) offload.Step {
	waiting := v.there.Copies(claimOption)().Waiting
	switch {
	case waiting != "" && !v.there.Ready():
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
