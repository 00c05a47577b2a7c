// Package controllers executes the decisions of package storage for nodes of this cluster. It creates the backing claims and the virtual volumes of claims
// whose pods are scheduled here, and deletes both according to the reclaim policy. RemoteClaims and Refusals run in virtual kubelets.
//
// No controller uses kube.Reconciler, which reconciles one object and its status. A claim is reconciled by its UID, because its volumes may outlive it. And a
// remote namespace only gets an annotation.
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
)

// Options configure the controller.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// Namespace is the namespace of the backing claims.
	Namespace string
	// RealClass is the StorageClass of the backing claims; empty means the default class of the cluster.
	RealClass string
	// GlobalLabels and GlobalAnnotations are added to all created objects.
	GlobalLabels, GlobalAnnotations map[string]string
}

const (
	// fieldOwner is the field manager of all writes.
	fieldOwner = "liqo-storage"
	// uidIndex is the index of claims by UID.
	uidIndex = "metadata.uid"
	// eventIndex is the field by which the API server selects the Events about an object.
	eventIndex = "involvedObject.name"
	// refusedRetry is the interval of two checks: whether further pods use a refused claim, to report the refusal on them, and whether the driver has emitted
	// Events.
	refusedRetry = 30 * time.Second
	// conflictDelay is the pause after a conflict, in which the cache is updated.
	conflictDelay = 20 * time.Millisecond
)

// provisioner reconciles claims by their UID, which is the name in its requests. Overhead: two writes for each claim that gets a volume, and three when the
// claim is deleted.
type provisioner struct {
	client client.Client
	// live reads from the API server, because the cache has neither the real nodes nor the pods of users.
	live   client.Reader
	events events.EventRecorder
	opts   Options
	limits *messageLimits

	mu sync.Mutex
	// reported holds the last reported refusal of each claim, by UID.
	reported map[types.UID]*refusal
}

// refusal is a message about a claim, and the UIDs of the claim and the pods that received it.
type refusal struct {
	message  string
	received map[types.UID]bool
}

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.ClusterID == "" || opts.Namespace == "" {
		return fmt.Errorf("setting up storage: cluster ID %q or storage namespace %q is empty", opts.ClusterID, opts.Namespace)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.PersistentVolumeClaim{}, uidIndex, byUID); err != nil {
		return fmt.Errorf("indexing claims by UID: %w", err)
	}
	if err := (&offers{client: mgr.GetClient(), opts: opts}).setup(mgr); err != nil {
		return err
	}
	p := newProvisioner(mgr.GetClient(), mgr.GetAPIReader(), kube.EventRecorder(mgr, "storage"), opts)
	return kube.NewController(mgr, "storage").
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(p.ofClaim)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(p.ofVolume)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(p.unbound)).
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(p.ofProvider)).
		Watches(&offloadingv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(p.ofProvider), builder.WithPredicates(deletedOnly)).
		Complete(p)
}

func newProvisioner(c client.Client, live client.Reader, recorder events.EventRecorder, opts Options) *provisioner {
	return &provisioner{client: c, live: live, events: recorder, opts: opts, limits: newMessageLimits(), reported: map[types.UID]*refusal{}}
}

// byUID returns the UIDs in the names of the backing claims of a claim.
func byUID(obj client.Object) []string {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	var out []string
	for _, uid := range storage.UIDs(claim) {
		out = append(out, string(uid))
	}
	return out
}

// requests returns a request for each UID that is not empty.
func requests(uids ...types.UID) []reconcile.Request {
	var out []reconcile.Request
	for _, uid := range uids {
		if uid != "" {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: string(uid)}})
		}
	}
	return out
}

// ofClaim returns the UIDs to reconcile after a change of a claim. For a backing claim, this is the UID of its claim. For another claim, these are its UIDs,
// and the UID in the name of its virtual volume.
func (p *provisioner) ofClaim(_ context.Context, obj client.Object) []reconcile.Request {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	if uid := storage.BackingUID(claim); uid != "" && claim.Namespace == p.opts.Namespace {
		return requests(uid)
	}
	if volume, ok := strings.CutPrefix(claim.Spec.VolumeName, storage.VolumeName("")); ok && types.UID(volume) != claim.UID {
		return requests(append(storage.UIDs(claim), types.UID(volume))...)
	}
	return requests(storage.UIDs(claim)...)
}

