package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestBackingClaimIsLikeItsClaim(t *testing.T) {
	backing := created(t, at(here(), claim("n1")))
	want := claim("n1").Spec
	standard := "standard"
	want.StorageClassName = &standard
	if diff := cmp.Diff(want, backing.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if backing.Name != "u1" || backing.Namespace != "liqo-storage" || backing.Annotations[AnnotationSelectedNode] != "n1" ||
		backing.Labels[LabelClaimNamespace] != "shop" || backing.Labels[LabelClaimName] != claimName {
		t.Errorf("%+v", backing.ObjectMeta)
	}
	long := strings.Repeat("a", 62) + "." + strings.Repeat("b", 62)
	backing = created(t, at(here(), claim("n1", func(c *corev1.PersistentVolumeClaim) { c.Name = long })))
	if ClaimOf(backing).Name != long || len(backing.Labels[LabelClaimName]) > maxLabel || BackingUID(backing) != "u1" {
		t.Errorf("%+v", backing.ObjectMeta)
	}
}

func TestBackingClaimInAProvider(t *testing.T) {
	backing := created(t, at(there(), claim("milan")))
	if backing.Name != claimName || backing.Namespace != "shop-rome" || *backing.Spec.StorageClassName != "disk" ||
		backing.Labels[api.LabelOrigin] != "rome" || backing.Labels[api.LabelDestination] != "milan" || backing.Annotations[AnnotationSelectedNode] != "" {
		t.Errorf("%+v", backing)
	}
	backing = created(t, at(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) {
		c.Annotations[api.AnnotationRemoteStorageClass] = "ssd"
		c.Annotations[api.AnnotationRemoteAccessModes] = "ReadWriteMany, ReadOnlyMany"
	})))
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}
	if diff := cmp.Diff(modes, backing.Spec.AccessModes); diff != "" || *backing.Spec.StorageClassName != "ssd" {
		t.Errorf("class %s: %s", *backing.Spec.StorageClassName, diff)
	}
}

func TestVirtualVolumeMirrorsTheBackingVolume(t *testing.T) {
	s := at(here(), claim("n1"))
	s.Backing = created(t, s)
	s.Backing.Status.Phase, s.Backing.Spec.VolumeName = corev1.ClaimBound, "real"
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	mode := corev1.PersistentVolumeBlock
	s.BackingVolume = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "real", Labels: map[string]string{corev1.LabelTopologyZone: "a", "owner": "driver"}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.org", VolumeHandle: "7"}},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, VolumeMode: &mode, MountOptions: []string{"noatime"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, StorageClassName: "standard",
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {},
			}}},
		},
	}
	want := s.BackingVolume.DeepCopy()
	want.ObjectMeta = metav1.ObjectMeta{
		Name: "pvc-u1", Labels: map[string]string{corev1.LabelTopologyZone: "a", LabelVirtual: "true"},
		Annotations: map[string]string{annotationProvisionedBy: Provisioner, annotationDataOf: "shop/" + claimName}, Finalizers: []string{Finalizer},
	}
	want.Spec.PersistentVolumeReclaimPolicy, want.Spec.StorageClassName = corev1.PersistentVolumeReclaimDelete, "liqo"
	want.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: claimName, UID: "u1"}
	physical := corev1.NodeSelectorRequirement{Key: api.LabelType, Operator: corev1.NodeSelectorOpDoesNotExist}
	want.Spec.NodeAffinity.Required.NodeSelectorTerms = []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{zone, physical}}, {MatchExpressions: []corev1.NodeSelectorRequirement{physical}},
	}
	step := Next(s)
	if diff := cmp.Diff(want, step.Object); diff != "" || step.Action != CreateVolume {
		t.Errorf("%s (-want +got):\n%s", step.Action, diff)
	}
}

func TestVirtualVolumeOfAProvider(t *testing.T) {
	s := at(there(), claim("milan"))
	s.Backing = created(t, s)
	volume, ok := Next(s).Object.(*corev1.PersistentVolume)
	if !ok {
		t.Fatalf("%+v", Next(s))
	}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{"milan"}},
	}}}
	if diff := cmp.Diff(terms, volume.Spec.NodeAffinity.Required.NodeSelectorTerms); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if volume.Spec.HostPath == nil || volume.Labels[api.LabelRemoteClusterID] != "milan" || volume.Labels[LabelTenant] != "liqo-tenant-milan" || *volume.Spec.VolumeMode != corev1.PersistentVolumeBlock {
		t.Errorf("%+v", volume)
	}
}

