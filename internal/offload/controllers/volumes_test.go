package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// stored is a cluster whose claim shop/data has its data in milan.
type stored struct {
	client.Client
	t       *testing.T
	opts    Options
	events  *events.FakeRecorder
	volumes []offload.Volume
}

func newStored(t *testing.T, objs ...client.Object) *stored {
	s := &stored{t: t, events: events.NewFakeRecorder(10)}
	s.volumes = []offload.Volume{{Name: "pvc-1", Namespace: "shop", Claim: "data", Cluster: "milan", Size: "1Gi"}}
	s.Client = fake.NewClientBuilder().WithScheme(kube.NewScheme()).
		WithStatusSubresource(&offloadingv1beta1.NamespaceOffloading{}, &offloadingv1beta1.VirtualNode{}, &offloadingv1beta1.NamespaceMap{}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &offloadingv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"},
			Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome", "ending": "ending-rome", "gone": "gone-rome"}},
			Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: map[string]offloadingv1beta1.RemoteNamespaceStatus{
				"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
			}},
		}).WithObjects(objs...).Build()
	s.opts = Options{
		ClusterID: "rome", LiqoNamespace: "liqo", Now: time.Now,
		Volumes: func(context.Context, client.Reader) ([]offload.Volume, error) {
			return append([]offload.Volume{}, s.volumes...), nil
		},
	}
	return s
}

func (s *stored) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// event returns the text of the next event, empty if there is none.
func (s *stored) event() string {
	select {
	case text := <-s.events.Events:
		return text
	default:
		return ""
	}
}

func storingNode() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "n1", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"},
	}
}

// TestNamespaceOffloadingIsHeldByData: the remote namespace of a deleted NamespaceOffloading stays, with a condition and one event, until the data is
// gone.
func TestNamespaceOffloadingIsHeldByData(t *testing.T) {
	deleted := metav1.Now()
	s := newStored(t, storingNode(),
		&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName, DeletionTimestamp: &deleted, Finalizers: []string{FinalizerNamespaceOffloading},
		}})
	maps := &mappings{Client: s, Options: s.opts}
	offloadings := &namespaceOffloadings{Client: s, Options: s.opts, live: s, events: s.events}
	wanted := func() string {
		s.t.Helper()
		s.must(maps.reconcile(t.Context(), "milan"))
		m := &offloadingv1beta1.NamespaceMap{}
		s.must(s.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, m))
		return m.Spec.DesiredMapping["shop"]
	}
	finalize := func() (*offloadingv1beta1.NamespaceOffloading, error) {
		s.t.Helper()
		o := &offloadingv1beta1.NamespaceOffloading{}
		s.must(s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}, o))
		before := o.DeepCopy()
		err := offloadings.finalize(t.Context(), o)
		s.must(kube.PatchStatus(t.Context(), s, o, before))
		return o, err
	}
	if got := wanted(); got != "shop-rome" {
		t.Errorf("milan is asked for %q", got)
	}
	o, err := finalize()
	condition := o.Status.RemoteNamespacesConditions["milan"][0]
	if !kube.IsWait(err) || condition.Reason != offloadingv1beta1.ReasonVolumesKept || !strings.Contains(condition.Message, "shop/data (1Gi, cluster milan)") {
		t.Errorf("finalizing: %v, %+v", err, condition)
	}
	if text := s.event(); !strings.Contains(text, "shop/data") || !strings.Contains(text, api.AnnotationDeleteVolumes) {
		t.Errorf("event %q", text)
	}
	if _, err := finalize(); !kube.IsWait(err) {
		t.Errorf("finalizing again: %v", err)
	}
	if text := s.event(); text != "" {
		t.Errorf("a second event %q", text)
	}
	s.volumes = nil // the claim is deleted
	if got := wanted(); got != "" {
		t.Errorf("milan is asked for %q without data", got)
	}
}

