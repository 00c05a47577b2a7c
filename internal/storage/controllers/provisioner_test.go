package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/storage"
)

// world is a fake API server that records what is written to it.
type world struct {
	client.WithWatch
	t      *testing.T
	writes []string
	events *events.FakeRecorder
}

func newWorld(t *testing.T, objs ...client.Object) *world {
	w := &world{t: t, events: events.NewFakeRecorder(20)}
	note := func(verb string, o client.Object) {
		w.writes = append(w.writes, fmt.Sprintf("%s %s", verb, o.GetName()))
	}
	w.WithWatch = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objs...).
		WithStatusSubresource(&corev1.PersistentVolumeClaim{}).
		WithIndex(&corev1.PersistentVolumeClaim{}, uidIndex, byUID).
		WithIndex(&corev1.Event{}, eventIndex, func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				note("create", o)
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				note("patch", o)
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				note("patch "+sub, o)
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				note("delete", o)
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
	return w
}

func (w *world) provisioner(live client.Reader) *provisioner {
	return newProvisioner(w, live, w.events, Options{ClusterID: "rome", Namespace: "liqo-storage", GlobalLabels: map[string]string{"team": "storage"}})
}

// reconcile lets the provisioner act until it writes nothing more, and returns what it wrote.
func (w *world) reconcile(p *provisioner) []string {
	w.t.Helper()
	w.writes = nil
	for before := -1; before != len(w.writes); {
		before = len(w.writes)
		if _, err := p.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "u1"}}); err != nil {
			w.t.Fatal(err)
		}
	}
	out := w.writes
	w.writes = nil
	return out
}

// read returns the object with that name, nil if there is none.
func read[T client.Object](w *world, obj T, namespace, name string) T {
	w.t.Helper()
	out, err := get(w.t.Context(), w, obj, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// change writes an object with its status as somebody else would.
func (w *world) change(obj client.Object) {
	w.t.Helper()
	want := obj.DeepCopyObject()
	if err := w.Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	switch obj := obj.(type) { // the first request does not change the status
	case *corev1.PersistentVolumeClaim:
		obj.Status = want.(*corev1.PersistentVolumeClaim).Status
	case *corev1.PersistentVolume:
		obj.Status = want.(*corev1.PersistentVolume).Status
	default:
		return
	}
	if err := w.WithWatch.Status().Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func size(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

func class(name, provisioner string, annotations map[string]string) *storagev1.StorageClass {
	wait, yes := storagev1.VolumeBindingWaitForFirstConsumer, true
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: provisioner, VolumeBindingMode: &wait, AllowVolumeExpansion: &yes,
	}
}

// cluster returns the classes and the node of a cluster, and a claim of class liqo whose pod is scheduled there.
func cluster() []client.Object {
	name := "liqo"
	return []client.Object{
		class("liqo", storage.Provisioner, nil),
		class("standard", "example.org/disk", map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Annotations: map[string]string{storage.AnnotationSelectedNode: "n1"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")},
			},
		},
	}
}

// TestLifeOfAClaim: what a claim costs in writes, from its pod until its deletion.
func TestLifeOfAClaim(t *testing.T) {
	w := newWorld(t, cluster()...)
	p := w.provisioner(w)
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.reconcile(p)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("its pod is scheduled", "create u1")
	backing := read(w, &corev1.PersistentVolumeClaim{}, "liqo-storage", "u1")
	if *backing.Spec.StorageClassName != "standard" || backing.Labels["team"] != "storage" {
		t.Errorf("%+v", backing)
	}

	real := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "real"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size("1Gi"), AccessModes: backing.Spec.AccessModes, ClaimRef: &corev1.ObjectReference{Namespace: "liqo-storage", Name: "u1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/7"}},
		},
	}
	if err := w.Create(t.Context(), real); err != nil {
		t.Fatal(err)
	}
	backing.Spec.VolumeName, backing.Status = "real", corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("1Gi")}
	w.change(backing)
	expect("the driver created the volume", "create pvc-u1")
	volume := read(w, &corev1.PersistentVolume{}, "", "pvc-u1")
	if volume.Spec.NFS == nil || volume.Spec.ClaimRef.UID != "u1" {
		t.Errorf("%+v", volume)
	}
	if said := <-w.events.Events; !strings.Contains(said, "Successfully provisioned volume pvc-u1") {
		t.Error(said)
	}

	claim := read(w, &corev1.PersistentVolumeClaim{}, "shop", "data")
	claim.Spec.VolumeName, claim.Status = "pvc-u1", corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("1Gi")}
	w.change(claim)
	volume.Status.Phase = corev1.VolumeBound
	w.change(volume)
	expect("Kubernetes bound both: the backing claim may have data from now on", "patch u1")

	claim.Spec.Resources.Requests = size("2Gi")
	w.change(claim)
	expect("the claim is enlarged", "patch u1")
	backing = read(w, &corev1.PersistentVolumeClaim{}, "liqo-storage", "u1")
	backing.Status.Capacity = size("2Gi")
	w.change(backing)
	real = read(w, &corev1.PersistentVolume{}, "", "real")
	real.Spec.Capacity = size("2Gi")
	w.change(real)
	expect("the driver enlarged the volume", "patch pvc-u1", "patch status data")

	if err := w.Delete(t.Context(), read(w, &corev1.PersistentVolumeClaim{}, "shop", "data")); err != nil {
		t.Fatal(err)
	}
	expect("the claim is gone, the volume is not released yet")
	volume = read(w, &corev1.PersistentVolume{}, "", "pvc-u1")
	volume.Status.Phase = corev1.VolumeReleased
	w.change(volume)
	expect("the volume is released", "delete u1", "delete pvc-u1", "patch pvc-u1")
	if volume = read(w, &corev1.PersistentVolume{}, "", "pvc-u1"); volume != nil {
		t.Errorf("%+v", volume)
	}
}

