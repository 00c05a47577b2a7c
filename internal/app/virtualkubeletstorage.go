package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/reflect"
	"liqo.io/liqo/internal/storage"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// volumeRetry is the interval for decisions about a virtual volume whose claim is gone: changes of the NamespaceMap do not enqueue its name.
const volumeRetry = 30 * time.Second

// claimOption is the name of PersistentVolumeClaims in the flags of a virtual kubelet.
const claimOption = "persistentvolumeclaim"

// volumes carries out the decisions of package storage for the provider. It creates claims in the provider, and the virtual volumes of their claims here.
type volumes struct {
	opts  *virtualKubeletOptions
	there *provider
	// offered returns the classes that the provider offers.
	offered func() []authv1beta1.StorageType
	// enqueue has the engine decide about a claim of this cluster.
	enqueue func(types.NamespacedName)
	// virtual are the virtual volumes of all clusters, indexed by the name of their claim. classes are the StorageClasses of this cluster.
	virtual, classes *reflect.View

	mu sync.Mutex
	// mounted are the claims that pods of the virtual node mount.
	mounted map[types.NamespacedName]bool
}

// newVolumes returns volumes that call all for a change that concerns every claim.
func newVolumes(
	opts *virtualKubeletOptions, there *provider, offered func() []authv1beta1.StorageType, enqueue func(types.NamespacedName), all func(),
) *volumes {
	v := &volumes{opts: opts, there: there, offered: offered, enqueue: enqueue, mounted: map[types.NamespacedName]bool{}}
	v.virtual = reflect.NewObservedView(reflect.Resource{
		Object: &corev1.PersistentVolume{}, Labels: storage.LabelVirtual + "=" + api.True,
		Index: func(obj client.Object) []string { return []string{claimOf(obj).String()} },
	}, func(before, now client.Object) {
		for _, obj := range []client.Object{before, now} {
			if key := claimOf(obj); key.Name != "" {
				v.enqueue(key)
			}
		}
	}, all)
	v.classes = reflect.NewView(reflect.Resource{Object: &storagev1.StorageClass{}}, all)
	return v
}

// claimOf returns the name of the claim that a volume is reserved for, empty if there is none.
func claimOf(obj client.Object) types.NamespacedName {
	volume, ok := obj.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name}
}

// run keeps the views up to date until ctx ends.
func (v *volumes) run(ctx context.Context, local client.WithWatch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return v.virtual.Run(ctx, local, "") })
	group.Go(func() error { return v.classes.Run(ctx, local, "") })
	return group.Wait()
}

// kind returns the Kind for the engine.
func (v *volumes) kind() reflect.Kind {
	k := reflect.PersistentVolumeClaims(v.opts.workers(claimOption), v.there.copies(claimOption)(), v.next)
	k.Refresh = v.refresh
	k.Other = v.virtual.Wrote
	return k
}

// next decides about all claims that have, or had, the name of the facts: the claim of this cluster, the claim that the claim in the provider was created
// for, and the claims of virtual volumes that are still there.
func (v *volumes) next(f reflect.Facts) offload.Step {
	claim, _ := f.Local.(*corev1.PersistentVolumeClaim)
	if claim == nil {
		v.forget(f.Key)
	}
	step := v.decide(f, claim)
	if step.Action == offload.Nothing && claim == nil && len(v.virtual.With(f.Key.String())) > 0 {
		step.After = volumeRetry
	}
	return step
}

// observe has the engine decide about the claims of a pod that was scheduled on the virtual node: only pods tell that a claim of another class is used there.
func (v *volumes) observe(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || v.opts.workers(claimOption) == 0 {
		return
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName}
			v.mu.Lock()
			known := v.mounted[key]
			v.mounted[key] = true
			v.mu.Unlock()
			if !known {
				v.enqueue(key)
			}
		}
	}
}

// isMounted tells whether a pod of the virtual node mounts a claim.
func (v *volumes) isMounted(key types.NamespacedName) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mounted[key]
}

// forget drops what is known about the pods of a claim that is gone.
func (v *volumes) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.mounted, key)
}

func (v *volumes) decide(f reflect.Facts, claim *corev1.PersistentVolumeClaim) offload.Step {
	switch waiting := v.there.copies(claimOption)().Waiting; {
	case waiting != "":
		return offload.Step{Why: waiting}
	case !v.virtual.Synced() || !v.classes.Synced():
		return offload.Step{Why: "the volumes and StorageClasses were not read yet"}
	case f.Mapping.State == offload.MappingUnknown:
		return offload.Step{Why: "the namespace map was not read yet"}
	}
	out := offload.Step{Why: "there is no claim"}
	for _, uid := range v.uids(f, claim) {
		step := storage.Next(v.state(f, uid, claim))
		if step.Action != storage.Nothing {
			return translate(step, f.Mapping.State)
		}
		out.Why = step.Why
		if claim != nil && step.Refused != "" {
			out.Warning, out.Confirm = step.Refused, step.Confirm
		}
	}
	return out
}

