package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
	"liqo.io/liqo/internal/storage/move"
)

// dataWorld is a consumer rome and a provider milan. Namespace shop of rome is offloaded to milan, and an application there writes data to claim data.
//
// The controllers of NamespaceOffloadings, VirtualNodes, ResourceSlices and NamespaceMaps are the real ones, and so are the decisions about claims and volumes. The
// replication and the end of the Tenant make the decisions of package peering. Kubernetes, the driver of milan's disks and the application are models.
type dataWorld struct {
	*testing.T
	rome, milan client.WithWatch
	mapping     *mappings
	controllers map[string]reconcile.Reconciler
	claims      *storagecontrollers.RemoteClaims
	events      *events.FakeRecorder
	// identity is false while rome has no identity in milan. stopped are the clusters whose programs do not run. disabled are those without storage.
	identity          bool
	stopped, disabled map[string]bool
	made              int
	writes            []string // of this pass
	clock             time.Duration
	// disks are the contents of the volumes in milan, by the name of the volume. A deleted volume has none.
	disks map[string]string
	// written is the data that the application has written.
	written []*datum
}

// datum is data of the application. It is lost if no volume of milan has its checksum, or if no claim can have that volume again.
type datum struct {
	// claim is the UID in the name of the virtual volume, volume the name of the volume in milan.
	claim  types.UID
	volume string
	sum    [sha256.Size]byte
	// requested means that a user has requested the deletion of the data.
	requested bool
}

const (
	lawTenant = "liqo-tenant-rome" // in milan
	lawPeer   = "liqo-tenant-milan"
	lawRemote = "shop-rome"
	lawHold   = "example.org/held" // keeps an object until the world removes it, as the finalizer of its controller does
	lawEnd    = "example.org/kubernetes"
)

var lawScheme = sync.OnceValue(kube.NewScheme)

func newDataWorld(t *testing.T) *dataWorld {
	w := &dataWorld{
		T: t, identity: true, disks: map[string]string{}, stopped: map[string]bool{}, disabled: map[string]bool{},
		events: events.NewFakeRecorder(1000),
	}
	w.milan = w.cluster()
	w.must(w.milan.Create(t.Context(), &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "rome", Finalizers: []string{lawHold}}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"},
	}))
	w.install()
	w.must(w.rome.Create(t.Context(), w.offloading()))
	w.createClaim("")
	w.settle()
	if !w.hasData() {
		t.Fatal("the application has no data")
	}
	return w
}

// cluster returns an API server with these objects.
func (w *dataWorld) cluster(objects ...client.Object) client.WithWatch {
	count := func(verb string, o client.Object, err error) error {
		if err == nil {
			w.writes = append(w.writes, fmt.Sprintf("%s %T %s/%s", verb, o, o.GetNamespace(), o.GetName()))
		}
		return err
	}
	scheme := lawScheme()
	// The default tracker, which keeps field managers, needs most of the time of a test.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(apimeta.NewDefaultRESTMapper(nil)).WithObjectTracker(tracker).
		WithStatusSubresource(&offloadingv1beta1.NamespaceMap{}, &offloadingv1beta1.NamespaceOffloading{}, &offloadingv1beta1.VirtualNode{}, &authv1beta1.ResourceSlice{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				return quick(scheme, tracker, key, o)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetUID() == "" {
					w.identify(o)
				}
				if _, is := o.(*corev1.Namespace); is {
					controllerutil.AddFinalizer(o, lawEnd)
				} else if _, is := o.(*corev1.PersistentVolumeClaim); is {
					namespace := &corev1.Namespace{}
					if err := c.Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, namespace); err != nil || !namespace.DeletionTimestamp.IsZero() {
						return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), o.GetName(), fmt.Errorf("its namespace is being deleted"))
					}
				}
				return count("create", o, c.Create(ctx, o, opts...))
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return count("update", o, c.Update(ctx, o, opts...))
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return count("patch", o, c.Patch(ctx, o, p, opts...))
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return count("delete", o, c.Delete(ctx, o, opts...))
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				return count("update status of", o, c.SubResource(sub).Update(ctx, o, opts...))
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return count("patch status of", o, c.SubResource(sub).Patch(ctx, o, p, opts...))
			},
		}).Build()
}

