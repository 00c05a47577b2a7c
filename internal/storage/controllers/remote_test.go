package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/storage"
)

// fixedView is a View with this content and no index.
type fixedView []client.Object

func (fixedView) Synced() bool { return true }
func (v fixedView) Get(_, name string) client.Object {
	if i := slices.IndexFunc(v, func(obj client.Object) bool { return obj.GetName() == name }); i >= 0 {
		return v[i]
	}
	return nil
}
func (v fixedView) List() []client.Object     { return v }
func (fixedView) With(string) []client.Object { return nil }
func (fixedView) Wrote(client.Object)         {}

// storing is a virtual kubelet's part in storage.
type storing struct {
	*RemoteClaims
	t       *testing.T
	offered []authv1beta1.StorageType
	// enqueued are the claims about which a decision was asked for.
	enqueued []types.NamespacedName
}

func newStoring(t *testing.T) *storing {
	t.Helper()
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	s := &storing{t: t, offered: []authv1beta1.StorageType{{StorageClassName: "disk", Default: true}}}
	s.RemoteClaims = NewRemoteClaims(RemoteOptions{
		Origin: "rome", Cluster: "milan", Tenant: "liqo-tenant-milan", Virtual: fixedView{},
		Classes: fixedView{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: storage.Provisioner, VolumeBindingMode: &wait}},
		HasNode: func(name string) bool { return slices.Contains([]string{"milan-a", "milan-b"}, name) },
		Offered: func() []authv1beta1.StorageType { return s.offered }, Enqueue: func(key types.NamespacedName) { s.enqueued = append(s.enqueued, key) },
		Refusals: NewRefusals(RefusalOptions{}), Mapped: func(string) bool { return true }, Backing: func(string) []client.Object { return nil },
	})
	return s
}

// classClaim returns a claim of class liqo for which a node was selected.
func classClaim(node string) *corev1.PersistentVolumeClaim {
	class := "liqo"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1", Annotations: map[string]string{storage.AnnotationSelectedNode: node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func remoteFacts(claim, backing *corev1.PersistentVolumeClaim, complete bool) *RemoteFacts {
	return &RemoteFacts{Key: types.NamespacedName{Namespace: "shop", Name: "data"}, Claim: claim, Backing: backing, Namespace: "shop-rome", Complete: complete}
}

// waits fails the test unless nothing is to be done, and returns the step.
func (s *storing) waits(f *RemoteFacts) storage.Step {
	s.t.Helper()
	step := s.Next(f)
	if step.Action != storage.Nothing {
		s.t.Fatalf("%s: %s, want to do nothing", step.Action, step.Why)
	}
	return step
}

// TestVolumesOfOthers: claims for other nodes, claims of somebody else in the provider, and a provider that offers nothing.
func TestVolumesOfOthers(t *testing.T) {
	s := newStoring(t)
	for _, node := range []string{"", "n1", "turin"} {
		if step := s.waits(remoteFacts(classClaim(node), nil, true)); step.Refused != "" {
			t.Errorf("node %q: %+v", node, step)
		}
	}
	stranger := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	if step := s.waits(remoteFacts(classClaim("milan-a"), stranger, true)); !strings.Contains(step.Refused, "another name") {
		t.Errorf("%+v", step)
	}
	s.offered = nil
	if step := s.waits(remoteFacts(classClaim("milan-a"), nil, false)); !strings.Contains(step.Refused, "offers no storage class") {
		t.Errorf("%+v", step)
	}
}

// TestClaimsOfOtherClassesInAProvider: a claim that is bound in this cluster is refused once a pod on the virtual node mounts it, and not before.
func TestClaimsOfOtherClassesInAProvider(t *testing.T) {
	s := newStoring(t)
	claim, standard := classClaim(""), "standard"
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &standard, "disk-7"
	facts := remoteFacts(claim, nil, true)
	if step := s.waits(facts); step.Refused != "" {
		t.Errorf("no pod mounts it: %+v", step)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "config"},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}}}
	key := client.ObjectKeyFromObject(pod)
	s.Observe(key, pod)
	s.Observe(key, pod)
	s.Observe(types.NamespacedName{Namespace: "shop", Name: "other"}, nil)
	if len(s.enqueued) != 1 || s.enqueued[0] != facts.Key {
		t.Errorf("enqueued %v", s.enqueued)
	}
	if step := s.waits(facts); !strings.Contains(step.Refused, "StorageClass standard") || !strings.Contains(step.Refused, "StorageClass liqo") || !step.Confirm {
		t.Errorf("%+v", step)
	}
	// What the engine reads then also has claims that Liqo did not create.
	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data"}}
	if step := s.waits(remoteFacts(claim, theirs, true)); step.Refused != "" {
		t.Errorf("the provider has a claim of that name: %+v", step)
	}
	s.Observe(key, nil)
	if len(s.enqueued) != 2 || s.Next(facts).Refused != "" {
		t.Errorf("a pod that is gone is still known: enqueued %v", s.enqueued)
	}
}

