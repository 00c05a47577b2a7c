package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
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
	kubetesting "k8s.io/client-go/testing"
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
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
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
	view        *lawView
	events      *events.FakeRecorder
	// identity is false while rome has no identity in milan. stopped are the clusters whose programs do not run. disabled are those without storage.
	identity          bool
	stopped, disabled map[string]bool
	protected         []string // patterns of namespaces of rome
	made              int
	writes            []string // of this pass
	clock             time.Duration
	// disks are the contents of the volumes in milan, by the name of the volume. A deleted volume has none.
	disks map[string]string
	// written is the data that the application has written.
	written []*datum
	backups map[string]*backup
	done    []string
}

// backup is the content of a cluster at an earlier time.
type backup struct {
	objects []client.Object
	// written are the volumes with data at that time.
	written map[string]bool
}

// datum is data of the application. It is lost if no volume of milan has its checksum, or if no claim can have that volume again.
type datum struct {
	// claim is the UID in the name of the virtual volume, volume the name of the volume in milan.
	claim  types.UID
	volume string
	sum    [sha256.Size]byte
	// by is the UID of the NamespaceMap by which rome had the namespace at that time.
	by types.UID
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
		T: t, identity: true, disks: map[string]string{}, stopped: map[string]bool{}, disabled: map[string]bool{}, backups: map[string]*backup{},
		events: events.NewFakeRecorder(1000),
	}
	w.milan = w.cluster()
	w.createTenant()
	w.must(w.milan.Create(t.Context(), w.quota()))
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
	tracker := kubetesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(apimeta.NewDefaultRESTMapper(nil)).WithObjectTracker(tracker).
		WithStatusSubresource(&offloadingv1beta1.NamespaceMap{}, &offloadingv1beta1.NamespaceOffloading{}, &offloadingv1beta1.VirtualNode{}, &authv1beta1.ResourceSlice{},
			&offloadingv1beta1.ShadowPod{}).
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
func quick(scheme *runtime.Scheme, tracker kubetesting.ObjectTracker, key client.ObjectKey, into client.Object) error {
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
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}},
		&offloadingv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: offloadingv1beta1.VkOptionsTemplateDefault}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait},
		&authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: authv1beta1.IdentityResourceSlicePrefix + "milan"},
			Status:     authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"}},
		},
	} {
		w.must(w.rome.Create(w.Context(), o))
	}
	w.createSlice()
	w.start()
}

// createSlice creates the ResourceSlice, which milan accepts.
func (w *dataWorld) createSlice() {
	w.must(client.IgnoreAlreadyExists(w.rome.Create(w.Context(), w.slice())))
	w.answer(authv1beta1.ResourceSliceAccepted)
}

// answer is the verdict of milan about the ResourceSlice.
func (w *dataWorld) answer(verdict authv1beta1.ResourceSliceConditionStatus) {
	slice := w.slice()
	if w.read(w.rome, slice) {
		slice.Status.Conditions = []authv1beta1.ResourceSliceCondition{
			{Type: authv1beta1.ResourceSliceAuthentication, Status: authv1beta1.ResourceSliceAccepted}, {Type: authv1beta1.ResourceSliceResources, Status: verdict},
		}
		w.must(w.rome.Status().Update(w.Context(), slice))
	}
}

// createTenant lets milan admit rome, unless it has.
func (w *dataWorld) createTenant() {
	w.must(client.IgnoreAlreadyExists(w.milan.Create(w.Context(), &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "rome", Finalizers: []string{lawHold}}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"},
	})))
}

