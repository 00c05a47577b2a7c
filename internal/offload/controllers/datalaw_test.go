package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
)

// dataWorld is a consumer rome and a provider milan. Namespace shop of rome is offloaded to milan, where its remote namespace has a claim with data. The
// controllers of NamespaceMaps are the real ones; the virtual node, the replication and the Tenant follow the same decisions as the real ones.
type dataWorld struct {
	*testing.T
	rome, milan client.Client
	mapping     *mappings
	maps        *kube.Reconciler[*offloadingv1beta1.NamespaceMap]
	identity    bool
	made        int
	events      *events.FakeRecorder
}

const (
	lawTenant = "liqo-tenant-rome" // in milan
	lawPeer   = "liqo-tenant-milan"
	lawRemote = "shop-rome"
	lawHold   = "example.org/held" // keeps an object until the world removes it, as the finalizer of its controller does
)

func newDataWorld(t *testing.T) *dataWorld {
	w := &dataWorld{T: t, identity: true}
	w.rome = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(&offloadingv1beta1.NamespaceMap{}).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan", api.LabelType: api.TypeVirtualNode}}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
		&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: "milan", UID: "vn", Finalizers: []string{lawHold}},
			Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}},
		w.offloading(),
	).WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		w.identify(o)
		return c.Create(ctx, o, opts...)
	}}).Build()
	w.milan = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(&offloadingv1beta1.NamespaceMap{}).WithObjects(
		&authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "rome", Finalizers: []string{lawHold}}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}},
	).WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if _, ok := o.(*corev1.Namespace); ok { // Kubernetes deletes everything in it
			if err := c.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(o.GetName())); err != nil {
				return err
			}
		}
		return c.Delete(ctx, o, opts...)
	}}).Build()
	w.mapping = &mappings{Client: w.rome, Options: Options{ClusterID: "rome", LiqoNamespace: "liqo", Volumes: func(context.Context, client.Reader) ([]offload.Volume, error) {
		return []offload.Volume{{Name: "pvc-1", Namespace: "shop", Claim: "data", Cluster: "milan", Size: "1Gi"}}, nil
	}}}
	w.events = events.NewFakeRecorder(1000)
	r := &namespaceMaps{Client: w.milan, Options: Options{LiqoNamespace: "liqo", Live: w.milan}, events: w.events}
	w.maps = &kube.Reconciler[*offloadingv1beta1.NamespaceMap]{
		Name: "namespacemap", Client: w.milan, Finalizer: FinalizerNamespaceMap, Sync: r.sync, Finalize: r.finalize,
		Wanted: func(m *offloadingv1beta1.NamespaceMap) bool { return isCopy(m) },
	}
	w.settle()
	w.must(w.milan.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: lawRemote, Name: "data"}}))
	return w
}

func (w *dataWorld) offloading() *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName, Finalizers: []string{lawHold},
	}}
}

func (w *dataWorld) node() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: lawPeer, Name: "milan"}}
}

func (w *dataWorld) tenant() *authv1beta1.Tenant {
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: lawTenant, Name: "rome"}}
}

func lawMap(namespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
}

// identify gives a new object its UID and the time of its creation, because the fake API server does not.
func (w *dataWorld) identify(o metav1.Object) {
	w.made++
	o.SetUID(types.UID(fmt.Sprint(w.made)))
	o.SetCreationTimestamp(metav1.Unix(int64(w.made), 0))
}

func (w *dataWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
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

// hasData reports whether the claim in the provider is there.
func (w *dataWorld) hasData() bool {
	return w.read(w.milan, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: lawRemote, Name: "data"}})
}

// settle runs all controllers until they have nothing left to do.
func (w *dataWorld) settle() {
	w.Helper()
	for range 6 {
		w.finalizeNode()
		_, err := w.mapping.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "milan"}})
		w.must(err)
		w.replicate()
		_, err = w.maps.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lawMap(lawTenant))})
		w.must(err)
		w.endTenant()
	}
}