// TestEphemeralVolumesInAProvider: the copy of the pod has a claim of the same name, which is not touched.
func TestEphemeralVolumesInAProvider(t *testing.T) {
	yes := true
	owned := claim("milan", func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", Controller: &yes, BlockOwnerDeletion: &yes}}
		c.Name = "web-scratch"
	})
	s := at(there(), owned)
	step := Next(s)
	if step.Action != CreateVolume {
		t.Fatalf("%+v", step)
	}
	s.Backing = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName}}
	s.Volume, _ = step.Object.(*corev1.PersistentVolume)
	s.Claim.Spec.VolumeName = s.Volume.Name
	if step := Next(s); step.Action != Nothing || step.Refused != "" {
		t.Errorf("bound: %+v", step)
	}
	s.Claim, s.Volume.Status.Phase = nil, corev1.VolumeReleased
	if step := Next(s); step.Action != DeleteVolume {
		t.Errorf("gone: %+v", step)
	}
	if backing := created(t, at(here(), claim("n1", func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = owned.OwnerReferences }))); backing.Name != "u1" {
		t.Errorf("here: %+v", backing)
	}
}

// TestASelectedNodeThatIsGone: backups, exports and nodes that were removed leave claims that name a node which does not exist. The controller manager of this
// cluster removes it, so that the scheduler selects another one, as drivers of Kubernetes do.
func TestASelectedNodeThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		place   Place
		change  func(*corev1.PersistentVolumeClaim)
		removed bool
	}{
		"here":                   {here(), nil, true},
		"in a provider":          {there(), nil, false},
		"the claim is deleted":   {here(), func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, false},
		"a move holds it":        {here(), func(c *corev1.PersistentVolumeClaim) { c.Annotations[AnnotationMove] = "pvc-u0" }, false},
		"it is no class of ours": {here(), func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("standard") }, false},
	} {
		s := at(test.place, claim("n1"))
		if s.Node = nil; test.change != nil {
			test.change(s.Claim)
		}
		step := Next(s)
		if removed := step.Action == PatchClaim; removed != test.removed {
			t.Errorf("%s: %+v", name, step)
		} else if removed && (step.Object.GetAnnotations()[AnnotationSelectedNode] != "" || !step.Confirm) {
			t.Errorf("%s: %+v, confirmed: %v", name, step.Object.GetAnnotations(), step.Confirm)
		}
	}
}

// TestAnExpansionIsGivenUp: a user lowers the request of a claim while an expansion hangs. The backing claim follows, but not below the size that it has.
func TestAnExpansionIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct{ requested, has, claim, want string }{
		"the expansion hangs":                {"5Gi", "1Gi", "2Gi", "2Gi"},
		"given up whole":                     {"5Gi", "1Gi", "1Gi", "1Gi"},
		"the expansion is done":              {"5Gi", "5Gi", "2Gi", ""},
		"less than it has":                   {"5Gi", "3Gi", "2Gi", ""},
		"the driver made more than it asked": {"1Gi", "3Gi", "1Gi", ""},
	} {
		s := at(there(), claim("milan"))
		s.Backing = created(t, s)
		s.Backing.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(test.requested)
		s.Backing.Status.Phase, s.Backing.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(test.has)}
		s.Volume = Next(s).Object.(*corev1.PersistentVolume)
		s.Volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(test.has)
		s.Claim.Spec.VolumeName, s.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = s.Volume.Name, resource.MustParse(test.claim)
		got := ""
		if step := Next(s); step.Action == PatchBacking {
			size := step.Object.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests[corev1.ResourceStorage]
			got = size.String()
		}
		if got != test.want {
			t.Errorf("%s: the backing claim requests %q, want %q", name, got, test.want)
		}
	}
}

