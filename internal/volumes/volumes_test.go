package volumes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/provider"
	"liqo.io/liqo/internal/offload/reflection"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/storage"
	storagecontrollers "liqo.io/liqo/internal/storage/controllers"
	"liqo.io/liqo/test/apitest"
)

const tenantOfMilan = "liqo-tenant-milan"

func virtualNode(name, cluster string) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: name}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: cluster}}
}

type waiting struct{ what string }

func (w *waiting) Error() string { return "it waits: " + w.what }

// runProvider returns options with the state of provider milan in the virtual kubelet of node milan-a, with these objects in this cluster.
func runProvider(t *testing.T, objects ...client.Object) Options {
	t.Helper()
	there := provider.New(provider.Options{
		ClusterID: "rome", ForeignClusterID: "milan", TenantNamespace: tenantOfMilan, VirtualNode: "milan-a", NodeName: "milan-a",
	}, func() {})
	c := apitest.Listing{WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build(), Watched: make(chan struct{}, 100)}
	go func() { _ = there.Run(t.Context(), c) }()
	<-there.Loaded()
	return Options{Origin: "rome", Cluster: "milan", Tenant: tenantOfMilan, Node: "milan-a", Workers: 1, There: there}
}

// storing is the storage part of a virtual kubelet, with a fake API server of this cluster.
type storing struct {
	*Volumes
	t       *testing.T
	offered []authv1beta1.StorageType
	// said receives the Warnings about claims and pods.
	said   chan string
	cached atomic.Pointer[corev1.PersistentVolumeClaim]
	// pod is the pod of the virtual node, nil if there is none. events is the Kind of all Events.
	pod    atomic.Pointer[corev1.Pod]
	events reflection.Kind
	// backing are the claims in the remote namespaces.
	backing []client.Object
	// unmapped is a namespace without a remote namespace.
	unmapped string
	local    client.WithWatch
}

// newStoring returns the storing of virtual node milan-a. other is the other virtual node of the provider. The first of both by name decides about
// claims.
func newStoring(t *testing.T, other string) *storing {
	t.Helper()
	opts := runProvider(t, virtualNode("milan-a", "milan"), virtualNode(other, "milan"))
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	s := &storing{t: t, offered: []authv1beta1.StorageType{{StorageClassName: "disk", Default: true}}, said: make(chan string, 10)}
	s.local = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait}).Build()
	opts.Offered = func() []authv1beta1.StorageType { return s.offered }
	opts.Backing = func(namespace string) []client.Object {
		return slices.DeleteFunc(slices.Clone(s.backing), func(obj client.Object) bool { return obj.GetNamespace() != namespace+"-rome" })
	}
	opts.Mapped = func(namespace string) bool { return namespace != s.unmapped }
	opts.Enqueue, opts.All = func(types.NamespacedName) {}, func() {}
	opts.Refusals = storagecontrollers.RefusalOptions{
		Client: s.local, Log: slog.New(slog.DiscardHandler), Claim: func(types.NamespacedName) *corev1.PersistentVolumeClaim { return s.cached.Load() },
		Warn: func(_ context.Context, obj client.Object, message string) bool {
			s.said <- obj.GetName() + ": " + message
			return true
		},
		Record: func(_ context.Context, obj client.Object, _, reason, message string) bool {
			s.said <- obj.GetName() + ": " + reason + ": " + message
			return true
		},
	}
	s.Volumes = New(opts)
	s.WatchDrivers(&s.events, func(namespace, name string) *corev1.Pod {
		if pod := s.pod.Load(); pod != nil && pod.Namespace == namespace && pod.Name == name {
			return pod
		}
		return nil
	})
	go func() { _ = s.Run(t.Context(), apitest.Listing{WithWatch: s.local}) }()
	apitest.Eventually(t, 10*time.Second, "the classes and volumes", func() error {
		if !s.virtual.Synced() || !s.classes.Synced() {
			return &waiting{"for their lists"}
		}
		return nil
	})
	return s
}