// namedVolumes is a View of virtual volumes, by name.
type namedVolumes struct {
	fixedView
	volumes map[string]*corev1.PersistentVolume
}

func (v namedVolumes) Get(_, name string) client.Object {
	if volume := v.volumes[name]; volume != nil {
		return volume
	}
	return nil
}

// TestVolumesOfOtherClaimsAreLeftAlone: a user names the UID of another claim in a claim, or a provider names it in a backing claim. The volume of the other
// claim, whose claim is deleted, is neither deleted nor released.
func TestVolumesOfOtherClaimsAreLeftAlone(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1", Finalizers: []string{storage.Finalizer}, Labels: map[string]string{
			storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan", storage.LabelTenant: "liqo-tenant-milan",
		}},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:                      &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u1"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			NodeAffinity:                  storage.NodesOf("milan"),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	ahead := classClaim("milan-a")
	ahead.Name, ahead.UID = "spy", "u9"
	ahead.Annotations[storage.AnnotationAhead] = storage.AheadOf("milan-a", "u1")
	forged := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "spy", Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"},
		Annotations: map[string]string{storage.AnnotationClaimUID: "u1"},
	}}
	s := newStoring(t)
	s.opts.Virtual = namedVolumes{volumes: map[string]*corev1.PersistentVolume{"pvc-u1": volume}}
	for what, f := range map[string]*RemoteFacts{"a user": remoteFacts(ahead, nil, true), "a provider": remoteFacts(nil, forged, true)} {
		f.Key.Name = "spy"
		for range 2 {
			if step := s.Next(f); step.Action == storage.DeleteVolume || step.Action == storage.PatchVolume || step.Action == storage.DeleteBacking {
				t.Errorf("%s: %s %s: %s", what, step.Action, step.Object.GetName(), step.Why)
			}
			volume.DeletionTimestamp = &metav1.Time{}
		}
		volume.DeletionTimestamp = nil
	}
}

// TestReusedVolumesNameTheirClaim: a claim of another name is bound to a volume in the provider. Its user gets the name that the claim must have, and the claim with
// the data stays.
func TestReusedVolumesNameTheirClaim(t *testing.T) {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u1", Finalizers: []string{storage.Finalizer},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, "storage.liqo.io/data-of": "shop/data"},
			Labels:      map[string]string{storage.LabelVirtual: api.True, api.LabelRemoteClusterID: "milan", storage.LabelTenant: "liqo-tenant-milan"},
		},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "other", UID: "u2"}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			NodeAffinity: storage.NodesOf("milan"),
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	other := classClaim("milan-a")
	other.Name, other.UID, other.Spec.VolumeName = "other", "u2", "pvc-u1"
	data := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "data", Labels: map[string]string{api.LabelOrigin: "rome", api.LabelDestination: "milan"},
		Annotations: map[string]string{storage.AnnotationClaimUID: "u1"},
	}}
	data.Spec.VolumeName, data.Status.Phase = "disk-7", corev1.ClaimBound
	s := newStoring(t)
	s.opts.Virtual = namedVolumes{volumes: map[string]*corev1.PersistentVolume{"pvc-u1": volume}}
	f := remoteFacts(other, nil, true)
	f.Key.Name = "other"
	if step := s.waits(f); !strings.Contains(step.Refused, "must be data in namespace shop") {
		t.Errorf("%+v", step)
	}
	s.waits(remoteFacts(nil, data, true))
	volume.DeletionTimestamp = &metav1.Time{}
	s.waits(remoteFacts(nil, data, true))
	// Without a claim, the user's deletion counts.
	volume.Spec.ClaimRef, volume.Status.Phase = nil, corev1.VolumeAvailable
	if step := s.Next(remoteFacts(nil, data, true)); step.Action != storage.DeleteBacking {
		t.Errorf("%s: %s, want to delete the backing claim", step.Action, step.Why)
	}
}