// quick reads an object from a tracker. The fake client encodes and decodes each object that it returns, which takes most of its time.
func quick(scheme *runtime.Scheme, tracker clienttesting.ObjectTracker, key client.ObjectKey, into client.Object) error {
	kind, err := apiutil.GVKForObject(into, scheme)
	if err != nil {
		return err
	}
	resource, _ := apimeta.UnsafeGuessKindToResource(kind)
	found, err := tracker.Get(resource, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// install creates rome without offloaded namespaces, and its peering with milan.
func (w *dataWorld) install() {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	w.rome = w.cluster()
	accepted := []authv1beta1.ResourceSliceCondition{
		{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted}, {Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted},
	}
	slice := w.slice()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}},
		&offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: offloadingv1beta1.VkOptionsTemplateDefault}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait},
		&authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: authv1beta1.IdentityResourceSlicePrefix + "milan"},
			Status:     authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"}},
		},
		slice,
	} {
		w.must(w.rome.Create(w.Context(), o))
	}
	slice.Status.Conditions = accepted
	w.must(w.rome.Status().Update(w.Context(), slice))
	w.start()
}

// start starts the programs of both clusters, without anything in memory.
func (w *dataWorld) start() {
	now := func() time.Time { return time.Now().Add(w.clock) }
	protected := []string(nil)
	if w.mapping != nil {
		protected = w.mapping.ProtectedNamespaces
	}
	opts := Options{ClusterID: "rome", LiqoNamespace: "liqo", Volumes: w.volumes, Now: now, ProtectedNamespaces: protected}
	w.mapping = &mappings{Client: w.rome, Options: opts}
	maps := &namespaceMaps{Client: w.milan, Options: Options{LiqoNamespace: "liqo", Live: w.milan}, events: w.events}
	nodes := &virtualNodes{Client: w.rome, Options: opts, live: w.rome, drains: newDrains(w.rome), events: &events.FakeRecorder{}}
	offloadings := &namespaceOffloadings{Client: w.rome, Options: opts, live: w.rome, events: &events.FakeRecorder{}}
	slices := &sliceNodes{Client: w.rome, Options: opts, events: &events.FakeRecorder{}}
	w.controllers = map[string]reconcile.Reconciler{
		"namespacemap": &kube.Reconciler[*offloadingv1beta1.NamespaceMap]{
			Name: "namespacemap", Client: w.milan, Finalizer: FinalizerNamespaceMap, Sync: maps.sync, Finalize: maps.finalize,
			Wanted: func(m *offloadingv1beta1.NamespaceMap) bool { return isCopy(m) },
		},
		"virtualnode": &kube.Reconciler[*offloadingv1beta1.VirtualNode]{
			Name: "virtualnode", Client: w.rome, Finalizer: FinalizerVirtualNode, Sync: nodes.sync, Finalize: nodes.finalize,
		},
		"namespaceoffloading": &kube.Reconciler[*offloadingv1beta1.NamespaceOffloading]{
			Name: "namespaceoffloading", Client: w.rome, Finalizer: FinalizerNamespaceOffloading, Sync: offloadings.sync, Finalize: offloadings.finalize,
		},
		"resourceslice": &kube.Reconciler[*authv1beta1.ResourceSlice]{
			Name: "resourceslice", Client: w.rome, Finalizer: FinalizerVirtualNode, Sync: slices.sync, Finalize: slices.finalize,
		},
	}
	w.claims = storagecontrollers.NewRemoteClaims(storagecontrollers.RemoteOptions{
		Origin: "rome", Cluster: "milan", Tenant: lawPeer, Virtual: &lawView{w, &corev1.PersistentVolumeList{}}, Classes: &lawView{w, &storagev1.StorageClassList{}},
		HasNode: func(name string) bool {
			return w.read(w.rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}) && name == "milan"
		},
		Offered: func() []authv1beta1.StorageType {
			return []authv1beta1.StorageType{{StorageClassName: "disk", Default: true}}
		},
		Backing: func(string) []client.Object {
			out, claims := []client.Object{}, listed(w, w.milan, &corev1.PersistentVolumeClaimList{}, client.InNamespace(lawRemote)).Items
			for i := range claims {
				out = append(out, &claims[i])
			}
			return out
		},
		Mapped:  func(namespace string) bool { return w.mapped(namespace).State == offload.Mapped },
		Enqueue: func(types.NamespacedName) {}, Refusals: storagecontrollers.NewRefusals(storagecontrollers.RefusalOptions{}),
	})
}

