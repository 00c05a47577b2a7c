package webhook

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/test/apitest"
)

// volumesTester tries what a virtual kubelet may write. Namespace shop is offloaded to its provider, namespace bank is not.
type volumesTester struct {
	t              *testing.T
	admin, kubelet client.Client
}

func newVolumesTester(t *testing.T) *volumesTester {
	const tenant = "liqo-tenant-milan"
	config := apitest.APIServer(t)
	v := &volumesTester{t: t, admin: apitest.Client(t, config)}
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		v.create(object)
	}
	for _, name := range []string{tenant, "shop", "bank"} {
		namespace(t, v.admin, name, nil)
	}
	node := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}}
	node.Spec.ClusterID = "milan"
	ref, subjects := kubelet.Rights(&node)
	v.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, RoleRef: ref, Subjects: subjects})
	ref, subjects = offload.OffloadedRights([]offloadingv1beta1.VirtualNode{node}, []string{"milan"}, nil, nil)
	v.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: ref.Name}, RoleRef: ref, Subjects: subjects})
	account := rest.CopyConfig(config)
	account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + tenant + ":milan",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + tenant, "system:authenticated"},
	}
	v.kubelet = apitest.Client(t, account)
	apitest.InForce(t, v.admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		err := v.kubelet.Create(t.Context(), kubeletVolume("0", func(v *corev1.PersistentVolume) { v.Labels = nil }), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "and no others") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	return v
}

func (v *volumesTester) create(obj client.Object) {
	v.t.Helper()
	if err := v.admin.Create(v.t.Context(), obj); err != nil {
		v.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
}

// allowed fails the test unless the error is nil, or, if says is not empty, an error with that text.
func (v *volumesTester) allowed(what string, err error, says string) {
	v.t.Helper()
	if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
		v.t.Errorf("%s: %v, want %q", what, err, says)
	}
}

// kubeletVolume returns the volume that a virtual kubelet of milan creates for the claim with that UID in namespace shop.
func kubeletVolume(uid string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + uid, Finalizers: []string{"storage.liqo.io/backing-claim"},
			Labels: map[string]string{
				api.LabelRemoteClusterID: "milan", "storage.liqo.io/tenant-namespace": "liqo-tenant-milan", "storage.liqo.io/virtual-volume": "true",
			},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "liqo.io/storage"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, StorageClassName: "liqo",
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data", UID: types.UID(uid)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/liqo-placeholder"}},
			NodeAffinity:           nodesOf("milan"),
		},
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func nodesOf(clusters ...string) *corev1.VolumeNodeAffinity {
	requirement := corev1.NodeSelectorRequirement{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: clusters}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}},
	}}}
}

// TestKubeletVolumesOnAPIServer tries, as the account of a virtual kubelet and with its rights, to write volumes that are not those of its provider,
// and to have its own ones bound, mounted or deleted against the rules.
func TestKubeletVolumesOnAPIServer(t *testing.T) {
	v := newVolumesTester(t)
	const (
		own      = "whose data is in the provider of tenant namespace liqo-tenant-milan"
		source   = "for virtual nodes of its provider only"
		reserved = "creates volumes for claims in namespaces that are offloaded"
		created  = "without metadata.ownerReferences"
		changed  = "changes spec.capacity of a volume"
	)
	type pv = corev1.PersistentVolume
	for what, row := range map[string]struct {
		change func(*pv)
		says   string
	}{
		"its own":                {func(*pv) {}, ""},
		"of another provisioner": {func(v *pv) { v.Annotations = nil }, own},
		"of this cluster":        {func(v *pv) { delete(v.Labels, api.LabelRemoteClusterID) }, own},
		"of another tenant":      {func(v *pv) { v.Labels["storage.liqo.io/tenant-namespace"] = "liqo-tenant-turin" }, own},
		"of another directory":   {func(v *pv) { v.Spec.HostPath.Path = "/" }, source},
		"of a driver": {func(v *pv) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk", VolumeHandle: "7"}}
		}, source},
		"for all nodes":           {func(v *pv) { v.Spec.NodeAffinity = nil }, source},
		"for other nodes":         {func(v *pv) { v.Spec.NodeAffinity = nodesOf("turin") }, source},
		"for other nodes as well": {func(v *pv) { v.Spec.NodeAffinity = nodesOf("milan", "turin") }, source},
		"for a node by its name": {func(v *pv) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = corev1.LabelHostname
		}, source},
		"for further nodes": {func(v *pv) {
			terms := &v.Spec.NodeAffinity.Required.NodeSelectorTerms
			*terms = append(*terms, nodesOf("turin").Required.NodeSelectorTerms...)
		}, source},
		"for any claim":              {func(v *pv) { v.Spec.ClaimRef = nil }, reserved},
		"for a claim by its name":    {func(v *pv) { v.Spec.ClaimRef.UID = "" }, reserved},
		"with the name of another":   {func(v *pv) { v.Name = "pvc-other" }, reserved},
		"for a claim of others":      {func(v *pv) { v.Spec.ClaimRef.Namespace = "bank" }, reserved},
		"with the data of its claim": {func(v *pv) { v.Annotations["storage.liqo.io/data-of"] = "shop/" + v.Spec.ClaimRef.Name }, ""},
		"with the data of another":   {func(v *pv) { v.Annotations["storage.liqo.io/data-of"] = "bank/data" }, reserved},
		"with an owner": {func(v *pv) {
			v.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "gone", UID: "1"}}
		}, created},
		"with the record of a move": {func(v *pv) {
			v.Annotations["storage.liqo.io/move"] = `{"node":"milan"}`
		}, created},
		"that can't be deleted": {func(v *pv) { v.Finalizers = []string{"example.org/never"} }, created},
		"that pods scrub":       {func(v *pv) { v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle }, created},
	} {
		v.allowed("creating a volume "+what, v.kubelet.Create(t.Context(), kubeletVolume("u1", row.change), client.DryRunAll), row.says)
	}

	mine, theirs := kubeletVolume("u1"), kubeletVolume("u2", func(v *pv) { v.Labels["storage.liqo.io/tenant-namespace"] = "liqo-tenant-turin" })
	disk := kubeletVolume("u3", func(v *pv) { v.Labels, v.Annotations, v.Finalizers = nil, nil, nil })
	for _, volume := range []*pv{mine, theirs, disk} {
		v.create(volume)
	}
	patch := func(volume *pv, text string) error {
		return v.kubelet.Patch(t.Context(), volume.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	for text, says := range map[string]string{
		`{"spec":{"capacity":{"storage":"2Gi"}}}`:                                                      "",
		`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`:                                          changed,
		`{"spec":{"claimRef":null}}`:                                                                   changed,
		`{"spec":{"claimRef":{"namespace":"bank"}}}`:                                                   changed,
		`{"spec":{"storageClassName":"standard"}}`:                                                     changed,
		`{"spec":{"mountOptions":["ro"]}}`:                                                             changed,
		`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`:                                source,
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}}}`:                                  changed,
		`{"metadata":{"labels":{"storage.liqo.io/tenant-namespace":null}}}`:                            own,
		`{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}}}`:                  changed,
		`{"metadata":{"annotations":{"storage.liqo.io/data-of":"bank/data"}}}`:                         changed,
		`{"metadata":{"finalizers":["storage.liqo.io/backing-claim","example.org/x"]}}`:                changed,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"1"}]}}`: changed,
	} {
		v.allowed("patch "+text, patch(mine, text), says)
	}
	for what, volume := range map[string]*pv{"a volume of another provider": theirs, "a disk of this cluster": disk} {
		v.allowed("changing "+what, patch(volume, `{"metadata":{"finalizers":null}}`), own)
		v.allowed("adopting "+what, patch(volume, `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"milan","storage.liqo.io/tenant-namespace":"liqo-tenant-milan"},
			"annotations":{"pv.kubernetes.io/provisioned-by":"liqo.io/storage"}}}`), own)
		v.allowed("deleting "+what, v.kubelet.Delete(t.Context(), volume.DeepCopy()), own)
	}
	v.allowed("removing the finalizers of its volume", patch(mine, `{"metadata":{"finalizers":null}}`), "")
	v.allowed("deleting its volume", v.kubelet.Delete(t.Context(), mine.DeepCopy()), "")
}