// finalizeNode removes the virtual node when nothing holds it.
func (w *dataWorld) finalizeNode() {
	node := w.node()
	if !w.read(w.rome, node) || node.DeletionTimestamp.IsZero() {
		return
	}
	volumes, err := w.mapping.volumes(w.Context(), w.rome)
	w.must(err)
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	w.read(w.rome, foreign)
	if len(offload.NodeVolumes(node, []offloadingv1beta1.VirtualNode{*node}, volumes, foreign)) > 0 {
		return
	}
	w.delete(w.rome, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}})
	maps, err := mapsTowards(w.Context(), w.rome, "milan")
	w.must(err)
	w.must(deleteMaps(w.Context(), w.rome, maps))
	w.vanish(w.rome, node)
}

// replicate does one step in the replication of the NamespaceMap.
func (w *dataWorld) replicate() {
	source, copied, tenant := lawMap(lawPeer), lawMap(lawTenant), w.tenant()
	if !w.read(w.rome, source) {
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
		w.identify(step.Create)
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
	tenant := w.tenant()
	if !w.read(w.milan, tenant) || tenant.DeletionTimestamp.IsZero() {
		return
	}
	claims := &corev1.PersistentVolumeClaimList{}
	w.must(w.milan.List(w.Context(), claims, client.InNamespace(lawRemote)))
	if peering.ClaimsKept(tenant, claims.Items) != "" {
		return
	}
	w.delete(w.milan, lawMap(lawTenant))
	if w.read(w.milan, lawMap(lawTenant)) {
		return
	}
	w.delete(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}})
	w.vanish(w.milan, tenant)
}

// ways are the ways in which something ends although no user has asked for the deletion of data.
func (w *dataWorld) ways() map[string]func() {
	tenant, node, offloading := w.tenant(), w.node(), w.offloading()
	condition := func(to authv1beta1.TenantCondition) func() {
		return func() { w.change(w.milan, tenant, func() { tenant.Spec.TenantCondition = to }) }
	}
	source, copied := lawMap(lawPeer), lawMap(lawTenant)
	return map[string]func(){
		"the tenant is drained":              condition(authv1beta1.TenantDrained),
		"the tenant is activated":            condition(authv1beta1.TenantActive),
		"the Tenant is deleted":              func() { w.delete(w.milan, tenant) },
		"the NamespaceMap is deleted":        func() { w.delete(w.rome, source) },
		"the NamespaceMap vanishes":          func() { w.vanish(w.rome, source) },
		"the copy of the NamespaceMap is":    func() { w.delete(w.milan, copied) },
		"the NamespaceMap loses its labels":  func() { w.change(w.rome, source, func() { source.Labels = nil }) },
		"the NamespaceMap is not replicated": func() { w.change(w.rome, source, func() { source.Labels[api.LabelReplication] = api.False }) },
		"the copy loses its labels":          func() { w.change(w.milan, copied, func() { copied.Labels = nil }) },
		"the NamespaceOffloading is deleted": func() { w.delete(w.rome, offloading) },
		"the NamespaceOffloading vanishes":   func() { w.vanish(w.rome, offloading) },
		"the NamespaceOffloading is new":     func() { _ = w.rome.Create(w.Context(), w.offloading()) },
		"the NamespaceOffloading is another one": func() {
			o := w.offloading()
			o.Spec.NamespaceMappingStrategy = offloadingv1beta1.EnforceSameName
			_ = w.rome.Create(w.Context(), o)
		},
		"the selector leaves milan out": func() {
			w.change(w.rome, offloading, func() {
				offloading.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}},
				}}}}
			})
		},
		"the namespace is protected":             func() { w.mapping.ProtectedNamespaces = []string{"sh*"} },
		"the namespace is no longer protected":   func() { w.mapping.ProtectedNamespaces = nil },
		"the VirtualNode is deleted":             func() { w.delete(w.rome, node) },
		"the VirtualNode vanishes":               func() { w.vanish(w.rome, node) },
		"rome is installed again":                w.reinstall,
		"rome is restored from a backup":         w.restore,
		"both clusters were of a former release": w.fromEarlierRelease,
		"the identity is lost":                   func() { w.identity = false },
		"the identity is there again":            func() { w.identity = true },
		"the provider is declared unreachable": func() {
			fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
			w.change(w.rome, fc, func() {
				fc.Annotations = map[string]string{"liqo.io/foreign-cluster-permanently-unreachable": api.True}
			})
		},
	}
}