// ofVolume returns the UID to reconcile after a change of a volume: the UID in the name of a virtual volume, or that in the name of the backing claim that is
// bound to the volume.
func (p *provisioner) ofVolume(_ context.Context, obj client.Object) []reconcile.Request {
	volume, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	uid := storage.VolumeUID(volume)
	if ref := volume.Spec.ClaimRef; uid == "" && ref != nil && ref.Namespace == p.opts.Namespace {
		uid = types.UID(ref.Name)
	}
	return requests(uid)
}

// deletedOnly ignores everything but the end of an object.
var deletedOnly = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofProvider returns the UIDs of all virtual volumes of the provider of a VirtualNode or a NamespaceMap. If that was deleted, no virtual kubelet may decide about
// them any more.
func (p *provisioner) ofProvider(ctx context.Context, obj client.Object) []reconcile.Request {
	provider := obj.GetName()
	if node, is := obj.(*offloadingv1beta1.VirtualNode); is {
		provider = node.Spec.ClusterID
	}
	var volumes corev1.PersistentVolumeList
	if err := p.client.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the volumes in a provider", "clusterID", provider)
		return nil
	}
	var out []reconcile.Request
	for i := range volumes.Items {
		if volume := &volumes.Items[i]; storage.ClusterOf(volume) == provider {
			out = append(out, requests(storage.VolumeUID(volume))...)
		}
	}
	return out
}

// unbound returns the UIDs of all claims without a volume, because they may request a StorageClass that was just created.
func (p *provisioner) unbound(ctx context.Context, _ client.Object) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	if err := p.client.List(ctx, &claims); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the PersistentVolumeClaims")
		return nil
	}
	var out []reconcile.Request
	for i := range claims.Items {
		if claims.Items[i].Spec.VolumeName == "" {
			out = append(out, requests(claims.Items[i].UID)...)
		}
	}
	return out
}

// Reconcile executes one step for the claim with the UID in the request. It is no kube.Reconciler, because a request names a claim that may not exist any more.
func (p *provisioner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	uid := types.UID(req.Name)
	key, err := p.claimKey(ctx, uid)
	if err != nil {
		return reconcile.Result{}, err
	}
	state, err := p.state(ctx, p.client, uid, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	step := storage.Next(state)
	if decided := step.Action; step.Confirm {
		if state, err = p.state(ctx, p.live, uid, key); err != nil {
			return reconcile.Result{}, err
		}
		if step = storage.Next(state); step.Action != decided {
			return reconcile.Result{RequeueAfter: conflictDelay}, nil // the cache lags behind
		}
	}
	if step.AwaitsDriver {
		if step.Refused, err = p.driverWarning(ctx, state.Backing); err != nil || step.Refused == "" {
			return reconcile.Result{RequeueAfter: refusedRetry}, err
		}
	}
	if step.Refused != "" && step.Action == storage.Nothing {
		return reconcile.Result{RequeueAfter: refusedRetry}, p.refuse(ctx, uid, state.Claim, step.Refused)
	}
	if step.Action == storage.Nothing {
		p.forget(uid)
		return reconcile.Result{}, nil
	}
	err = p.do(ctx, step)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil && refusedByServer(err):
		err = errors.Join(err, p.refuse(ctx, uid, state.Claim, fmt.Sprintf("%s: %v", step.Action, err)))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%s of claim %s (UID %s): %w", step.Action, key, uid, err)
	}
	ctrl.LoggerFrom(ctx).Info("Step done", "step", step.Action.String(), "why", step.Why, "claim", key.String())
	if step.Refused != "" {
		return reconcile.Result{}, p.refuse(ctx, uid, state.Claim, step.Refused)
	}
	p.forget(uid)
	if step.Action == storage.CreateVolume {
		p.events.Eventf(state.Claim, nil, corev1.EventTypeNormal, reasons.ProvisioningSucceeded, "Provision",
			"Successfully provisioned volume %s", step.Object.GetName())
	}
	return reconcile.Result{}, nil
}