// TestTheTrueCapacityIsShown: a driver, or an administrator who made the volume by hand, may give more than the claim requests. The virtual volume and the claim show
// what the backing claim has, also if its first pod binds it later. The backing claim is not enlarged to what it has already.
func TestTheTrueCapacityIsShown(t *testing.T) {
	size := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	for name, requested := range map[string]string{"the claim requests less": "1Gi", "a user requests what it has": "5Gi"} {
		s := at(there(), claim("milan"))
		s.Backing = created(t, s)
		s.Volume = Next(s).Object.(*corev1.PersistentVolume)
		if got := s.Volume.Spec.Capacity[corev1.ResourceStorage]; got.String() != "1Gi" {
			t.Errorf("%s: before the first pod, the volume shows %s", name, got.String())
		}
		s.Backing.Status.Phase, s.Backing.Status.Capacity = corev1.ClaimBound, size("5Gi")
		s.Claim.Spec.VolumeName, s.Claim.Status.Phase, s.Claim.Status.Capacity = s.Volume.Name, corev1.ClaimBound, size("1Gi")
		s.Claim.Spec.Resources.Requests = size(requested)
		step := Next(s)
		volume, ok := step.Object.(*corev1.PersistentVolume)
		if step.Action != PatchVolume || !ok || volume.Name != s.Volume.Name || !less(size("4Gi"), volume.Spec.Capacity[corev1.ResourceStorage]) {
			t.Fatalf("%s: %+v", name, step)
		}
		s.Volume = volume
		step = Next(s)
		shown, ok := step.Object.(*corev1.PersistentVolumeClaim)
		if step.Action != PatchClaimStatus || !ok || !less(size("4Gi"), shown.Status.Capacity[corev1.ResourceStorage]) {
			t.Fatalf("%s: %+v", name, step)
		}
		s.Claim = shown
		if step := Next(s); step.Action != Nothing {
			t.Errorf("%s: %+v", name, step)
		}
	}
	s := at(there(), claim("milan"))
	s.Backing = created(t, s)
	s.Backing.Status.Phase, s.Backing.Status.Capacity = corev1.ClaimBound, size("5Gi")
	if volume := Next(s).Object.(*corev1.PersistentVolume); !less(size("4Gi"), volume.Spec.Capacity[corev1.ResourceStorage]) {
		t.Errorf("a copy was written before the volume was created: %v", volume.Spec.Capacity)
	}
}

// TestABackingClaimHasTheSizeOfTheMovedVolume: the copy of a volume needs the size of that volume, also if the claim requests less.
func TestABackingClaimHasTheSizeOfTheMovedVolume(t *testing.T) {
	for annotation, want := range map[string]string{"": "1Gi", "5Gi": "5Gi", "500Mi": "1Gi", "x": "1Gi"} {
		s := at(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[AnnotationCapacity] = annotation
			c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		}))
		spec := created(t, s).Spec.Resources
		requested, limit := spec.Requests[corev1.ResourceStorage], spec.Limits[corev1.ResourceStorage]
		if requested.String() != want || limit.Cmp(requested) < 0 {
			t.Errorf("%q: the backing claim requests %s with limit %s, want %s", annotation, requested.String(), limit.String(), want)
		}
	}
}

// TestClaimsThatOtherPodsOwn: a program may give a claim to a pod that does not mount it, or that mounts it by name. Such a claim has a backing claim as all others.
func TestClaimsThatOtherPodsOwn(t *testing.T) {
	yes := true
	for name, change := range map[string]func(s *State){
		"its name is not that of a volume of its owner": func(s *State) { s.Claim.OwnerReferences[0].Name = "driver" },
		"its owner has no ephemeral volume":             func(s *State) { s.ByName = true },
	} {
		s := at(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) {
			c.Name = "job-exec-1"
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "job", Controller: &yes, BlockOwnerDeletion: &yes}}
		}))
		change(&s)
		s.Backing = created(t, s)
		s.ByName = false // a virtual kubelet that was restarted has not read the owner
		step := Next(s)
		if step.Action != CreateVolume {
			t.Fatalf("%s: %+v", name, step)
		}
		s.Volume, _ = step.Object.(*corev1.PersistentVolume)
		if !InProvider(s.Volume) {
			t.Errorf("%s: the volume does not count as data in the provider: %+v", name, s.Volume)
		}
		s.Claim.Spec.VolumeName, s.Claim.Status.Phase = s.Volume.Name, corev1.ClaimBound
		if step := Next(s); step.Action != Nothing || step.Refused != "" {
			t.Errorf("%s, bound: %+v", name, step)
		}
		s.Backing = nil
		if step := Next(s); step.Refused == "" {
			t.Errorf("%s, without its backing claim: %+v", name, step)
		}
	}
}