// claimOn returns a claim of class liqo for which a node was selected.
func claimOn(node string) *corev1.PersistentVolumeClaim {
	class := "liqo"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Annotations: map[string]string{storage.AnnotationSelectedNode: node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func factsOf(claim, backing *corev1.PersistentVolumeClaim, state offload.MappingState, synced bool) reflection.Facts {
	f := reflection.Facts{
		Key: types.NamespacedName{Namespace: "shop", Name: "data"}, Remote: []client.Object{nil}, RemoteSynced: synced,
		Mapping: offload.Mapping{State: state, Namespace: "shop-rome"},
	}
	if claim != nil {
		f.Local = claim
	}
	if backing != nil {
		f.Remote[0] = backing
	}
	return f
}

// decides fails the test unless that action is decided, and returns the step.
func (s *storing) decides(f reflection.Facts, want offload.Action) offload.Step {
	s.t.Helper()
	step := s.next(f)
	if step.Action != want {
		s.t.Fatalf("%s: %s, want %s", step.Action, step.Why, want)
	}
	return step
}

// TestVolumesInAProvider: the life of a claim whose pod is scheduled on one of the provider's virtual nodes.
func TestVolumesInAProvider(t *testing.T) {
	s := newStoring(t, "milan-b")
	claim := claimOn("milan-b")
	backing, _ := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	if backing == nil || backing.Namespace != "shop-rome" || *backing.Spec.StorageClassName != "disk" {
		t.Fatalf("%+v", backing)
	}
	step := s.decides(factsOf(claim, backing, offload.Mapped, true), offload.CreateLocal)
	volume, _ := step.Object.(*corev1.PersistentVolume)
	if volume == nil || !step.Confirm {
		t.Fatalf("%+v", step)
	}
	volume.ResourceVersion = "100001"
	s.virtual.Wrote(volume.DeepCopy())
	claim.Spec.VolumeName = volume.Name
	s.decides(factsOf(claim, backing, offload.Mapped, true), offload.Nothing)

	// The claim is gone, and Kubernetes has released the volume.
	volume.ResourceVersion, volume.Status.Phase = "100002", corev1.VolumeReleased
	s.virtual.Wrote(volume.DeepCopy())
	if step := s.decides(factsOf(nil, nil, offload.Mapped, false), offload.Nothing); step.After == 0 {
		t.Errorf("unreachable: nothing brings it back: %+v", step)
	}
	s.decides(factsOf(nil, nil, offload.MappingWanted, true), offload.Nothing)
	if step := s.decides(factsOf(nil, backing, offload.Mapped, true), offload.DeleteRemote); !step.Confirm {
		t.Errorf("%+v", step)
	}
	if step := s.decides(factsOf(nil, nil, offload.Mapped, true), offload.DeleteLocal); !step.Confirm {
		t.Errorf("%+v", step)
	}
	// If the namespace has no remote namespace, the step needs no confirming read.
	if step := s.decides(factsOf(nil, nil, offload.Unmapped, false), offload.DeleteLocal); step.Confirm {
		t.Errorf("%+v", step)
	}
	volume.ResourceVersion, volume.DeletionTimestamp = "100003", &metav1.Time{Time: time.Unix(1, 0)}
	s.virtual.Wrote(volume.DeepCopy())
	if step := s.decides(factsOf(nil, nil, offload.Mapped, true), offload.PatchLocal); len(step.Object.GetFinalizers()) != 0 || !step.Locked {
		t.Errorf("%+v", step)
	}
}

// TestForgottenDataIsReportedOnce: the volume of forgotten data is created again, and one Event about it names the claim in the provider, the volume and what to do.
// Later changes of the volume are not reported.
func TestForgottenDataIsReportedOnce(t *testing.T) {
	s := newStoring(t, "milan-b")
	backing, _ := s.decides(factsOf(claimOn("milan-a"), nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	backing.Spec.VolumeName, backing.Status.Phase = "disk-7", corev1.ClaimBound
	step := s.decides(factsOf(nil, backing, offload.Mapped, true), offload.CreateLocal)
	volume, is := step.Object.(*corev1.PersistentVolume)
	if !is || !step.Confirm || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Fatalf("%+v", step)
	}
	for i, phase := range []corev1.PersistentVolumePhase{corev1.VolumePending, corev1.VolumeReleased} {
		volume.ResourceVersion, volume.Status.Phase = strconv.Itoa(100001+i), phase
		s.claims.Wrote(volume.DeepCopy())
		s.decides(factsOf(nil, backing, offload.Mapped, true), offload.Nothing)
	}
	if got := s.says("pvc-u1: " + reasons.VolumeRecovered + ": PersistentVolumeClaim shop-rome/data of cluster milan has data"); len(got) > 1024 {
		t.Errorf("a message of %d bytes, and an Event has 1,024", len(got))
	}
	volume.ResourceVersion, volume.CreationTimestamp = "100003", metav1.Now()
	s.claims.Wrote(volume.DeepCopy())
	if step := s.decides(factsOf(nil, nil, offload.Mapped, true), offload.Nothing); step.After == 0 { // a provider must not cause writes in a loop
		t.Errorf("nothing brings it back: %+v", step)
	}
	volume.ResourceVersion, volume.CreationTimestamp = "100004", metav1.NewTime(time.Now().Add(-time.Hour))
	s.claims.Wrote(volume.DeepCopy())
	s.decides(factsOf(nil, nil, offload.Mapped, true), offload.DeleteLocal) // the data is gone
	s.refusals.Refuse(claimOn("milan-a"), "a fence")
	if err := s.local.Create(t.Context(), claimOn("milan-a")); err != nil {
		t.Fatal(err)
	}
	s.says("data: a fence")
}

// TestVolumesAreReadBeforeTheyAreDeleted: a second decision knows a volume that the watch has not reported.
func TestVolumesAreReadBeforeTheyAreDeleted(t *testing.T) {
	s := newStoring(t, "milan-b")
	claim := claimOn("milan-a")
	backing, _ := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	volume, _ := s.decides(factsOf(claim, backing, offload.Mapped, true), offload.CreateLocal).Object.(*corev1.PersistentVolume)
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	present := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(volume).Build()
	gone := factsOf(nil, backing, offload.Mapped, true)
	s.decides(gone, offload.DeleteRemote)
	if err := s.claims.Refresh(t.Context(), present, s.local, s.facts(gone)); err != nil {
		t.Fatal(err)
	}
	s.decides(gone, offload.Nothing)
}

// TestWhatADriverInTheProviderSays: a Warning about a claim without a volume in the provider is reported with the class, the cluster and the cure.
// Warnings about other claims, and about a claim with a volume, are not reported.
func TestWhatADriverInTheProviderSays(t *testing.T) {
	s := newStoring(t, "milan-b")
	claim := claimOn("milan-a")
	backing, _ := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
	backing.UID = "there"
	s.cached.Store(claim)
	if err := s.local.Create(t.Context(), claim.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	s.events.Observe(reflection.Facts{Remote: []client.Object{&corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reasons.ProvisioningFailed, Message: "no disk is left", InvolvedObject: corev1.ObjectReference{UID: "there"},
	}}, About: claim, Counterpart: backing})
	s.says("data: StorageClass disk of cluster milan, which has the data, creates no volume: no disk is left")
	for kind, want := range map[string]bool{"PersistentVolumeClaim": true, "Pod": false} {
		event := &corev1.Event{Type: corev1.EventTypeWarning, Reason: reasons.ProvisioningFailed, InvolvedObject: corev1.ObjectReference{Kind: kind}}
		if s.events.Urgent(event) != want {
			t.Errorf("an Event about a %s is urgent: %t", kind, !want)
		}
	}
	for name, row := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim, *corev1.Event)
		silent bool
	}{
		"a driver that can't": {func(*corev1.PersistentVolumeClaim, *corev1.Event) {}, false},
		"no Warning":          {func(_ *corev1.PersistentVolumeClaim, e *corev1.Event) { e.Type = corev1.EventTypeNormal }, true},
		"an earlier claim":    {func(_ *corev1.PersistentVolumeClaim, e *corev1.Event) { e.InvolvedObject.UID = "former" }, true},
		"a claim that has it": {func(b *corev1.PersistentVolumeClaim, _ *corev1.Event) { b.Status.Phase = corev1.ClaimBound }, true},
		"a lost claim":        {func(b *corev1.PersistentVolumeClaim, _ *corev1.Event) { b.Status.Phase = corev1.ClaimLost }, true},
		"another Warning":     {func(_ *corev1.PersistentVolumeClaim, e *corev1.Event) { e.Reason = "ClaimLost" }, true},
		"a huge message": {func(_ *corev1.PersistentVolumeClaim, e *corev1.Event) {
			e.Message += strings.Repeat(" it is not", 100000)
		}, false},
		"a claim of somebody else": {func(b *corev1.PersistentVolumeClaim, _ *corev1.Event) { b.Annotations = nil }, true},
	} {
		there := backing.DeepCopy()
		event := &corev1.Event{Type: corev1.EventTypeWarning, Reason: reasons.ProvisioningFailed, Message: "no disk is left", InvolvedObject: corev1.ObjectReference{UID: "there"}}
		row.change(there, event)
		got := s.claims.DriverWarning(claim, there, nil, event)
		if row.silent != (got == "") {
			t.Errorf("%s: %q", name, got)
		}
		if len(got) > 1024 {
			t.Errorf("%s: a message of %d bytes, and an Event has 1,024", name, len(got))
		}
		for _, part := range []string{"StorageClass disk of cluster milan", "no disk is left", "liqo.io/remote-storage-class"} {
			if !row.silent && !strings.Contains(got, part) {
				t.Errorf("%s: %q does not say %q", name, got, part)
			}
		}
	}
}

// says fails the test unless the next Warning begins with text, and returns the Warning.
func (s *storing) says(text string) string {
	s.t.Helper()
	select {
	case got := <-s.said:
		if !strings.HasPrefix(got, text) {
			s.t.Errorf("%q does not begin with %q", got, text)
		}
		return got
	case <-time.After(10 * time.Second):
		s.t.Errorf("nobody says %q", text)
		return ""
	}
}

// TestARefusedWriteIsReportedToAllPods: the virtual kubelet tries a refused write again and again, and the engine reports the same refusal only once.
// The pods of all virtual nodes get it nevertheless, however slow the API server is, and also those that are created later.
func TestARefusedWriteIsReportedToAllPods(t *testing.T) {
	s := newStoring(t, "milan-b")
	claim := claimOn("milan-a")
	user := func(name, node string) {
		if err := s.local.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	retry := func() { s.decides(factsOf(claim, nil, offload.Mapped, true), offload.CreateRemote) }
	s.cached.Store(claim)
	retry()
	s.refusals.Refuse(claim, "no quota")
	retry() // the write is refused again before any pod has received the Warning
	user("beside", "milan-b")
	s.refusals.Observe(types.NamespacedName{Namespace: "shop", Name: "data"})
	s.says("data: no quota")
	s.says("beside: PersistentVolumeClaim data: no quota")
	retry()
	user("later", "milan-a")
	s.refusals.Observe(types.NamespacedName{Namespace: "shop", Name: "data"})
	s.says("later: PersistentVolumeClaim data: no quota")
	// While the provider does not respond, the last refusal stays.
	s.decides(factsOf(claim, nil, offload.Mapped, false), offload.Nothing)
	user("during-a-partition", "milan-a")
	s.refusals.Observe(types.NamespacedName{Namespace: "shop", Name: "data"})
	s.says("during-a-partition: PersistentVolumeClaim data: no quota")
}

// TestADriverThatCreatesNoEphemeralVolume: the claim here is bound to its virtual volume at once, so only the Event of the driver shows why the pod
// waits. The Event concerns this pod if it is newer than the claim, and while the pod waits. The virtual kubelet of the pod's node reports it, even
// if another virtual kubelet decides about claims.
func TestADriverThatCreatesNoEphemeralVolume(t *testing.T) {
	for _, other := range []string{"milan-b", "milan-0"} {
		s := newStoring(t, other)
		yes, began := true, metav1.Unix(1000, 0)
		claim := claimOn("milan-a")
		claim.Name, claim.CreationTimestamp = "web-data", began
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "web-1", Controller: &yes, BlockOwnerDeletion: &yes}}
		if err := s.local.Create(t.Context(), claim.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		observe := func(change func(*corev1.Pod, *corev1.Event)) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
				Spec: corev1.PodSpec{NodeName: "milan-a", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}},
			}
			event := &corev1.Event{Type: corev1.EventTypeWarning, Reason: reasons.ProvisioningFailed, Message: "no disk is left", LastTimestamp: began}
			change(pod, event)
			s.pod.Store(pod)
			if pod.Name != "web" {
				s.pod.Store(nil)
			}
			s.events.Observe(reflection.Facts{Remote: []client.Object{event}, About: claim})
		}
		for name, change := range map[string]func(*corev1.Pod, *corev1.Event){
			"a pod that runs":                  func(p *corev1.Pod, _ *corev1.Event) { p.Status.Phase = corev1.PodRunning },
			"a later pod":                      func(p *corev1.Pod, _ *corev1.Event) { p.UID = "web-2" },
			"an earlier pod's claim":           func(_ *corev1.Pod, e *corev1.Event) { e.LastTimestamp = metav1.Unix(999, 0) },
			"no Warning":                       func(_ *corev1.Pod, e *corev1.Event) { e.Type = corev1.EventTypeNormal },
			"a pod of another virtual kubelet": func(p *corev1.Pod, _ *corev1.Event) { p.Name = "other" },
		} {
			observe(func(p *corev1.Pod, e *corev1.Event) {
				e.Message = name
				change(p, e)
			})
		}
		observe(func(pod *corev1.Pod, _ *corev1.Event) {
			if err := s.local.Create(t.Context(), pod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		})
		for _, want := range []string{"web-data: cluster milan, which has to create the ephemeral volume of pod web", "web: PersistentVolumeClaim web-data: cluster milan"} {
			got := s.says(want)
			for _, part := range []string{"no disk is left", "volumeClaimTemplate"} {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
		}
		if len(s.said) > 0 {
			t.Errorf("%q, which is of no concern", <-s.said)
		}
	}
}