// listed lists objects.
func listed[L client.ObjectList](w *dataWorld, c client.Client, list L, opts ...client.ListOption) L {
	w.Helper()
	w.must(c.List(w.Context(), list, opts...))
	return list
}

// lawView is a View of objects of rome: all StorageClasses, or the virtual volumes that have their label.
type lawView struct {
	w    *dataWorld
	kind client.ObjectList
}

func (v *lawView) Synced() bool        { return true }
func (v *lawView) Wrote(client.Object) {}
func (v *lawView) List() []client.Object {
	out := []client.Object{}
	switch list := listed(v.w, v.w.rome, v.kind.DeepCopyObject().(client.ObjectList)).(type) {
	case *corev1.PersistentVolumeList:
		for i := range list.Items {
			if list.Items[i].Labels[storage.LabelVirtual] == api.True {
				out = append(out, &list.Items[i])
			}
		}
	case *storagev1.StorageClassList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

func (v *lawView) Get(_, name string) client.Object {
	for _, o := range v.List() {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

func (v *lawView) With(value string) []client.Object {
	return slices.DeleteFunc(v.List(), func(o client.Object) bool {
		volume, is := o.(*corev1.PersistentVolume)
		return !is || !(storage.DataOf(volume).String() == value || storage.ReservedFor(volume).String() == value || value == storage.IndexRecovered && storage.IsRecovered(volume))
	})
}

func (w *dataWorld) offloading() *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
}

func (w *dataWorld) node() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: "milan"}}
}

func (w *dataWorld) slice() *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: "milan", Annotations: map[string]string{authv1beta1.AnnotationCreateVirtualNode: api.True}},
		Spec:       authv1beta1.ResourceSliceSpec{ProviderClusterID: "milan"},
	}
}

func (w *dataWorld) tenant() *authv1beta1.Tenant {
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "rome"}}
}

func lawMap(namespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
}

func (w *dataWorld) remote() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}
}

// claim returns the claim of the application in a namespace of rome or milan.
func lawClaim(namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}}
}

// createClaim lets a user create the claim of the application, for a volume of this name if it is not empty. The scheduler selects the virtual node.
func (w *dataWorld) createClaim(volume string) {
	class, claim := "liqo", lawClaim("shop")
	claim.Annotations = map[string]string{storage.AnnotationSelectedNode: "milan"}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volume,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	err := w.rome.Create(w.Context(), claim)
	if !apierrors.IsForbidden(err) {
		w.must(client.IgnoreAlreadyExists(err))
	}
}

// identify gives a new object its UID and the time of its creation, because the fake API server does not.
func (w *dataWorld) identify(o metav1.Object) {
	w.made++
	o.SetUID(types.UID(fmt.Sprint("u", w.made)))
	o.SetCreationTimestamp(metav1.Unix(int64(w.made), 0))
}