// TestVolumesOfAFormerProvider: without a process of the provider, the controller manager removes the volume of a claim that is gone, and only that.
func TestVolumesOfAFormerProvider(t *testing.T) {
	s := at(there(), claim("milan"))
	s.Backing = created(t, s)
	s.Volume, _ = Next(s).Object.(*corev1.PersistentVolume)
	s.Backing, s.Place = nil, here()
	s.Claim.Spec.VolumeName = s.Volume.Name
	decide := func(abandoned bool) Action {
		s.Abandoned = abandoned
		return Next(s).Action
	}
	if got := decide(true); got != Nothing {
		t.Errorf("its claim is there: %s", got)
	}
	s.Claim, s.Volume.Status.Phase = nil, corev1.VolumeReleased
	if got := decide(false); got != Nothing {
		t.Errorf("the provider is used: %s", got)
	}
	if got := decide(true); got != DeleteVolume {
		t.Errorf("the provider is not used any more: %s", got)
	}
	s.Volume.DeletionTimestamp = &metav1.Time{}
	if got := decide(true); got != PatchVolume {
		t.Errorf("it is being deleted: %s", got)
	}
}

// TestForgedVolumesDeleteNoData: a virtual kubelet can create a volume with the name of one that is gone, and let it be released.
func TestForgedVolumesDeleteNoData(t *testing.T) {
	forged := func(cluster, tenant string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pvc-u1", Finalizers: []string{Finalizer}, Annotations: map[string]string{annotationProvisionedBy: Provisioner},
				Labels: map[string]string{LabelVirtual: api.True, api.LabelRemoteClusterID: cluster, LabelTenant: tenant},
			},
			Spec:   corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, NodeAffinity: NodesOf(cluster)},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
		}
	}
	for name, c := range map[string]struct {
		place     Place
		node      string
		retained  bool
		abandoned bool
		volume    *corev1.PersistentVolume
		want      Action
	}{
		"retained here, volume of an unknown cluster":          {here(), "n1", true, true, forged("turin", "liqo-tenant-turin"), DeleteVolume},
		"left here, volume of an unknown cluster":              {here(), "n1", false, true, forged("turin", "liqo-tenant-turin"), DeleteVolume},
		"retained here, volume of a provider":                  {here(), "n1", true, false, forged("milan", "liqo-tenant-milan"), Nothing},
		"retained in the provider, volume of its own":          {there(), "milan", true, false, forged("milan", "liqo-tenant-milan"), DeleteVolume},
		"left in the provider, volume of another tenant":       {there(), "milan", false, false, forged("milan", "liqo-tenant-turin"), Nothing},
		"in the provider, released volume of the same cluster": {there(), "milan", false, false, forged("milan", "liqo-tenant-milan"), DeleteBacking},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(c.place, claim(c.node))
			s.Backing = created(t, s)
			if c.retained {
				annotate(&s.Backing.ObjectMeta, AnnotationRetained, api.True)
			}
			s.Claim, s.Volume, s.Abandoned = nil, c.volume, c.abandoned
			if step := Next(s); step.Action != c.want {
				t.Errorf("%s: %s, want %s", step.Action, step.Why, c.want)
			}
		})
	}
}

