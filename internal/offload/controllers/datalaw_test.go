package controllers

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

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
func (w *dataWorld) reinstall() { w.install() }

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
	w.change(w.milan, remote, func() {
		metav1.SetMetaDataAnnotation(&remote.ObjectMeta, offloadingv1beta1.AnnotationNamespaceMapUID, string(copied.UID))
	})
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
			if lost := w.lost(); lost != "" {
				t.Fatalf("seed %d: %s after: %q", seed, lost, done)
			}
		}
	}
}

// TestRequestedDeletionsOfDataComplete: after an explicit request, nothing keeps the data, so that a peering can end.
func TestRequestedDeletionsOfDataComplete(t *testing.T) {
	marked := func(w *dataWorld, c client.Client, o client.Object) {
		w.change(c, o, func() {
			metav1.SetMetaDataAnnotation(o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta), api.AnnotationDeleteVolumes, api.True)
		})
		w.delete(c, o)
	}
	for name, request := range map[string]func(w *dataWorld){
		"the NamespaceOffloading": func(w *dataWorld) { marked(w, w.rome, w.offloading()) },
		"the VirtualNode": func(w *dataWorld) {
			marked(w, w.rome, w.node())
			w.delete(w.rome, w.slice()) // it would create the VirtualNode again
		},
		"the Tenant": func(w *dataWorld) { marked(w, w.milan, w.tenant()) },
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
			w.must(w.milan.Delete(t.Context(), lawClaim(lawRemote)))
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
	w.run("namespacemap", copied)
	if w.read(w.milan, copied); copied.Status.CurrentMapping["web"].Phase != offloadingv1beta1.MappingCreationLoopBackOff {
		t.Errorf("the copy is taken for a remote namespace: %+v", copied.Status)
	}
}