// listedVolumes is a View whose index has these volumes under every name.
type listedVolumes struct {
	fixedView
}

func (v listedVolumes) With(string) []client.Object { return v.fixedView }

// TestClaimsOfMovesAreVouchedFor: the virtual kubelet of the target says whether the claim in its provider is the one of the move, and says nothing before it knows
// that. It still tells the user about the claim of somebody else.
func TestClaimsOfMovesAreVouchedFor(t *testing.T) {
	s := newStoring(t)
	s.opts.Virtual = listedVolumes{fixedView{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: "pvc-u0", Labels: map[string]string{storage.LabelVirtual: api.True},
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"provider":"milan"}`},
	}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u0"},
	}}}}
	claim := classClaim("milan-a")
	claim.Annotations[storage.AnnotationMove] = "pvc-u0"
	f := remoteFacts(claim, nil, true)
	backing, ok := s.Next(f).Object.(*corev1.PersistentVolumeClaim)
	if !ok {
		t.Fatalf("%+v", s.Next(f))
	}
	backing.UID = "b1"
	stranger := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data", UID: "b2"}}
	for _, there := range []*corev1.PersistentVolumeClaim{backing, stranger} {
		f := remoteFacts(claim, there, false)
		s.waits(f)
		f.Complete = true
		step := s.Next(f)
		said, ok := step.Object.(*corev1.PersistentVolumeClaim)
		if step.Action != storage.PatchClaimStatus || !step.Confirm || !ok {
			t.Fatalf("%s: %+v", there.UID, step)
		}
		uid, problem := storage.Vouched(said, "milan", "u1")
		if ours := there == backing; ours != (uid == "b1") || ours != (problem == "") {
			t.Errorf("%s: %q, %q", there.UID, uid, problem)
		}
		f.Claim = said
		if step := s.waits(f); there == stranger && !strings.Contains(step.Refused, "it may have data that is needed, so it stays as it is") {
			t.Errorf("%+v", step)
		}
	}
}

// TestTheClaimOfAMoveIsTriedInTheProvider: before the virtual kubelet reports that a claim can be created for a move, the provider checks it without a write.
// Errors that say nothing about the claim are returned.
func TestTheClaimOfAMoveIsTriedInTheProvider(t *testing.T) {
	what := corev1.Resource("persistentvolumeclaims")
	for name, row := range map[string]struct {
		answer error
		denied string
		fails  bool
	}{
		"permitted":        {},
		"exists":           {answer: apierrors.NewAlreadyExists(what, "data")},
		"a quota":          {answer: apierrors.NewForbidden(what, "data", errors.New("exceeded quota: full")), denied: "exceeded quota: full"},
		"a policy":         {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data", nil), denied: "invalid"},
		"no dry runs":      {answer: apierrors.NewBadRequest("webhook x does not support dry run")},
		"a webhook":        {answer: apierrors.NewBadRequest("admission webhook x denied the request: no"), denied: "denied the request"},
		"a lost webhook":   {answer: apierrors.NewInternalError(errors.New("failed calling webhook x: connection refused")), denied: "failed calling webhook x"},
		"not the claim":    {answer: apierrors.NewTooManyRequests("busy", 1), fails: true},
		"a lost provider":  {answer: errors.New("connection refused"), fails: true},
		"a long complaint": {answer: apierrors.NewForbidden(what, "data", errors.New(strings.Repeat("no ", 10_000))), denied: "no no"},
	} {
		s := newStoring(t)
		s.opts.Virtual = listedVolumes{fixedView{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-u0", Labels: map[string]string{storage.LabelVirtual: api.True},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": storage.Provisioner, storage.AnnotationMove: `{"provider":"milan"}`},
		}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u1"}}}}}
		claim := classClaim("")
		claim.Spec.VolumeName = "pvc-u0"
		f := remoteFacts(claim, nil, true)
		if step := s.Next(f); step.Action != storage.PatchClaimStatus || !step.Confirm {
			t.Fatalf("%s: %+v", name, step)
		}
		asked := 0
		there := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Errorf("%s: the provider may take any time", name)
			}
			if asked++; obj.GetName() != "data" || obj.GetNamespace() != "shop-rome" || !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				t.Errorf("%s: %+v with %v", name, obj, opts)
			}
			return row.answer
		}}).Build()
		err := s.Refresh(t.Context(), fake.NewClientBuilder().Build(), there, f)
		if asked != 1 || (err != nil) != row.fails {
			t.Errorf("%s: asked %d times: %v", name, asked, err)
		}
		if row.fails {
			continue
		}
		said, ok := s.Next(f).Object.(*corev1.PersistentVolumeClaim)
		if !ok || storage.Free(said, "milan") != (row.denied == "") {
			t.Fatalf("%s: %+v", name, said)
		}
		if got := storage.Denied(said, "milan"); !strings.Contains(got, row.denied) || len(got) > 600 {
			t.Errorf("%s: %q", name, got)
		}
		s.Next(remoteFacts(nil, nil, true))
		if said, ok := s.Next(f).Object.(*corev1.PersistentVolumeClaim); !ok || !storage.Free(said, "milan") {
			t.Errorf("%s: it is remembered although the claim was gone: %+v", name, said)
		}
	}
}

// TestTheOwnerOfAClaimIsRead: a claim of a pod looks ephemeral. Only the pod shows whether it mounts the claim by name.
func TestTheOwnerOfAClaimIsRead(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		volumes []corev1.Volume
		want    storage.Action
	}{
		"ephemeral": {[]corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}, storage.CreateVolume},
		"by name": {[]corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "job-scratch"},
		}}}, storage.CreateBacking},
	} {
		s := newStoring(t)
		claim := classClaim("milan-a")
		claim.Name = "job-scratch"
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "job", UID: "p1", Controller: &yes, BlockOwnerDeletion: &yes}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "job", UID: "p1"}, Spec: corev1.PodSpec{Volumes: test.volumes}}
		f := remoteFacts(claim, nil, true)
		f.Key.Name = claim.Name
		if step := s.Next(f); !step.Confirm {
			t.Fatalf("%s: the owner is not read before %s", name, step.Action)
		}
		if err := s.Refresh(t.Context(), fake.NewClientBuilder().WithObjects(pod).Build(), nil, f); err != nil {
			t.Fatal(err)
		}
		if step := s.Next(f); step.Action != test.want {
			t.Errorf("%s: %s, want %s", name, step.Action, test.want)
		}
	}
}

// countedView is a fixedView of volumes of claim data in namespace shop. It counts the reads of recovered volumes.
type countedView struct {
	fixedView
	reads int
}

func (v *countedView) With(value string) []client.Object {
	switch value {
	case storage.IndexRecovered:
		v.reads++
		return v.fixedView
	case "shop/data":
		return v.fixedView
	}
	return nil
}

// TestRecoveredVolumesAreReadOncePerDecision: a recovered volume in deletion depends on all claims of its remote namespace. The recovered volumes are read once, and not
// again for each of these claims.
func TestRecoveredVolumesAreReadOncePerDecision(t *testing.T) {
	backingOf := func(name, volume string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		s, claim := newStoring(t), classClaim("milan-a")
		claim.Name, claim.UID = name, types.UID(name)
		f := remoteFacts(claim, nil, true)
		f.Key.Name = name
		backing, is := s.Next(f).Object.(*corev1.PersistentVolumeClaim)
		if !is {
			t.Fatalf("no backing claim of %s", name)
		}
		backing.Spec.VolumeName, backing.Status.Phase = volume, phase
		return backing
	}
	s := newStoring(t)
	volume, is := s.Next(remoteFacts(nil, backingOf("data", "disk", corev1.ClaimBound), true)).Object.(*corev1.PersistentVolume)
	if !is {
		t.Fatal("the data gets no volume")
	}
	volume.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	volume.Spec.PersistentVolumeReclaimPolicy, volume.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
	for name, row := range map[string]struct {
		volume string
		phase  corev1.PersistentVolumeClaimPhase
		held   bool
	}{
		"not bound":         {"", corev1.ClaimPending, false},
		"lost":              {"disk", corev1.ClaimLost, false},
		"waits for its own": {"disk", corev1.ClaimBound, true},
	} {
		var others []client.Object
		for i := range 50 {
			others = append(others, backingOf(fmt.Sprintf("other-%d", i), row.volume, row.phase))
		}
		view := &countedView{fixedView: fixedView{volume}}
		s.opts.Virtual, s.opts.Backing = view, func(string) []client.Object { return others }
		step := s.Next(remoteFacts(nil, nil, true))
		if held := step.Retry; held != row.held || !held && step.Action != storage.PatchVolume {
			t.Errorf("%s: %+v", name, step)
		}
		if view.reads != 1 {
			t.Errorf("%s: the recovered volumes are read %d times", name, view.reads)
		}
	}
}