// TestPodsOfEachVirtualNodeGetTheReason: only the virtual kubelet of its node knows that a pod mounts a claim of another class. It warns about the
// pod, even if another virtual kubelet decides about claims. That one warns about the claim. Neither warns about pods on the other's node.
func TestPodsOfEachVirtualNodeGetTheReason(t *testing.T) {
	for other, claims := range map[string]bool{"milan-b": true, "milan-0": false} {
		s := newStoring(t, other)
		claim, standard := claimOn(""), "standard"
		claim.Spec.StorageClassName, claim.Spec.VolumeName = &standard, "disk-7"
		if err := s.local.Create(t.Context(), claim.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		for name, node := range map[string]string{"beside": other, "web": "milan-a"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
				NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}},
			}}
			if err := s.local.Create(t.Context(), pod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if node == "milan-a" {
				s.Observe(client.ObjectKeyFromObject(pod), pod)
			}
		}
		step := s.decides(factsOf(claim, nil, offload.Mapped, true), offload.Nothing)
		if step.Warning == "" || !step.Confirm {
			t.Fatalf("next to %s: %+v", other, step)
		}
		s.refusals.Refuse(claim, step.Warning) // as the engine does
		if claims {
			s.says("data: the claim has StorageClass standard")
		}
		s.says("web: PersistentVolumeClaim data: the claim has StorageClass standard")
		if len(s.said) > 0 {
			t.Errorf("next to %s: %q", other, <-s.said)
		}
		// The virtual kubelet that decides about claims also reports about claims of Liqo.
		if step := s.next(factsOf(claimOn("milan-a"), nil, offload.Mapped, true)); step.Warning != "" || (step.Action == offload.CreateRemote) != claims {
			t.Errorf("next to %s: %+v", other, step)
		}
	}
}