// TestKubeletClaimsOnAPIServer: by the status of a claim, a virtual kubelet changes nothing but the size that users see, and the conditions that moves need.
func TestKubeletClaimsOnAPIServer(t *testing.T) {
	v := newVolumesTester(t)
	class := "liqo"
	claim := func(namespace, name string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{"kubernetes.io/pvc-protection"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		v.create(c)
		return c
	}
	data, disk, bank := claim("shop", "data"), claim("shop", "disk"), claim("bank", "data")
	for c, volume := range map[*corev1.PersistentVolumeClaim]string{data: "pvc-" + string(data.UID), disk: "disk-7"} {
		c.Spec.VolumeName = volume
		if err := v.admin.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	report := func(c *corev1.PersistentVolumeClaim, text string) error {
		return v.kubelet.Status().Patch(t.Context(), c.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	const size, refused = `{"status":{"capacity":{"storage":"2Gi"}}}`, "changes conditions of moves in the status of a claim"
	v.allowed("the size of a claim with a volume of Liqo", report(data, size), "")
	v.allowed("the size of another claim", report(disk, size), refused)
	v.allowed("the size of a claim in a namespace that is not offloaded", report(bank, size), "forbidden")
	conditions := func(types ...string) string {
		var out []string
		for _, kind := range types {
			out = append(out, `{"type":"`+kind+`","status":"True"}`)
		}
		return `{"status":{"conditions":[` + strings.Join(out, ",") + `]}}`
	}
	const ours, others, foreign = "storage.liqo.io/backing-claim-in-milan", "Resizing", "writes no condition of a claim but"
	v.allowed("a condition of others", report(disk, conditions(others)), foreign)
	disk.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: others, Status: corev1.ConditionTrue}}
	if err := v.admin.Status().Update(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	v.allowed("removing a condition of others", report(disk, `{"status":{"conditions":null}}`), foreign)
	v.allowed("a condition of moves, on a claim with any volume", report(disk, conditions(others, ours)), "")
	v.allowed("removing it", report(disk, conditions(others)), "")
	v.allowed("the first condition", report(data, conditions(ours)), "")
	v.allowed("removing the last one", report(data, `{"status":{"conditions":null}}`), "")
	before := &corev1.PersistentVolumeClaim{}
	if err := v.admin.Get(t.Context(), client.ObjectKeyFromObject(data), before); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"status":{"phase":"Lost"}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`,
		`{"metadata":{"finalizers":null}}`,
		`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"milan"}}}`,
		`{"metadata":{"labels":{"app":"web"}}}`,
	} {
		if err := report(data, text); err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("patch %s of a status: %v, want %q", text, err, refused)
		}
	}
	after := &corev1.PersistentVolumeClaim{}
	if err := v.admin.Get(t.Context(), client.ObjectKeyFromObject(data), after); err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the claim was changed: %v, %+v", err, after)
	}
}