func (w *dataWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// put writes an object with its status.
func (w *dataWorld) put(c client.Client, o client.Object) {
	w.Helper()
	status := o.DeepCopyObject().(client.Object)
	w.must(c.Update(w.Context(), o))
	status.SetResourceVersion(o.GetResourceVersion())
	w.must(c.Status().Update(w.Context(), status))
}

// read reads an object, and reports whether it exists.
func (w *dataWorld) read(c client.Client, o client.Object) bool {
	w.Helper()
	err := c.Get(w.Context(), client.ObjectKeyFromObject(o), o)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

// change changes an object, if it exists.
func (w *dataWorld) change(c client.Client, o client.Object, change func()) {
	w.Helper()
	if w.read(c, o) {
		change()
		w.must(client.IgnoreNotFound(c.Update(w.Context(), o)))
	}
}

func (w *dataWorld) delete(c client.Client, o client.Object) {
	w.Helper()
	w.must(client.IgnoreNotFound(c.Delete(w.Context(), o)))
}

// vanish removes an object without its controller, as an administrator does who removes its finalizers.
func (w *dataWorld) vanish(c client.Client, o client.Object) {
	w.Helper()
	w.change(c, o, func() { o.SetFinalizers(nil) })
	w.delete(c, o)
}

// hasData reports whether the application has data, and none of it is lost.
func (w *dataWorld) hasData() bool {
	w.Helper()
	return len(w.written) > 0 && w.lost() == "" && !slices.ContainsFunc(w.written, func(d *datum) bool { return w.disks[d.volume] == "" })
}

// lost returns what is lost although no user has requested its deletion, empty if that is nothing.
func (w *dataWorld) lost() string {
	w.Helper()
	for _, d := range w.written {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: d.volume}}
		exists := w.read(w.milan, volume)
		if d.requested {
			continue
		}
		if !exists || sha256.Sum256([]byte(w.disks[d.volume])) != d.sum {
			return fmt.Sprintf("volume %s with the data of claim %s is deleted or overwritten", d.volume, d.claim)
		}
		if !w.hasClaim(volume) && volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			return fmt.Sprintf("volume %s with the data of claim %s has no claim", d.volume, d.claim)
		}
		here, there := lawClaim("shop"), lawClaim(lawRemote)
		if w.read(w.rome, here) && here.Spec.VolumeName == storage.VolumeName(d.claim) && w.read(w.milan, there) && storage.BackingUID(there) == d.claim && there.Spec.VolumeName != d.volume {
			return fmt.Sprintf("the application has volume %s instead of volume %s", there.Spec.VolumeName, d.volume)
		}
	}
	return ""
}

// hasClaim reports whether a claim of milan is bound to a volume.
func (w *dataWorld) hasClaim(volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	return w.read(w.milan, claim) && claim.UID == ref.UID && claim.DeletionTimestamp.IsZero()
}

// request records that a user has requested the deletion of data.
func (w *dataWorld) request(which func(d *datum) bool) {
	for _, d := range w.written {
		d.requested = d.requested || which(d)
	}
}

// permitted records the data whose deletion the annotation of an object permits now.
func (w *dataWorld) permitted() {
	all := func(*datum) bool { return true }
	node, tenant, o := w.node(), w.tenant(), w.offloading()
	if w.read(w.rome, node) && !node.DeletionTimestamp.IsZero() && node.Annotations[api.AnnotationDeleteVolumes] == api.True ||
		w.read(w.milan, tenant) && !tenant.DeletionTimestamp.IsZero() && tenant.Annotations[api.AnnotationDeleteVolumes] == api.True ||
		w.read(w.rome, o) && o.Annotations[api.AnnotationDeleteVolumes] == api.True {
		w.request(all)
	}
}

// actors are the programs and persons that act by themselves, in the order in which settle lets them act.
func (w *dataWorld) actors() []func() {
	return []func(){
		w.kubernetes, w.manageVolumes, w.manageClaims, w.write, w.runRome, w.replicate, w.runMilan, w.endTenant,
	}
}

// settle lets everyone act until nothing is left to do.
func (w *dataWorld) settle() {
	w.Helper()
	for range 20 {
		w.writes = nil
		for _, act := range w.actors() {
			w.permitted()
			act()
		}
		w.clock += 2 * time.Minute
		if len(w.writes) == 0 {
			return
		}
	}
	w.Fatalf("the clusters do not settle: %q", w.writes)
}

// run lets a real controller reconcile an object.
func (w *dataWorld) run(controller string, o client.Object) {
	w.Helper()
	_, err := w.controllers[controller].Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	w.must(err)
}

// runRome lets the controllers of rome act, and the virtual kubelet, which creates the Node.
func (w *dataWorld) runRome() {
	if w.stopped["rome"] {
		return
	}
	w.run("resourceslice", w.slice())
	w.run("virtualnode", w.node())
	if node := w.node(); w.read(w.rome, node) && node.DeletionTimestamp.IsZero() {
		labels := map[string]string{api.LabelRemoteClusterID: "milan", api.LabelType: api.TypeVirtualNode}
		w.must(client.IgnoreAlreadyExists(w.rome.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: labels}})))
	}
	_, err := w.mapping.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "milan"}})
	w.must(err)
	w.run("namespaceoffloading", w.offloading())
}