// TestRecoveredVolumesAreLimited: a provider with any number of claims that this cluster does not know gets only so many volumes here, and one for each namespace,
// since one holds the remote namespace with all of its data. The Event of the last one says that there may be more. Once a claim uses a volume, the next one follows.
func TestRecoveredVolumesAreLimited(t *testing.T) {
	s := newStoring(t, "milan-b")
	version := 100000
	wrote := func(volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
		version++
		volume = volume.DeepCopy()
		volume.ResourceVersion, volume.Status.Phase = strconv.Itoa(version), phase
		s.claims.Wrote(volume)
	}
	unknown := func(namespace string, i int) reflection.Facts {
		claim := claimOn("milan-a")
		claim.Namespace, claim.Name, claim.UID = namespace, fmt.Sprintf("data-%d", i), types.UID(fmt.Sprintf("%s-%d", namespace, i))
		f := factsOf(claim, nil, offload.Mapped, true)
		f.Key, f.Mapping.Namespace = client.ObjectKeyFromObject(claim), namespace+"-rome"
		backing, _ := s.decides(f, offload.CreateRemote).Object.(*corev1.PersistentVolumeClaim)
		backing.Spec.VolumeName, backing.Status.Phase = "disk-7", corev1.ClaimBound
		f.Local, f.Remote[0] = nil, backing
		return f
	}
	var volumes []*corev1.PersistentVolume
	recover := func(f reflection.Facts) bool {
		t.Helper()
		step := s.next(f)
		volume, is := step.Object.(*corev1.PersistentVolume)
		if is {
			volumes = append(volumes, volume)
			wrote(volume, corev1.VolumePending)
			s.next(f)
			select {
			case said := <-s.said:
				if last := len(volumes) >= 100 && s.unmapped == ""; last != strings.Contains(said, "may have more") {
					t.Errorf("volume %d: %s", len(volumes), said)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no Event")
			}
		}
		return is
	}
	for i := range 150 {
		if recover(unknown("shop", i)) != (i < 100) {
			t.Fatalf("%d volumes after %d claims", len(volumes), i+1)
		}
	}
	gone, hidden := unknown("bar", 0), unknown("bar", 1)
	if !recover(gone) || recover(hidden) {
		t.Error("the other namespace does not have one volume")
	}
	rest := unknown("shop", 120)
	kept, is := s.decides(rest, offload.PatchRemote).Object.(*corev1.PersistentVolumeClaim)
	if !is || kept.Annotations[storage.AnnotationRetained] != api.True {
		t.Fatalf("it is not retained: %+v", kept)
	}
	rest.Remote[0] = kept
	if step := s.decides(rest, offload.Nothing); step.After == 0 {
		t.Errorf("nothing brings it back: %+v", step)
	}
	for _, volume := range volumes[:2] {
		wrote(volume, corev1.VolumeBound)
	}
	if !recover(rest) {
		t.Error("a claim uses a volume, and no other volume follows")
	}
	// A person deletes the only volume of a namespace with its data. It holds the other data there until that has a volume.
	bar := volumes[100].DeepCopy()
	bar.Spec.PersistentVolumeReclaimPolicy, bar.DeletionTimestamp = corev1.PersistentVolumeReclaimDelete, &metav1.Time{Time: time.Unix(1, 0)}
	wrote(bar, corev1.VolumeReleased)
	gone.Remote, s.backing = []client.Object{nil}, hidden.Remote
	if step := s.decides(gone, offload.Nothing); step.After == 0 {
		t.Errorf("nothing brings it back: %+v", step)
	}
	if kept := Of(bar); len(kept) != 1 || !kept[0].Retain {
		t.Errorf("nothing holds the remote namespace: %+v", kept)
	}
	if !recover(hidden) {
		t.Fatal("the data gets no volume")
	}
	s.decides(gone, offload.PatchLocal)
	// The offloading of a namespace has ended with its data. Its volumes do not count.
	another := unknown("bar", 2)
	s.unmapped = "shop"
	if !recover(another) {
		t.Error("volumes without a remote namespace use up the limit")
	}
}