// reinstall replaces rome by another cluster with the same ID, which is peered again and knows nothing about its former objects.
func (w *dataWorld) reinstall() {
	node, host := w.node(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan", api.LabelType: api.TypeVirtualNode}}}
	for _, o := range []client.Object{lawMap(lawPeer), w.offloading(), node, host} {
		w.vanish(w.rome, o)
	}
	node = w.node()
	node.Finalizers, node.Spec.ClusterID = []string{lawHold}, "milan"
	host.ResourceVersion = ""
	w.must(w.rome.Create(w.Context(), node))
	w.must(w.rome.Create(w.Context(), host))
}

// restore replaces the state of rome by that of a backup in which the namespace was not offloaded yet. The NamespaceMap is the same object as before.
func (w *dataWorld) restore() {
	source := lawMap(lawPeer)
	w.change(w.rome, source, func() { source.Spec = offloadingv1beta1.NamespaceMapSpec{} })
	if w.read(w.rome, source) {
		source.Status = offloadingv1beta1.NamespaceMapStatus{}
		w.must(w.rome.Status().Update(w.Context(), source))
	}
	w.vanish(w.rome, w.offloading())
}

// fromEarlierRelease gives the copy of the NamespaceMap and the remote namespace the marks of a release whose copies did not name their source.
func (w *dataWorld) fromEarlierRelease() {
	copied, remote := lawMap(lawTenant), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}
	w.change(w.milan, copied, func() { copied.Annotations = nil })
	w.change(w.milan, remote, func() { remote.Annotations[offloadingv1beta1.AnnotationNamespaceMapUID] = string(copied.UID) })
}

// TestDataStaysUntilItsDeletionIsRequested: whatever ends, and in whatever order, the claims in a provider stay. They go only with an explicit request.
func TestDataStaysUntilItsDeletionIsRequested(t *testing.T) {
	names := []string{}
	for name := range newDataWorld(t).ways() {
		names = append(names, name)
	}
	slices.Sort(names)
	for seed := range uint64(2 * len(names)) {
		random := rand.New(rand.NewPCG(seed, 1))
		w, done := newDataWorld(t), []string{}
		ways := w.ways()
		for range 4 {
			name := names[random.IntN(len(names))]
			if seed < uint64(len(names)) && len(done) == 0 {
				name = names[seed] // each way comes first once
			}
			done = append(done, name)
			ways[name]()
			w.settle()
			if !w.hasData() {
				t.Fatalf("seed %d: the data is gone after: %q", seed, done)
			}
		}
	}
}

// TestRequestedDeletionsOfDataComplete: after an explicit request, nothing keeps the data, so that a peering can end.
func TestRequestedDeletionsOfDataComplete(t *testing.T) {
	marked := func(w *dataWorld, c client.Client, o client.Object) {
		w.change(c, o, func() { metav1.SetMetaDataAnnotation(lawMeta(o), api.AnnotationDeleteVolumes, api.True) })
		w.delete(c, o)
	}
	for name, request := range map[string]func(w *dataWorld){
		"the NamespaceOffloading": func(w *dataWorld) { marked(w, w.rome, w.offloading()) },
		"the VirtualNode":         func(w *dataWorld) { marked(w, w.rome, w.node()) },
		"the Tenant":              func(w *dataWorld) { marked(w, w.milan, w.tenant()) },
		"the Tenant, drained": func(w *dataWorld) {
			w.ways()["the tenant is drained"]()
			w.settle()
			marked(w, w.milan, w.tenant())
		},
		"the Tenant, whose map was deleted": func(w *dataWorld) {
			w.ways()["the VirtualNode vanishes"]()
			w.ways()["the copy of the NamespaceMap is"]()
			w.settle()
			marked(w, w.milan, w.tenant())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			request(w)
			w.settle()
			if w.hasData() || w.read(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}) {
				t.Error("the data is still there")
			}
		})
	}
}