// refusedByServer reports whether the API server rejected the content of a request: a ResourceQuota or a policy may do so.
func refusedByServer(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// claimKey returns the namespace and name of the claim that owns a UID. Both are empty if the cache has no such claim.
func (p *provisioner) claimKey(ctx context.Context, uid types.UID) (types.NamespacedName, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := p.client.List(ctx, &claims, client.MatchingFields{uidIndex: string(uid)}); err != nil {
		return types.NamespacedName{}, fmt.Errorf("looking up the claim with UID %s: %w", uid, err)
	}
	for i := range claims.Items {
		owns, err := owns(ctx, p.client, &claims.Items[i], uid)
		if owns || err != nil {
			return client.ObjectKeyFromObject(&claims.Items[i]), err
		}
	}
	return types.NamespacedName{}, nil
}

// owns reports whether a claim may use the virtual volume with this UID in its name.
func owns(ctx context.Context, r client.Reader, claim *corev1.PersistentVolumeClaim, uid types.UID) (bool, error) {
	if claim.UID == uid || claim.Spec.VolumeName == "" || !slices.Contains(storage.UIDs(claim), uid) {
		return claim.UID == uid, nil
	}
	volume, err := get(ctx, r, &corev1.PersistentVolume{}, types.NamespacedName{Name: claim.Spec.VolumeName})
	return err == nil && storage.Owns(claim, volume, uid), err
}

// state reads everything that the decision about a claim depends on. key is empty if the name of the claim is unknown.
func (p *provisioner) state(ctx context.Context, r client.Reader, uid types.UID, key types.NamespacedName) (storage.State, error) {
	s := storage.State{UID: uid, Place: storage.Place{Origin: p.opts.ClusterID, Namespace: p.opts.Namespace, RealClass: p.opts.RealClass}}
	var classes storagev1.StorageClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return s, fmt.Errorf("listing StorageClasses: %w", err)
	}
	s.Classes = classes.Items
	var err error
	if s.Volume, err = get(ctx, r, &corev1.PersistentVolume{}, types.NamespacedName{Name: storage.VolumeName(uid)}); err != nil {
		return s, err
	}
	if s.Abandoned, s.Tenant, err = p.peering(ctx, r, s.Volume); err != nil {
		return s, err
	}
	if s.Backing, err = get(ctx, r, &corev1.PersistentVolumeClaim{}, types.NamespacedName{Namespace: p.opts.Namespace, Name: string(uid)}); err != nil {
		return s, err
	}
	if s.Backing != nil && s.Backing.Spec.VolumeName != "" {
		if s.BackingVolume, err = get(ctx, r, &corev1.PersistentVolume{}, types.NamespacedName{Name: s.Backing.Spec.VolumeName}); err != nil {
			return s, err
		}
	}
	if s.NeedsVolumes() {
		var volumes corev1.PersistentVolumeList
		if err := r.List(ctx, &volumes); err != nil {
			return s, fmt.Errorf("listing the PersistentVolumes for the backing claim %s: %w", uid, err)
		}
		s.Volumes = volumes.Items
	}
	if err := p.readClaim(ctx, r, &s, key); err != nil {
		return s, err
	}
	if s.Claim != nil && (s.Claim.Spec.VolumeName == "" || s.Volume == nil) {
		if s.Node, err = p.node(ctx, storage.SelectedNode(s.Claim, uid)); err != nil {
			return s, err
		}
		namespace, err := get(ctx, p.client, &corev1.Namespace{}, types.NamespacedName{Name: s.Claim.Namespace})
		if err != nil {
			return s, err
		}
		if namespace != nil {
			s.Place.NamespaceClass = namespace.Annotations[api.AnnotationRealStorageClass]
		}
		if s.Moving, err = p.moving(ctx, s.Claim); err != nil {
			return s, err
		}
	}
	return s, nil
}

// moving returns the virtual volume whose unfinished move is for a claim with the name of this one; see storage.Moving.
func (p *provisioner) moving(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	var list corev1.PersistentVolumeList
	if err := p.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing the volumes: %w", err)
	}
	volumes := make([]*corev1.PersistentVolume, 0, len(list.Items))
	for i := range list.Items {
		volumes = append(volumes, &list.Items[i])
	}
	return storage.Moving(volumes, claim), nil
}