// TestAStaleCacheDeletesNothing: the cache does not have the claim yet, the API server does.
func TestAStaleCacheDeletesNothing(t *testing.T) {
	live := newWorld(t, cluster()...)
	live.reconcile(live.provisioner(live))
	backing := read(live, &corev1.PersistentVolumeClaim{}, "liqo-storage", "u1")
	backing.ResourceVersion = ""
	stale := slices.DeleteFunc(cluster(), func(o client.Object) bool { return o.GetName() == "data" })
	w := newWorld(t, append(stale, backing)...)
	if wrote := w.reconcile(w.provisioner(live)); len(wrote) != 0 {
		t.Errorf("%q", wrote)
	}
	if wrote := w.reconcile(w.provisioner(w)); !slices.Equal(wrote, []string{"delete u1"}) {
		t.Errorf("the claim is gone everywhere: %q", wrote)
	}
}

// TestRefusalsAreReportedOnce: an Event on the claim, and one on each pod that uses it, also on pods that come later.
func TestRefusalsAreReportedOnce(t *testing.T) {
	objs := cluster()
	objs[3].(*corev1.PersistentVolumeClaim).Spec.Selector = &metav1.LabelSelector{}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		}}}
	}
	w := newWorld(t, append(objs, pod("web"))...)
	p := w.provisioner(w)
	w.reconcile(p)
	w.reconcile(p)
	if err := w.Create(t.Context(), pod("later")); err != nil {
		t.Fatal(err)
	}
	w.reconcile(p)
	for range 3 { // the claim, and two pods
		if said := <-w.events.Events; !strings.Contains(said, "ProvisioningFailed") || !strings.Contains(said, "spec.selector") {
			t.Error(said)
		}
	}
	if len(w.events.Events) != 0 {
		t.Errorf("said again: %s", <-w.events.Events)
	}
}

// TestTheNamespaceChoosesTheRealClass: an annotation of the namespace is stronger than the installation, for claims that have no backing claim yet.
func TestTheNamespaceChoosesTheRealClass(t *testing.T) {
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{"liqo.io/real-storage-class": "fast"}}}
	w := newWorld(t, append(cluster(), shop, class("fast", "example.org/disk", nil))...)
	p := w.provisioner(w)
	w.reconcile(p)
	if got := *read(w, &corev1.PersistentVolumeClaim{}, "liqo-storage", "u1").Spec.StorageClassName; got != "fast" {
		t.Errorf("class %s", got)
	}
	shop = read(w, &corev1.Namespace{}, "", "shop")
	shop.Annotations = nil
	w.change(shop)
	if wrote := w.reconcile(p); len(wrote) != 0 {
		t.Errorf("a later change of the annotation: %v", wrote)
	}
}