// uids returns the UIDs of the claims to decide about, each once, that of the claim in this cluster last.
func (v *volumes) uids(f reflect.Facts, claim *corev1.PersistentVolumeClaim) []types.UID {
	var out []types.UID
	seen := map[types.UID]bool{"": true}
	add := func(uid types.UID) {
		if !seen[uid] {
			seen[uid] = true
			out = append(out, uid)
		}
	}
	for _, obj := range v.virtual.With(f.Key.String()) {
		if volume, ok := obj.(*corev1.PersistentVolume); ok {
			add(storage.VolumeUID(volume))
		}
	}
	if backing := backingOf(f); backing != nil {
		add(storage.BackingUID(backing))
	}
	if claim != nil {
		add(claim.UID)
	}
	return out
}

// backingOf returns the claim in the provider, nil if there is none.
func backingOf(f reflect.Facts) *corev1.PersistentVolumeClaim {
	backing, _ := f.Remote[0].(*corev1.PersistentVolumeClaim)
	return backing
}

// state returns everything that the decision about the claim with that UID depends on.
func (v *volumes) state(f reflect.Facts, uid types.UID, claim *corev1.PersistentVolumeClaim) storage.State {
	s := storage.State{UID: uid, Place: storage.Place{
		Cluster: v.opts.foreignClusterID, Tenant: v.opts.tenantNamespace, Origin: v.opts.clusterID, Namespace: f.Mapping.Namespace, Offered: v.offered(),
	}}
	for _, obj := range v.classes.List() {
		if class, ok := obj.(*storagev1.StorageClass); ok {
			s.Classes = append(s.Classes, *class)
		}
	}
	if volume, ok := v.virtual.Get("", storage.VolumeName(uid)).(*corev1.PersistentVolume); ok {
		s.Volume, uid = volume, ""
		if volume.Spec.ClaimRef != nil {
			uid = volume.Spec.ClaimRef.UID
		}
	}
	if claim != nil && claim.UID == uid {
		s.Claim = claim
		s.Node = v.node(claim.Annotations[storage.AnnotationSelectedNode])
	}
	switch {
	case f.Mapping.State == offload.Unmapped: // the remote namespace is gone, and everything in it
	case f.Mapping.State == offload.Mapped && f.RemoteSynced:
		s.Backing = backingOf(f)
		s.Mounted = v.isMounted(f.Key)
	case s.Volume == nil && s.Claim != nil && s.Node != nil && len(s.Place.Offered) == 0:
		s.Place.Problem = s.Place.NoOffer()
	default:
		s.Place.Waiting = "the provider does not answer, or what both sides have was not read yet"
	}
	return s
}

// node returns the virtual node of this provider with that name, nil for every other node: other processes decide about those.
func (v *volumes) node(name string) *corev1.Node {
	if name == "" || !v.there.hasNode(name) {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		api.LabelType: api.TypeVirtualNode, api.LabelRemoteClusterID: v.opts.foreignClusterID,
	}}}
}

// engineActions are the actions of the engine for those of package storage. The nodes of a provider are never refused, so no claim is patched.
var engineActions = map[storage.Action]offload.Action{
	storage.CreateBacking: offload.CreateRemote, storage.PatchBacking: offload.PatchRemote, storage.DeleteBacking: offload.DeleteRemote,
	storage.CreateVolume: offload.CreateLocal, storage.PatchVolume: offload.PatchLocal, storage.DeleteVolume: offload.DeleteLocal,
	storage.PatchClaim: offload.PatchLocal, storage.PatchClaimStatus: offload.PatchLocalStatus,
}

// translate returns the step of the engine. Without a remote namespace there is no claim to read in either cluster, so there is nothing to confirm.
func translate(step storage.Step, state offload.MappingState) offload.Step {
	return offload.Step{
		Action: engineActions[step.Action], Object: step.Object, Old: step.Old, Why: step.Why, Locked: true,
		Confirm: step.Confirm && state != offload.Unmapped, Again: step.Action == storage.CreateBacking, // the volume follows at once
	}
}

// warnPods reports a message about a claim on the pods that use it. These pods are not scheduled yet, so the engine does not watch them.
func (v *volumes) warnPods(ctx context.Context, c client.Client, told *events, obj client.Object, message string) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(claim.Namespace)); err != nil {
		told.log.Error("Failed to list the pods of a PersistentVolumeClaim", "namespace", claim.Namespace, "name", claim.Name, "error", err)
		return
	}
	for i := range pods.Items {
		if storage.Uses(&pods.Items[i], claim.Name) {
			told.warn(ctx, &pods.Items[i], "PersistentVolumeClaim "+claim.Name+": "+message)
		}
	}
}

// refresh reads the virtual volumes of the claims from the API server.
func (v *volumes) refresh(ctx context.Context, here client.Client, f reflect.Facts) error {
	claim, _ := f.Local.(*corev1.PersistentVolumeClaim)
	var problems []error
	for _, uid := range v.uids(f, claim) {
		volume := &corev1.PersistentVolume{}
		err := here.Get(ctx, types.NamespacedName{Name: storage.VolumeName(uid)}, volume)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			problems = append(problems, fmt.Errorf("reading PersistentVolume %s: %w", storage.VolumeName(uid), err))
		case storage.VolumeUID(volume) != "":
			v.virtual.Wrote(volume)
		}
	}
	return errors.Join(problems...)
}