func (w *dataWorld) runMilan() {
	if !w.stopped["milan"] {
		w.run("namespacemap", lawMap(lawTenant))
	}
}

// volumes returns the volumes of rome that hold remote namespaces, as the controller manager gathers them.
func (w *dataWorld) volumes(ctx context.Context, c client.Reader) ([]offload.Volume, error) {
	var list corev1.PersistentVolumeList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	out, virtual := []offload.Volume{}, storage.Virtual(list.Items)
	for i := range virtual {
		v := &virtual[i]
		data := storage.DataOf(v)
		one := offload.Volume{Name: v.Name, Namespace: data.Namespace, Claim: data.Name}
		if target, err := move.TargetOf(v); target != "" || err != nil {
			copied := one
			copied.Cluster, copied.Retain = target, true
			out = append(out, copied)
		}
		if !storage.InProvider(v) {
			continue
		}
		waits := storage.Unclaimed(v) && v.Status.Phase != corev1.VolumeReleased
		one.Cluster, one.Released = storage.ClusterOf(v), storage.Unclaimed(v) && !storage.InMove(v, virtual)
		one.Retain = v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain || waits || storage.ReservedFor(v) != data || storage.IsRecovered(v)
		out = append(out, one)
	}
	return out, nil
}

// mapped returns the remote namespace of a namespace of rome.
func (w *dataWorld) mapped(namespace string) offload.Mapping {
	m := lawMap(lawPeer)
	if !w.read(w.rome, m) {
		m = nil
	}
	return offload.MappingOf(m, namespace)
}

// granted reports whether rome has access to its remote namespaces.
func (w *dataWorld) granted() bool {
	tenant, foreign := w.tenant(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.read(w.rome, foreign)
	return w.identity && !offload.Gone(foreign) && w.read(w.milan, tenant) && tenant.DeletionTimestamp.IsZero() && peering.GrantsOf(tenant).Access
}

// manageClaims lets the virtual kubelet act for the claims of the application.
func (w *dataWorld) manageClaims() {
	w.Helper()
	deployed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	if w.stopped["rome"] || w.disabled["rome"] || !w.read(w.rome, w.node()) || !w.read(w.rome, deployed) {
		return
	}
	for range 20 {
		mapping, here, there := w.mapped("shop"), lawClaim("shop"), lawClaim(lawRemote)
		f := &storagecontrollers.RemoteFacts{
			Key: client.ObjectKeyFromObject(here), Namespace: mapping.Namespace, Unmapped: mapping.State == offload.Unmapped,
			Complete: mapping.State == offload.Mapped && w.granted() && !w.disabled["milan"],
		}
		if w.read(w.rome, here) {
			f.Claim = here
		}
		there.Namespace = mapping.Namespace
		if f.Complete && w.read(w.milan, there) {
			f.Backing = there
		}
		step := w.claims.Next(f)
		if !w.obey(step) {
			return
		}
	}
	w.Fatal("the decisions about claims do not settle")
}

// obey writes what a step of package storage asks for. It reports whether there may be another step.
func (w *dataWorld) obey(step storage.Step) bool {
	w.Helper()
	c := w.rome
	if slices.Contains([]storage.Action{storage.CreateBacking, storage.PatchBacking, storage.DeleteBacking}, step.Action) {
		c = w.milan
	}
	var err error
	switch step.Action {
	case storage.Nothing:
		return false
	case storage.CreateBacking, storage.CreateVolume:
		err = c.Create(w.Context(), step.Object.(client.Object))
	case storage.DeleteBacking, storage.DeleteVolume:
		err = c.Delete(w.Context(), step.Object.(client.Object))
	case storage.PatchClaimStatus:
		err = c.Status().Update(w.Context(), step.Object.(client.Object))
	default:
		err = c.Update(w.Context(), step.Object.(client.Object))
	}
	if apierrors.IsForbidden(err) {
		return false
	}
	w.must(err)
	return true
}

// manageVolumes lets the controller manager of rome act for its virtual volumes.
func (w *dataWorld) manageVolumes() {
	w.Helper()
	if w.stopped["rome"] || w.disabled["rome"] {
		return
	}
	volumes := listed(w, w.rome, &corev1.PersistentVolumeList{}).Items
	for i := range volumes {
		for more := true; more; {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volumes[i].Name}}
			if !w.read(w.rome, v) || storage.VolumeUID(v) == "" {
				break
			}
			s := storage.State{UID: storage.VolumeUID(v), Volume: v, Place: storage.Place{Origin: "rome", Namespace: "liqo-storage"}}
			s.Classes = listed(w, w.rome, &storagev1.StorageClassList{}).Items
			if s.Tenant = lawPeer; !w.read(w.rome, w.node()) {
				s.Abandoned, s.Tenant = true, ""
			}
			if claim, ref := lawClaim("shop"), v.Spec.ClaimRef; ref != nil && w.read(w.rome, claim) && (ref.UID == "" || ref.UID == claim.UID) {
				s.Claim = claim
			}
			more = w.obey(storage.Next(s))
		}
	}
}