// TestTheWarningOfADriverIsReported: a driver that has no such volume says so on the backing claim, which users do not see. Its last Warning is repeated on
// the claim and on its pods, once.
func TestTheWarningOfADriverIsReported(t *testing.T) {
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}}}
	w := newWorld(t, append(cluster(), web)...)
	p := w.provisioner(w)
	w.reconcile(p)
	event := func(name, kind, message string, at int64) {
		t.Helper()
		if err := w.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-storage", Name: name}, Type: kind, Message: message, LastTimestamp: metav1.Unix(at, 0),
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "liqo-storage", Name: "u1"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	event("a", corev1.EventTypeNormal, "waiting for a volume to be created", 9)
	w.reconcile(p)
	if len(w.events.Events) != 0 {
		t.Errorf("no driver warned: %s", <-w.events.Events)
	}
	event("b", corev1.EventTypeWarning, "only accessMode ReadWriteOnce is supported", 2)
	event("c", corev1.EventTypeWarning, "starting", 1)
	w.reconcile(p)
	w.reconcile(p)
	for _, object := range []string{"the claim", "the pod"} {
		select {
		case said := <-w.events.Events:
			for _, part := range []string{"ProvisioningFailed", "StorageClass standard", "only accessMode ReadWriteOnce is supported", "storage.realStorageClassName"} {
				if !strings.Contains(said, part) {
					t.Errorf("%s: no %q in %s", object, part, said)
				}
			}
		default:
			t.Errorf("no Event on %s", object)
		}
	}
	if len(w.events.Events) != 0 {
		t.Errorf("said again: %s", <-w.events.Events)
	}
}

// TestTheDefaultClassIsOffered: each remote namespace gets the default class for the admission policy, and follows it. Other namespaces get nothing.
func TestTheDefaultClassIsOffered(t *testing.T) {
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop-rome", Annotations: map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: "liqo-tenant-rome/rome", "note": "kept"},
	}}
	local := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	w := newWorld(t, append(cluster(), remote, local)...)
	o := &offers{client: w}
	offered := func() string {
		t.Helper()
		if got := o.remoteNamespaces(t.Context(), nil); len(got) != 1 || got[0].Name != remote.Name {
			t.Errorf("a StorageClass leads to %v", got)
		}
		for _, name := range []string{remote.Name, local.Name} {
			if _, err := o.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(w, &corev1.Namespace{}, "", local.Name).Annotations; len(got) != 0 {
			t.Errorf("namespace shop has annotations %v", got)
		}
		annotations := read(w, &corev1.Namespace{}, "", remote.Name).Annotations
		return annotations["note"] + " " + annotations[storage.AnnotationDefaultClass]
	}
	for range 2 {
		if got := offered(); got != "kept standard" {
			t.Errorf("%q", got)
		}
	}
	if len(w.writes) != 1 {
		t.Errorf("wrote %q", w.writes)
	}
	standard := read(w, &storagev1.StorageClass{}, "", "standard")
	standard.Annotations = nil
	w.change(standard)
	if got := offered(); got != "kept " {
		t.Errorf("without a default class: %q", got)
	}
}