// TestRefusals: each refusal names the field or the object, the value and the cure.
func TestRefusals(t *testing.T) {
	on := func(place Place, c *corev1.PersistentVolumeClaim, changes ...func(*State)) State {
		s := at(place, c)
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	with := func(change func(*corev1.PersistentVolumeClaim)) State { return on(here(), claim("n1", change)) }
	class := func(name string, change func(*storagev1.StorageClass)) func(*State) {
		return func(s *State) {
			for i := range s.Classes {
				if s.Classes[i].Name == name {
					change(&s.Classes[i])
				}
			}
		}
	}
	bound := func(s *State) {
		s.Claim.Spec.VolumeName, s.Claim.Status.Phase = "pvc-u1", corev1.ClaimBound
		s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1", Annotations: map[string]string{annotationProvisionedBy: Provisioner}}}
		place(s.Volume, "")
	}
	other := func(c *corev1.PersistentVolumeClaim) { standard := "standard"; c.Spec.StorageClassName = &standard }
	inUse := func(s *State) { s.Mounted, s.Claim.Spec.VolumeName = true, "disk-7" }
	for name, c := range map[string]struct {
		state State
		want  []string
	}{
		"snapshot": {with(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "VolumeSnapshot", Name: "monday"}
		}), []string{"spec.dataSourceRef VolumeSnapshot monday", "copy the data"}},
		"clone": {with(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "old"}
		}), []string{"spec.dataSource PersistentVolumeClaim old", "copy the data"}},
		"selector": {with(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), []string{"spec.selector", "leave it out"}},
		"attributes": {with(func(c *corev1.PersistentVolumeClaim) { fast := "fast"; c.Spec.VolumeAttributesClassName = &fast }),
			[]string{"spec.volumeAttributesClassName fast", "leave it out"}},
		"storage namespace": {with(func(c *corev1.PersistentVolumeClaim) { c.Namespace = "liqo-storage" }), []string{"liqo-storage", "another namespace"}},
		"immediate": {on(here(), claim(""), class("liqo", func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil })),
			[]string{"volumeBindingMode of StorageClass liqo", "WaitForFirstConsumer"}},
		"no default class": {on(here(), claim("n1"), class("standard", func(c *storagev1.StorageClass) { c.Annotations = nil })),
			[]string{"no StorageClass", "storage.realStorageClassName"}},
		"unknown class": {on(here(), claim("n1"), func(s *State) { s.Place.RealClass = "gone" }),
			[]string{"StorageClass gone does not exist", "storage.realStorageClassName"}},
		"class of itself": {on(here(), claim("n1"), func(s *State) { s.Place.RealClass = "liqo" }),
			[]string{"StorageClass liqo is itself", "storage.realStorageClassName"}},
		"unknown class of the namespace": {on(here(), claim("n1"), func(s *State) { s.Place.NamespaceClass = "gone" }),
			[]string{"annotation " + api.AnnotationRealStorageClass + " of namespace shop", "StorageClass gone", "remove the annotation"}},
		"class of itself in the namespace": {on(here(), claim("n1"), func(s *State) { s.Place.NamespaceClass = "liqo" }), []string{"StorageClass liqo, which creates no volumes"}},
		"no offer": {on(there(), claim("milan"), func(s *State) { s.Place.Offered = nil }),
			[]string{"cluster milan offers no storage class", "default StorageClass"}},
		"no default offer": {on(there(), claim("milan"), func(s *State) { s.Place.Offered[1].Default = false }),
			[]string{"no default storage class", "ssd, disk", api.AnnotationRemoteStorageClass}},
		"class that is not offered": {on(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) { c.Annotations[api.AnnotationRemoteStorageClass] = "manual" })),
			[]string{"annotation " + api.AnnotationRemoteStorageClass + " names storage class manual", "milan does not offer", "ssd, disk"}},
		"not offloaded": {on(there(), claim("milan"), func(s *State) { s.Place.Problem = "namespace shop is not offloaded" }),
			[]string{"namespace shop is not offloaded"}},
		"name taken": {on(there(), claim("milan"), func(s *State) { s.Backing = &corev1.PersistentVolumeClaim{} }),
			[]string{"data exists in namespace shop-rome of cluster milan", "another name"}},
		"volume of somebody else": {on(here(), claim("n1"), func(s *State) {
			s.Backing = created(t, *s)
			s.Backing.Status.Phase, s.Backing.Spec.VolumeName = corev1.ClaimBound, "real"
			s.BackingVolume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
			s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1"}}
		}), []string{"PersistentVolume pvc-u1 exists", "it stays as it is"}},
		"lost data": {on(here(), claim("n1"), bound), []string{"PersistentVolumeClaim u1 in namespace liqo-storage", "restore"}},
		"lost volume": {on(here(), claim("n1"), func(s *State) {
			s.Backing = created(t, *s)
			s.Claim.Spec.VolumeName = "pvc-u1"
		}), []string{"PersistentVolume pvc-u1 of this claim was deleted", "copy the data"}},
		"no expansion": {on(here(), claim("n1"), class("standard", func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = nil }), func(s *State) {
			s.Backing = created(t, *s)
			annotate(&s.Backing.ObjectMeta, AnnotationRetained, "")
			bound(s)
			s.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}), []string{"spec.resources.requests.storage 2Gi", "StorageClass standard", "allowVolumeExpansion"}},
		"another class on a virtual node": {on(there(), claim("milan", other)), []string{"StorageClass standard", "virtual node of cluster milan", "StorageClass liqo", "liqo.io/type DoesNotExist"}},
		"bound claim of another class on a virtual node": {on(there(), claim("", other), inUse),
			[]string{"StorageClass standard", "StorageClass liqo", "PersistentVolumeClaim data in namespace shop-rome of cluster milan"}},
		"static volume on a virtual node": {on(there(), claim("", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), inUse),
			[]string{"no StorageClass", "StorageClass liqo"}},
		"unknown access mode": {on(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[api.AnnotationRemoteAccessModes] = "ReadWriteMany,ReadWrite"
		})), []string{"annotation " + api.AnnotationRemoteAccessModes, "access mode ReadWrite,", "ReadOnlyMany", "remove the annotation"}},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(c.state)
			if step.Refused == "" {
				t.Errorf("not refused: %s", step.Why)
			}
			for _, want := range c.want {
				if !strings.Contains(step.Refused, want) {
					t.Errorf("%q, want %q", step.Refused, want)
				}
			}
			if step.Action != Nothing {
				t.Errorf("action %s", step.Action)
			}
		})
	}
}