func lawMeta(o client.Object) *metav1.ObjectMeta {
	switch o := o.(type) {
	case *offloadingv1beta1.NamespaceOffloading:
		return &o.ObjectMeta
	case *offloadingv1beta1.VirtualNode:
		return &o.ObjectMeta
	case *authv1beta1.Tenant:
		return &o.ObjectMeta
	}
	panic(fmt.Sprintf("%T", o))
}

// TestAnotherNamespaceMapDeletesNoData: a consumer that lost its NamespaceMap, and its offloadings, writes another one without the namespaces of the former. The
// provider keeps those with claims and reports them. The consumer gets the same namespace again when it offloads its namespace again. It does not know the volumes
// of before, so not even its permission to delete data ends that namespace. It ends once its claims are deleted.
func TestAnotherNamespaceMapDeletesNoData(t *testing.T) {
	for name, before := range map[string]func(w *dataWorld){
		"with a copy that names its source":  func(*dataWorld) {},
		"with a copy of an earlier release":  (*dataWorld).fromEarlierRelease,
		"for the second time":                (*dataWorld).reinstall,
		"after its NamespaceMap was deleted": func(w *dataWorld) { w.vanish(w.rome, lawMap(lawPeer)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			before(w)
			w.settle()
			w.reinstall()
			w.settle()
			if !w.hasData() {
				t.Fatal("the data is gone")
			}
			if text := <-w.events.Events; !strings.Contains(text, "VolumesKept namespace shop-rome stays") {
				t.Errorf("event %q", text)
			}
			w.must(w.rome.Create(t.Context(), w.offloading()))
			w.settle()
			m := lawMap(lawPeer)
			if w.read(w.rome, m); m.Status.CurrentMapping["shop"].Phase != offloadingv1beta1.MappingAccepted || !w.hasData() {
				t.Fatalf("not taken over: %+v, data: %t", m.Status, w.hasData())
			}
			o := w.offloading()
			w.change(w.rome, o, func() { o.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True} })
			w.delete(w.rome, o)
			w.settle()
			if !w.hasData() {
				t.Fatal("the data of the former NamespaceMap is gone")
			}
			w.must(w.milan.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: lawRemote, Name: "data"}}))
			w.settle()
			if w.read(w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}) {
				t.Error("the namespace stays without claims")
			}
		})
	}
}

// TestOffloadingsEndAfterAnUpgrade: a copy and a namespace that an earlier release marked are those of the same NamespaceMap as before, so that the end of the
// offloading deletes the namespace.
func TestOffloadingsEndAfterAnUpgrade(t *testing.T) {
	w := newDataWorld(t)
	w.fromEarlierRelease()
	o := w.offloading()
	w.change(w.rome, o, func() { o.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True} })
	w.delete(w.rome, o)
	w.settle()
	if w.hasData() {
		t.Error("the data is still there")
	}
}

// TestCopiesOfRemoteNamespacesStay: a copy of a remote namespace that a backup tool or an export creates has its annotations, too. Liqo deletes it neither with
// the NamespaceMap nor because the map lacks it, and takes it for no other one when the consumer requests its name.
func TestCopiesOfRemoteNamespacesStay(t *testing.T) {
	w := newDataWorld(t)
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lawRemote}}
	w.read(w.milan, remote)
	backup := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-backup", Labels: remote.Labels, Annotations: remote.Annotations}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-backup", Name: "data"}}
	w.must(w.milan.Create(t.Context(), backup))
	w.must(w.milan.Create(t.Context(), claim))
	w.settle()
	if !w.read(w.milan, claim) || !w.hasData() {
		t.Fatal("the data is gone")
	}
	copied := lawMap(lawTenant)
	w.change(w.milan, copied, func() { copied.Spec.DesiredMapping = map[string]string{"shop": lawRemote, "web": "shop-backup"} })
	_, err := w.maps.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(copied)})
	w.must(err)
	if w.read(w.milan, copied); copied.Status.CurrentMapping["web"].Phase != offloadingv1beta1.MappingCreationLoopBackOff {
		t.Errorf("the copy is taken for a remote namespace: %+v", copied.Status)
	}
}