// TestEventsLeadToTheClaim: each object of a claim leads to the UID of the claim.
func TestEventsLeadToTheClaim(t *testing.T) {
	p := newProvisioner(nil, nil, nil, Options{Namespace: "liqo-storage"})
	claim := func(namespace, uid, volume string, annotations map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(uid), Annotations: annotations},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
		}
	}
	volume := func(name, provisioner, namespace, ref string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
			Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: ref}},
		}
	}
	backing := map[string]string{storage.AnnotationClaimUID: "u1"}
	for name, c := range map[string]struct {
		got  []reconcile.Request
		want []reconcile.Request
	}{
		"claim":                              {p.ofClaim(t.Context(), claim("shop", "u1", "pvc-u1", nil)), requests("u1")},
		"claim with a retained volume":       {p.ofClaim(t.Context(), claim("shop", "u2", "pvc-u1", nil)), requests("u2", "u1")},
		"claim with another volume":          {p.ofClaim(t.Context(), claim("shop", "u1", "nfs", nil)), requests("u1")},
		"backing claim":                      {p.ofClaim(t.Context(), claim("liqo-storage", "b1", "real", backing)), requests("u1")},
		"no backing claim, wrong namespace":  {p.ofClaim(t.Context(), claim("shop", "b1", "", backing)), requests("b1")},
		"virtual volume":                     {p.ofVolume(t.Context(), volume("pvc-u1", storage.Provisioner, "shop", "data")), requests("u1")},
		"backing volume":                     {p.ofVolume(t.Context(), volume("real", "example.org", "liqo-storage", "u1")), requests("u1")},
		"volume of somebody else, same name": {p.ofVolume(t.Context(), volume("pvc-u1", "example.org", "shop", "data")), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestClaimsThatNameTheUIDOfAnother: claim a/spy names the UID of claim shop/data in an annotation. Nothing of shop/data is deleted, and nothing is created for
// a/spy, wherever the victim is in its life.
func TestClaimsThatNameTheUIDOfAnother(t *testing.T) {
	for _, class := range []string{"liqo", "standard"} {
		for _, node := range []string{"n1", "milan"} {
			spy := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "spy", UID: "u9", Annotations: map[string]string{storage.AnnotationAhead: storage.AheadOf(node, "u1")}},
				Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: "pvc-u9", Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")}},
			}
			alone := newWorld(t, append(cluster()[:3], spy.DeepCopy())...)
			if writes := alone.reconcile(alone.provisioner(alone)); len(writes) > 0 {
				t.Errorf("class %s, node %s: %v for a UID that no record names", class, node, writes)
			}
			w := newWorld(t, append(cluster(), spy.DeepCopy())...)
			p := w.provisioner(w)
			w.reconcile(p) // the victim's backing claim is created and selects its node
			backing := read(w, &corev1.PersistentVolumeClaim{}, "liqo-storage", "u1")
			if backing == nil {
				t.Fatalf("class %s, node %s: the victim got no backing claim", class, node)
			}
			if writes := w.reconcile(p); len(writes) > 0 || storage.ClaimOf(backing).Namespace != "shop" {
				t.Errorf("class %s, node %s: %v, the backing claim belongs to %s", class, node, writes, storage.ClaimOf(backing))
			}
		}
	}
}

// TestVolumesThatAnAdministratorMade: the backing claim gets a volume of a class without a driver. If a volume is on another node only, the scheduler has to select
// again, and the claim says why.
func TestVolumesThatAnAdministratorMade(t *testing.T) {
	disk := func(node string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "disk"},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: "premade", Capacity: size("5Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		}
	}
	for node, want := range map[string][]string{"n1": {"create u1", "patch disk"}, "n2": {"create u1", "patch data"}} {
		objs := append(cluster(), class("premade", "kubernetes.io/no-provisioner", nil), disk(node),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{"liqo.io/real-storage-class": "premade"}}})
		objs[2].SetLabels(map[string]string{"host": "n1"})
		w := newWorld(t, objs...)
		if diff := cmp.Diff(want, w.reconcile(w.provisioner(w))); diff != "" {
			t.Errorf("a volume on %s (-want +got):\n%s", node, diff)
		}
		ref := read(w, &corev1.PersistentVolume{}, "", "disk").Spec.ClaimRef
		if kept := node == "n1"; kept != (ref != nil && ref.Namespace == "liqo-storage" && ref.Name == "u1") || kept != (len(w.events.Events) == 0) {
			t.Errorf("a volume on %s: claimRef %+v, %d Events", node, ref, len(w.events.Events))
		}
		if len(w.events.Events) > 0 {
			if said := <-w.events.Events; !strings.Contains(said, "ProvisioningFailed") || !strings.Contains(said, "PersistentVolume disk fits on other nodes") {
				t.Error(said)
			}
		}
	}
}