// TestUnsupportedClaimsAreReportedOnce: the process of a provider leaves it to the controller manager, and creates nothing.
func TestUnsupportedClaimsAreReportedOnce(t *testing.T) {
	step := Next(at(there(), claim("milan", func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} })))
	if step.Action != Nothing || step.Refused != "" || step.Why == "" {
		t.Errorf("%+v", step)
	}
}

// TestForeignClaimsAreLeftAlone: a claim of another class gets nothing, whatever else exists, and a volume of another provisioner is not a virtual one.
func TestForeignClaimsAreLeftAlone(t *testing.T) {
	for _, class := range []string{"standard", "gone"} {
		for _, place := range []Place{here(), there()} {
			s := at(place, claim("milan", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }))
			s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u1"}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}}
			refused := place.Cluster != "" // its pod is scheduled there
			if step := Next(s); step.Action != Nothing || (step.Refused != "") != refused {
				t.Errorf("class %s: %+v", class, step)
			}
			s.Claim = nil
			if step := Next(s); step.Action != Nothing || step.Refused != "" {
				t.Errorf("class %s, claim gone: %+v", class, step)
			}
		}
	}
}

// TestClaimsOfOthersThatWorkAreNotRefused: one without a pod in the provider, one that the provider has too, and one of an ephemeral volume, which the copy of
// the pod has for itself.
func TestClaimsOfOthersThatWorkAreNotRefused(t *testing.T) {
	yes, standard := true, "standard"
	for name, change := range map[string]func(*State){
		"no pod there": func(s *State) { s.Mounted = false },
		"the provider has a volume": func(s *State) {
			s.Backing = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName}}
		},
		"ephemeral": func(s *State) {
			s.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", Controller: &yes, BlockOwnerDeletion: &yes}}
			s.Claim.Name = "web-scratch"
		},
		"here": func(s *State) { s.Place = here() },
	} {
		s := at(there(), claim("", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Spec.VolumeName = &standard, "disk-7"
		}))
		s.Mounted = true
		if change(&s); Next(s).Refused != "" || Next(s).Action != Nothing {
			t.Errorf("%s: %+v", name, Next(s))
		}
	}
}

// TestAClaimThatIsMovedWaitsForItsData: its backing claim is created at the target, but no pod can use it before the annotation is gone.
func TestAClaimThatIsMovedWaitsForItsData(t *testing.T) {
	for place, node := range map[string]string{"here": "n1", "there": "milan"} {
		s := at(map[string]Place{"here": here(), "there": there()}[place], claim(node))
		s.Claim.Annotations[AnnotationMove] = "pvc-u0"
		s.Backing = created(t, s)
		s.Backing.Status.Phase, s.Backing.Spec.VolumeName = corev1.ClaimBound, "real"
		s.BackingVolume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
		if step := Next(s); step.Action != Nothing || !strings.Contains(step.Refused, "liqoctl move volume "+claimName+" --namespace shop --target-node "+node) {
			t.Errorf("%s: %s: %+v", place, step.Action, step)
		}
		delete(s.Claim.Annotations, AnnotationMove)
		if step := Next(s); step.Action != CreateVolume {
			t.Errorf("%s, with the data: %s: %s", place, step.Action, step.Why)
		}
		s.Claim.Annotations[AnnotationMove], s.Claim = "pvc-u0", nil
		if step := Next(s); step.Action != DeleteBacking {
			t.Errorf("%s, given up: %s: %s", place, step.Action, step.Why)
		}
	}
}