// start starts the programs of both clusters, without anything in memory.
func (w *dataWorld) start() {
	now := func() time.Time { return time.Now().Add(w.clock) }
	opts := Options{ClusterID: "rome", LiqoNamespace: "liqo", Volumes: w.volumes, Now: now, ProtectedNamespaces: w.protected}
	w.mapping = &mappings{Client: w.rome, Options: opts}
	maps := &namespaceMaps{Client: w.milan, Options: Options{LiqoNamespace: "liqo", Live: w.milan}, events: w.events}
	nodes := &virtualNodes{Client: w.rome, Options: opts, live: w.rome, drains: newDrains(w.rome), events: &events.FakeRecorder{}}
	offloadings := &namespaceOffloadings{Client: w.rome, Options: opts, live: w.rome, events: &events.FakeRecorder{}}
	pods := &shadowPods{Client: w.milan, live: w.milan, events: &events.FakeRecorder{}}
	pods.kind = &kube.Reconciler[*offloadingv1beta1.ShadowPod]{Name: "shadowpod", Client: w.milan, Sync: pods.sync}
	slices := &sliceNodes{Client: w.rome, Options: opts, events: &events.FakeRecorder{}}
	w.controllers = map[string]reconcile.Reconciler{
		"shadowpod": pods,
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
	w.view = &lawView{w: w, kind: &corev1.PersistentVolumeList{}, confirmed: map[string]bool{}}
	w.claims = storagecontrollers.NewRemoteClaims(storagecontrollers.RemoteOptions{
		Origin: "rome", Cluster: "milan", Tenant: lawPeer, Virtual: w.view, Classes: &lawView{w: w, kind: &storagev1.StorageClassList{}},
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

// lawView is a View of objects of rome: all StorageClasses, or the virtual volumes that have their label or were read from the API server.
type lawView struct {
	w         *dataWorld
	kind      client.ObjectList
	confirmed map[string]bool
}

func (v *lawView) Synced() bool          { return true }
func (v *lawView) Wrote(o client.Object) { v.confirmed[o.GetName()] = true }
func (v *lawView) List() []client.Object {
	out := []client.Object{}
	switch list := listed(v.w, v.w.rome, v.kind.DeepCopyObject().(client.ObjectList)).(type) {
	case *corev1.PersistentVolumeList:
		for i := range list.Items {
			if list.Items[i].Labels[storage.LabelVirtual] == api.True || v.confirmed[list.Items[i].Name] {
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
		found := is && (storage.DataOf(volume).String() == value || storage.ReservedFor(volume).String() == value || value == storage.IndexRecovered && storage.IsRecovered(volume))
		return !found
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

func (w *dataWorld) quota() *offloadingv1beta1.Quota {
	return &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "milan"}}
}

// shadow returns the ShadowPod of the application, and pod its Pod.
func (w *dataWorld) shadow() *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: lawRemote, Name: "web"}}
}

func (w *dataWorld) pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: lawRemote, Name: "web"}}
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
	for _, v := range listed(w, w.rome, &corev1.PersistentVolumeList{}).Items {
		if v.Annotations[storage.AnnotationMove] != "" {
			return // policy liqo-moving-claims refuses it
		}
	}
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
		w.Fatalf("%v after: %q", err, w.done)
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
	node, tenant, o := w.node(), w.tenant(), w.offloading()
	if w.read(w.rome, node) && !node.DeletionTimestamp.IsZero() && node.Annotations[api.AnnotationDeleteVolumes] == api.True ||
		w.read(w.rome, o) && o.Annotations[api.AnnotationDeleteVolumes] == api.True {
		w.request(w.grantedTo)
	}
	if w.read(w.milan, tenant) && !tenant.DeletionTimestamp.IsZero() && tenant.Annotations[api.AnnotationDeleteVolumes] == api.True {
		w.request(func(*datum) bool { return true })
	}
	w.request(w.forgotten)
}

// grantedTo reports whether some data was written to a namespace that the present NamespaceMap of rome has requested. Rome can't request the deletion of other data.
func (w *dataWorld) grantedTo(d *datum) bool {
	m := lawMap(lawPeer)
	return w.read(w.rome, m) && m.UID == d.by
}

// forgotten reports whether rome ends the offloading of a namespace that it knows, while it does not know the volume of some data in it. The guide advises to wait
// for the virtual kubelet first, which creates the volume again.
func (w *dataWorld) forgotten(d *datum) bool {
	m, remote, o, node := lawMap(lawPeer), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespaceOf(d)}}, w.offloading(), w.node()
	if w.read(w.rome, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: storage.VolumeName(d.claim)}}) || !w.read(w.rome, m) || !w.read(w.milan, remote) {
		return false
	}
	known := m.Spec.DesiredMapping["shop"] == remote.Name || m.Spec.ReleasedMapping["shop"] == remote.Name
	if !known || !w.grantedTo(d) {
		return false
	}
	ends := !w.read(w.rome, o) || !o.DeletionTimestamp.IsZero() || o.Spec.ClusterSelector != nil || len(w.protected) > 0 || offload.RemoteNamespace(&o.Spec, "shop", "rome") != remote.Name
	return ends || !w.read(w.rome, node) || !node.DeletionTimestamp.IsZero()
}