// TestADriverThatDoesNotExistIsReported: Kubernetes emits no Warning if no driver has the name in the class. It repeats that it waits. This is reported after two
// minutes, unless a driver creates the volume.
func TestADriverThatDoesNotExistIsReported(t *testing.T) {
	const waits = "Waiting for a volume to be created by the external provisioner"
	event := func(reason, kind string, seconds int64) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-storage", Name: strings.ToLower(reason)}, Type: kind, Reason: reason, Message: waits + " (" + reason + ").",
			FirstTimestamp: metav1.Unix(1000, 0), LastTimestamp: metav1.Unix(1000+seconds, 0),
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "liqo-storage", Name: "u1"},
		}
	}
	normal, warning := corev1.EventTypeNormal, corev1.EventTypeWarning
	for name, row := range map[string]struct {
		events []*corev1.Event
		want   string
	}{
		"for long":                  {[]*corev1.Event{event("ExternalProvisioning", normal, 120)}, "(ExternalProvisioning): repair"},
		"not for long":              {[]*corev1.Event{event("ExternalProvisioning", normal, 119)}, ""},
		"a driver that works on it": {[]*corev1.Event{event("ExternalProvisioning", normal, 120), event("Provisioning", normal, 0)}, ""},
		"a driver that warned":      {[]*corev1.Event{event("ExternalProvisioning", normal, 120), event("ProvisioningFailed", warning, 5)}, "(ProvisioningFailed): repair"},
	} {
		w := newWorld(t, cluster()...)
		for _, e := range row.events {
			if err := w.Create(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		w.reconcile(w.provisioner(w))
		said := ""
		if len(w.events.Events) > 0 {
			said = <-w.events.Events
		}
		if (said != "") != (row.want != "") || !strings.Contains(said, row.want) {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestADeletedVolumeHoldsItsNamespaceWithoutVirtualNode: if a VirtualNode loses its finalizers, the NamespaceMap of its provider still requests the remote namespaces,
// and only the volumes hold it. So a retained volume in deletion stays as long as there is a NamespaceMap. One whose data was given up does not, unless it was recovered.
func TestADeletedVolumeHoldsItsNamespaceWithoutVirtualNode(t *testing.T) {
	own := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	replicated := own.DeepCopy()
	replicated.Labels = map[string]string{api.LabelReplicated: api.True}
	other := own.DeepCopy()
	other.Name = "turin"
	for name, c := range map[string]struct {
		objects []client.Object
		policy  corev1.PersistentVolumeReclaimPolicy
		// recovered is the claim in the provider for which the volume was created again.
		recovered string
		want      []string
	}{
		"the NamespaceMap of the provider":     {[]client.Object{own}, corev1.PersistentVolumeReclaimRetain, "", nil},
		"its data was given up":                {[]client.Object{own}, corev1.PersistentVolumeReclaimDelete, "", []string{"patch pvc-u1"}},
		"its data was given up, not of others": {[]client.Object{own}, corev1.PersistentVolumeReclaimDelete, "shop-rome/data", nil},
		"none":                                 {nil, corev1.PersistentVolumeReclaimRetain, "", []string{"patch pvc-u1"}},
		"one of the provider as consumer":      {[]client.Object{replicated}, corev1.PersistentVolumeReclaimRetain, "", []string{"patch pvc-u1"}},
		"one of another provider":              {[]client.Object{other}, corev1.PersistentVolumeReclaimRetain, "", []string{"patch pvc-u1"}},
	} {
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pvc-u1", Finalizers: []string{storage.Finalizer}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
				Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner},
				Labels:      map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan", storage.LabelTenant: "liqo-tenant-milan"},
			},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeReclaimPolicy: c.policy, NodeAffinity: storage.NodesOf("milan"),
				ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u1"},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
		}
		if c.recovered != "" {
			volume.Annotations["storage.liqo.io/recovered-from"] = c.recovered
		}
		w := newWorld(t, append(c.objects, volume)...)
		p := w.provisioner(w)
		if diff := cmp.Diff(requests("u1"), p.ofProvider(t.Context(), own)); diff != "" {
			t.Errorf("%s, its end (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, w.reconcile(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