// write lets the pods of the application write data to the volume of their claim, once.
func (w *dataWorld) write() {
	here, there := lawClaim("shop"), lawClaim(lawRemote)
	if !w.granted() || w.mapped("shop").State != offload.Mapped || !w.read(w.rome, here) || here.Status.Phase != corev1.ClaimBound || !w.read(w.milan, there) {
		return
	}
	uid, disk := storage.BackingUID(there), there.Spec.VolumeName
	if here.Spec.VolumeName != storage.VolumeName(uid) || disk == "" || w.disks[disk] != "" {
		return
	}
	w.disks[disk] = fmt.Sprintf("data of %s in %s", uid, disk)
	w.written = append(w.written, &datum{claim: uid, volume: disk, sum: sha256.Sum256([]byte(w.disks[disk]))})
}

// kubernetes does in both clusters what the controllers of Kubernetes and the driver of milan's disks do.
func (w *dataWorld) kubernetes() {
	w.Helper()
	for _, c := range []client.WithWatch{w.rome, w.milan} {
		for _, namespace := range listed(w, c, &corev1.NamespaceList{}).Items {
			w.endNamespace(c, &namespace)
		}
	}
	w.bind()
	w.provision()
}

// endNamespace deletes everything in a namespace that is being deleted, and then the namespace.
func (w *dataWorld) endNamespace(c client.WithWatch, namespace *corev1.Namespace) {
	w.Helper()
	if namespace.DeletionTimestamp.IsZero() {
		return
	}
	left := 0
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &offloadingv1beta1.NamespaceOffloadingList{}} {
		switch list := listed(w, c, list, client.InNamespace(namespace.Name)).(type) {
		case *corev1.PersistentVolumeClaimList:
			for i := range list.Items {
				w.delete(c, &list.Items[i])
			}
		case *offloadingv1beta1.NamespaceOffloadingList:
			for i := range list.Items {
				if left++; list.Items[i].DeletionTimestamp.IsZero() {
					w.delete(c, &list.Items[i])
				}
			}
		}
	}
	if left == 0 {
		w.vanish(c, namespace)
	}
}

// bind binds the claim and the volumes of rome, and releases volumes whose claim is gone.
func (w *dataWorld) bind() {
	w.Helper()
	for _, v := range listed(w, w.rome, &corev1.PersistentVolumeList{}).Items {
		claim, ref, phase := lawClaim("shop"), v.Spec.ClaimRef, corev1.VolumeAvailable
		switch exists := w.read(w.rome, claim); {
		case ref == nil:
		case exists && claim.DeletionTimestamp.IsZero() && v.DeletionTimestamp.IsZero() && claim.Name == ref.Name && claim.Namespace == ref.Namespace &&
			(ref.UID == "" || ref.UID == claim.UID) && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == v.Name):
			if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != v.Name {
				claim.Spec.VolumeName, claim.Status.Phase, claim.Status.Capacity = v.Name, corev1.ClaimBound, v.Spec.Capacity
				w.put(w.rome, claim)
			}
			ref.UID, phase = claim.UID, corev1.VolumeBound
		case exists && ref.UID == claim.UID:
			phase = v.Status.Phase
		case ref.UID != "":
			phase = corev1.VolumeReleased
		}
		if v.Status.Phase != phase {
			v.Status.Phase = phase
			w.put(w.rome, &v)
		}
	}
}