// TestAbandonedDataIsThatOfOneChange: the annotation that abandons data is removed once the clusters that a change has left out have released the remote namespace, so
// that later changes keep their data. It stays until then, and as long as no cluster is left out.
func TestAbandonedDataIsThatOfOneChange(t *testing.T) {
	o := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: offloadingv1beta1.NamespaceOffloadingName}}
	s := newStored(t, storingNode(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}}, o)
	r := &namespaceOffloadings{Client: s, Options: s.opts, live: s, events: s.events}
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	read := func(o client.Object) { s.must(s.Get(t.Context(), client.ObjectKeyFromObject(o), o)) }
	pass := func(what string, want bool) {
		t.Helper()
		for range 2 {
			read(o)
			before := o.DeepCopy()
			_, _, err := r.report(t.Context(), o, "")
			s.must(err)
			s.must(kube.PatchStatus(t.Context(), s, o, before))
		}
		read(o)
		if o.Annotations[api.AnnotationDeleteVolumes] == api.True != want {
			t.Errorf("%s: annotations %v, conditions %+v", what, o.Annotations, o.Status.RemoteNamespacesConditions)
		}
	}
	abandon := func() {
		read(o)
		o.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True}
		s.must(s.Update(t.Context(), o))
	}
	pass("offloaded", false)
	abandon()
	pass("abandoned before the deletion that liqoctl requests next", true)
	o.Annotations = nil
	o.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"nowhere"}},
	}}}}
	s.must(s.Update(t.Context(), o))
	pass("left out", false)
	abandon()
	pass("milan is still asked for it", true)
	read(m)
	m.Spec.DesiredMapping = nil
	s.must(s.Update(t.Context(), m))
	pass("milan still has it", true)
	m.Status.CurrentMapping = nil
	s.must(s.Status().Update(t.Context(), m))
	pass("milan has released it", false)
}

// TestVirtualNodeIsHeldByData: a deleted VirtualNode stays and keeps working, with a condition and one event, until the data is deleted or abandoned.
func TestVirtualNodeIsHeldByData(t *testing.T) {
	s := newStored(t, storingNode(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}})
	r := &virtualNodes{Client: s, Options: s.opts, live: s, events: s.events}
	node := storingNode()
	for range 2 {
		if err := r.finalize(t.Context(), node); !kube.IsWait(err) || !strings.Contains(err.Error(), "shop/data (1Gi, cluster milan)") {
			t.Errorf("finalizing: %v", err)
		}
	}
	if len(node.Status.Conditions) != 1 || node.Status.Conditions[0].Reason != offloadingv1beta1.ReasonVolumesKept {
		t.Errorf("conditions %+v", node.Status.Conditions)
	}
	if first, second := s.event(), s.event(); !strings.Contains(first, "kubectl annotate virtualnode milan") || second != "" {
		t.Errorf("events %q and %q", first, second)
	}
	node.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True}
	if err := r.keepVolumes(t.Context(), node); err == nil {
		t.Error("given up before the VirtualNode is deleted")
	}
	node.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if err := r.keepVolumes(t.Context(), node); err != nil {
		t.Errorf("given up: %v", err)
	}
	node.Annotations, s.volumes = nil, nil
	if err := r.keepVolumes(t.Context(), node); err != nil {
		t.Errorf("no data: %v", err)
	}
	r.Volumes = nil
	if err := r.keepVolumes(t.Context(), node); err != nil {
		t.Errorf("no storage: %v", err)
	}
}

// TestVolumesOfEndingNamespaces: claims of a namespace that is being deleted, or is gone, are deleted with it. Without a remote namespace there is no
// data.
func TestVolumesOfEndingNamespaces(t *testing.T) {
	deleted := metav1.Now()
	s := newStored(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending", DeletionTimestamp: &deleted, Finalizers: []string{"kubernetes"}}})
	s.volumes = nil
	for _, namespace := range []string{"given-up", "shop", "ending", "gone"} {
		s.volumes = append(s.volumes, offload.Volume{Namespace: namespace, Cluster: "milan"})
	}
	volumes, err := s.opts.volumes(t.Context(), s)
	s.must(err)
	if len(volumes) != 3 || volumes[0].Namespace != "shop" || volumes[0].Ending || !volumes[1].Ending || !volumes[2].Ending {
		t.Errorf("%+v", volumes)
	}
}

// TestVolumesWakeWhatTheyHold: a change of a volume requeues the provider that VolumesOf names for it, and the NamespaceOffloading of its data.
func TestVolumesWakeWhatTheyHold(t *testing.T) {
	opts := Options{VolumesOf: func(v *corev1.PersistentVolume) []offload.Volume {
		if v.Name != "moved" {
			return nil
		}
		return []offload.Volume{{Namespace: "shop", Cluster: "milan"}}
	}}
	wakes := opts.volumeRequests(func(_ context.Context, volume *offload.Volume) []reconcile.Request {
		return append(clusterRequest(volume.Cluster), offloadingOf(t.Context(), volume)...)
	})
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "moved"}}
	if got := wakes(t.Context(), volume); len(got) != 2 || got[0].Name != "milan" || got[1].Namespace != "shop" {
		t.Errorf("%v", got)
	}
	volume.Name = "other"
	if got := wakes(t.Context(), volume); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