// peering reports whether a volume is abandoned: this cluster no longer uses its provider. It has neither a VirtualNode nor a NamespaceMap for it in the tenant
// namespace of the volume, or none at all if the volume has lost the label with that namespace. As long as there is a NamespaceMap, the provider has the remote
// namespaces, and only the volumes hold them. A volume in deletion with policy Delete does not, because its data was given up, unless it was recovered: a
// recovered volume also holds the data in its namespace that has no volume yet (see storage.RecoveredLimit). tenant is the namespace of the provider's
// VirtualNodes, empty if there are several.
func (p *provisioner) peering(ctx context.Context, r client.Reader, volume *corev1.PersistentVolume) (abandoned bool, tenant string, err error) {
	if volume == nil || storage.ClusterOf(volume) == "" {
		return false, "", nil
	}
	var nodes offloadingv1beta1.VirtualNodeList
	var maps offloadingv1beta1.NamespaceMapList
	if err := errors.Join(r.List(ctx, &nodes), r.List(ctx, &maps)); err != nil {
		return false, "", fmt.Errorf("listing VirtualNodes and NamespaceMaps: %w", err)
	}
	givenUp := !volume.DeletionTimestamp.IsZero() && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && !storage.IsRecovered(volume)
	own, tenants, used := volume.Labels[storage.LabelTenant], map[string]bool{}, map[string]bool{}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ClusterID == storage.ClusterOf(volume) {
			tenant = nodes.Items[i].Namespace
			tenants[tenant], used[tenant] = true, true
		}
	}
	for i := range maps.Items {
		if m := &maps.Items[i]; m.Name == storage.ClusterOf(volume) && m.Labels[api.LabelReplicated] != api.True && !givenUp {
			used[m.Namespace] = true
		}
	}
	if len(tenants) > 1 {
		tenant = ""
	}
	return own == "" && len(used) == 0 || own != "" && !used[own], tenant, nil
}

// readClaim reads the claim in the claimRef of the virtual volume. If there is no virtual volume, it reads the claim with the UID.
func (p *provisioner) readClaim(ctx context.Context, r client.Reader, s *storage.State, key types.NamespacedName) error {
	uid, named := s.UID, false
	if s.Volume != nil && storage.VolumeUID(s.Volume) == uid {
		ref := s.Volume.Spec.ClaimRef
		if ref == nil {
			return nil
		}
		key, uid, named = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, ref.UID, true
	} else if key.Name == "" && s.Backing != nil {
		key = storage.ClaimOf(s.Backing)
	}
	if key.Name == "" {
		return nil
	}
	claim, err := get(ctx, r, &corev1.PersistentVolumeClaim{}, key)
	if err != nil || claim == nil {
		return err
	}
	if owner := uid == "" || claim.UID == uid; owner || named { // the UID in a claimRef is that of the claim
		if owner {
			s.Claim = claim
		}
		return nil
	}
	owner, err := owns(ctx, r, claim, uid)
	if owner {
		s.Claim = claim
	}
	return err
}

// node returns a node by its name, nil if it does not exist. The cache has only the virtual nodes.
func (p *provisioner) node(ctx context.Context, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil
	}
	node, err := get(ctx, p.client, &corev1.Node{}, types.NamespacedName{Name: name})
	if node != nil || err != nil {
		return node, err
	}
	return get(ctx, p.live, &corev1.Node{}, types.NamespacedName{Name: name})
}

// get reads an object into obj. It returns nil if the object does not exist.
func get[T client.Object](ctx context.Context, r client.Reader, obj T, key types.NamespacedName) (T, error) {
	var none T
	switch err := r.Get(ctx, key, obj); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// do executes the write of a step.
func (p *provisioner) do(ctx context.Context, step storage.Step) error {
	obj, ok := step.Object.(client.Object)
	if !ok {
		return fmt.Errorf("%s: %T is not an object", step.Action, step.Object)
	}
	switch step.Action {
	case storage.CreateBacking, storage.CreateVolume:
		stamping := kube.Stamping{Client: p.client, Labels: p.opts.GlobalLabels, Annotations: p.opts.GlobalAnnotations}
		err := stamping.Create(ctx, obj, client.FieldOwner(fieldOwner))
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache lags behind, and an event follows
		}
		return err
	case storage.DeleteBacking, storage.DeleteVolume:
		return kube.Delete(ctx, p.client, obj)
	}
	old, ok := step.Old.(client.Object)
	if !ok {
		return fmt.Errorf("%s: %T is not an object", step.Action, step.Old)
	}
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	if step.Action == storage.PatchClaimStatus {
		return client.IgnoreNotFound(p.client.Status().Patch(ctx, obj, patch, client.FieldOwner(fieldOwner)))
	}
	return client.IgnoreNotFound(p.client.Patch(ctx, obj, patch, client.FieldOwner(fieldOwner)))
}