// provision creates the volumes of the claims of milan, and deletes or retains them when their claim is gone.
func (w *dataWorld) provision() {
	w.Helper()
	for _, claim := range listed(w, w.milan, &corev1.PersistentVolumeClaimList{}).Items {
		if claim.Spec.VolumeName != "" || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		w.made++
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("disk-", w.made)}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		}}
		w.must(w.milan.Create(w.Context(), volume))
		claim.Spec.VolumeName, claim.Status.Phase, claim.Status.Capacity = volume.Name, corev1.ClaimBound, claim.Spec.Resources.Requests
		w.put(w.milan, &claim)
	}
	for _, volume := range listed(w, w.milan, &corev1.PersistentVolumeList{}).Items {
		if !w.hasClaim(&volume) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			w.delete(w.milan, &volume)
			delete(w.disks, volume.Name)
		}
	}
}

// replicate does one step in the replication of the NamespaceMap.
func (w *dataWorld) replicate() {
	w.Helper()
	source, copied, tenant := lawMap(lawPeer), lawMap(lawTenant), w.tenant()
	if w.stopped["rome"] || !w.read(w.rome, source) {
		return
	}
	release := func() {
		w.change(w.rome, source, func() { controllerutil.RemoveFinalizer(source, peering.FinalizerReplicated) })
	}
	held := controllerutil.ContainsFinalizer(source, peering.FinalizerReplicated)
	deleting := !source.DeletionTimestamp.IsZero()
	if !held && (deleting || !peering.Selected(source)) {
		return
	}
	leaving := deleting || !peering.Selected(source)
	refused := !w.read(w.milan, tenant) || !tenant.DeletionTimestamp.IsZero() || !peering.GrantsOf(tenant).Access
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.read(w.rome, foreign)
	if offload.Gone(foreign) || !w.identity || refused {
		if leaving {
			release()
		}
		return
	}
	kinds := peering.Kinds()
	kind := kinds[slices.IndexFunc(kinds, func(k peering.Kind) bool { return k.Name == "NamespaceMap" })]
	var present peering.Object
	if w.read(w.milan, copied) {
		present = copied
	}
	step := kind.Plan(peering.Link{Own: "rome", Remote: "milan", RemoteNamespace: lawTenant}, source, present)
	switch {
	case step.Refuse != "":
		return
	case step.Release:
		release()
		return
	case step.Create != nil:
		w.change(w.rome, source, func() { controllerutil.AddFinalizer(source, peering.FinalizerReplicated) })
		w.must(w.milan.Create(w.Context(), step.Create.(client.Object)))
		return
	}
	if step.Update != nil {
		w.must(w.milan.Update(w.Context(), step.Update.(client.Object)))
	}
	if step.Delete {
		w.delete(w.milan, copied)
	}
	if step.Status != nil {
		w.must(w.rome.Status().Update(w.Context(), step.Status.(client.Object)))
	}
}

// endTenant does what the controller of Tenants does about remote namespaces.
func (w *dataWorld) endTenant() {
	w.Helper()
	tenant := w.tenant()
	if w.stopped["milan"] || !w.read(w.milan, tenant) || tenant.DeletionTimestamp.IsZero() {
		return
	}
	var claims []corev1.PersistentVolumeClaim
	var namespaces []corev1.Namespace
	for _, namespace := range listed(w, w.milan, &corev1.NamespaceList{}).Items {
		if owner, _, _ := strings.Cut(offloadingv1beta1.NamespaceMapOf(&namespace), "/"); owner == lawTenant {
			namespaces = append(namespaces, namespace)
			claims = append(claims, listed(w, w.milan, &corev1.PersistentVolumeClaimList{}, client.InNamespace(namespace.Name)).Items...)
		}
	}
	if peering.ClaimsKept(tenant, kube.HeldClaims(claims)) != "" {
		return
	}
	if copied := lawMap(lawTenant); w.read(w.milan, copied) {
		if copied.DeletionTimestamp.IsZero() {
			w.delete(w.milan, copied)
		}
		return
	}
	for i := range namespaces {
		if namespaces[i].DeletionTimestamp.IsZero() {
			w.delete(w.milan, &namespaces[i])
		}
	}
	if len(namespaces) == 0 {
		w.vanish(w.milan, tenant)
	}
}