// TestARefusedNodeIsSelectedAgain: a driver that can't create the volume for a node has the scheduler select again, also the same node.
func TestARefusedNodeIsSelectedAgain(t *testing.T) {
	s := at(here(), claim("n1"))
	s.Claim.ResourceVersion = "5"
	s.Backing = created(t, s)
	annotate(&s.Backing.ObjectMeta, AnnotationSelectedNode, "") // the driver's refusal
	step := Next(s)
	if step.Action != PatchBacking {
		t.Fatalf("%+v", step)
	}
	s.Backing = step.Object.(*corev1.PersistentVolumeClaim)
	step = Next(s)
	if step.Action != PatchClaim || step.Object.GetAnnotations()[AnnotationSelectedNode] != "" {
		t.Fatalf("%+v", step)
	}
	for _, again := range []string{"n1", "n2"} {
		s.Claim = claim(again)
		s.Claim.ResourceVersion = "7"
		s.Node = node(again)
		step = Next(s)
		if step.Action != PatchBacking || step.Object.GetAnnotations()[AnnotationSelectedNode] != again {
			t.Errorf("%s: %+v", again, step)
		}
	}
}

func TestRealClass(t *testing.T) {
	class := func(name, standard string, age time.Duration) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{standard: "true"}, CreationTimestamp: metav1.NewTime(time.Unix(10000, 0).Add(-age)),
		}}
	}
	all := []storagev1.StorageClass{
		class("old", annotationDefaultClass, time.Hour), class("b", annotationDefaultClass, time.Minute),
		class("a", annotationOldDefaultClass, time.Minute), class("plain", "x", 0),
	}
	for configured, want := range map[string]string{"": "a", "old": "old", "plain": "plain"} {
		got, err := RealClass(configured, all)
		if err != nil || got.Name != want {
			t.Errorf("%q: %v, %v, want %s", configured, got, err, want)
		}
	}
}

func TestOffer(t *testing.T) {
	all := classes()
	for _, name := range []string{"fast", "secret"} {
		all = append(all, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	standard, fast := authv1beta1.StorageType{StorageClassName: "standard", Default: true}, authv1beta1.StorageType{StorageClassName: "fast"}
	for name, c := range map[string]struct {
		configured string
		accepted   []string
		want       []authv1beta1.StorageType
	}{
		"the default class":    {"", nil, []authv1beta1.StorageType{standard}},
		"and accepted classes": {"", []string{"fast", "gone", "liqo", "standard"}, []authv1beta1.StorageType{fast, standard}},
		"a configured class": {"fast", []string{"standard"},
			[]authv1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "standard"}}},
		"no default, accepted classes":   {"gone", []string{"fast"}, []authv1beta1.StorageType{fast}},
		"a class of Liqo is not offered": {"liqo", nil, nil},
	} {
		if diff := cmp.Diff(c.want, Offer(c.configured, c.accepted, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUses(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "config"},
		{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}}}
	for name, want := range map[string]bool{"data": true, "web-scratch": true, "disk": false, "web-config": false} {
		if Uses(pod, name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestTheCureNamesTheOldestClass: whatever the order in which the classes are listed.
func TestTheCureNamesTheOldestClass(t *testing.T) {
	own := func(name string, created int64) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}, Provisioner: Provisioner}
	}
	foreign := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "disks.example"}
	classes := []storagev1.StorageClass{own("kept", 2), own("liqo", 1), foreign, own("twin", 1)}
	for range classes {
		classes = append(classes[1:], classes[0])
		s := State{Classes: classes}
		if got := s.ownClass(); got != "liqo" {
			t.Errorf("of %v: %s", classes, got)
		}
	}
}
