package controllers

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// sliceOf is a ResourceSlice as a user of rome would write it.
func sliceOf(rome, milan *cluster) *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: rome.meta(milan, "milan", api.LabelReplication),
		Spec:       authv1beta1.ResourceSliceSpec{Class: "default", Resources: resources("cpu", "1", "nvidia.com/gpu", "2")},
	}
	slice.Labels[api.LabelRemoteID] = milan.id
	return slice
}

func mapOf(rome, milan *cluster) *offloadingv1beta1.NamespaceMap {
	m := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: rome.meta(milan, "milan", api.LabelReplication),
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	m.Labels[api.LabelRemoteID] = milan.id
	return m
}

// peer does what liqoctl does, by objects only.
func peer(t *testing.T, rome, milan *cluster) {
	t.Helper()
	milan.create(t, &corev1.Secret{ObjectMeta: milan.meta(rome, authv1beta1.NonceSecret, authv1beta1.LabelNonce)})
	nonce := eventually(t, milan, &corev1.Secret{ObjectMeta: milan.meta(rome, authv1beta1.NonceSecret)}, "a nonce", func(s *corev1.Secret) bool {
		return len(s.Data[authv1beta1.NonceKey]) > 0
	}).Data[authv1beta1.NonceKey]
	rome.create(t, &corev1.Secret{
		ObjectMeta: rome.meta(milan, authv1beta1.SignedNonceSecret, authv1beta1.LabelSignedNonce),
		Data:       map[string][]byte{authv1beta1.NonceKey: nonce},
	})
	signature := eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, authv1beta1.SignedNonceSecret)}, "a signature", func(s *corev1.Secret) bool {
		return len(s.Data[authv1beta1.SignedNonceKey]) > 0
	}).Data[authv1beta1.SignedNonceKey]
	milan.create(t, tenantOf(t, rome, milan, signature))
	tenant := eventually(t, milan, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, "admitted", func(tn *authv1beta1.Tenant) bool {
		return tn.Status.AuthParams != nil && meta.IsStatusConditionTrue(tn.Status.Conditions, kube.ConditionReady)
	})
	namespace := milan.tenantNamespace(rome)
	if err := milan.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Fatal(err)
	}
	if key := base64.StdEncoding.EncodeToString(tenant.Spec.PublicKey); namespace.Annotations[peering.AnnotationConsumerKey] != key {
		t.Errorf("Namespace %s remembers the key %q, want %q", namespace.Name, namespace.Annotations[peering.AnnotationConsumerKey], key)
	}
	rome.create(t, &authv1beta1.Identity{
		ObjectMeta: rome.meta(milan, peering.ControlPlaneIdentityName(milan.id)),
		Spec: authv1beta1.IdentitySpec{
			ClusterID: milan.id, Type: authv1beta1.IdentityControlPlane, AuthParams: *tenant.Status.AuthParams, Namespace: tenant.Status.TenantNamespace,
		},
	})
}

func tenantOf(t *testing.T, rome, milan *cluster, signature []byte) *authv1beta1.Tenant {
	t.Helper()
	private, public := rome.key(t)
	key, err := peering.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	request, err := peering.NewRequest(rand.Reader, key, peering.ControlPlaneSubject(rome.id))
	if err != nil {
		t.Fatal(err)
	}
	return &authv1beta1.Tenant{
		ObjectMeta: milan.meta(rome, rome.id),
		Spec:       authv1beta1.TenantSpec{ClusterID: rome.id, PublicKey: public, CSR: request, Signature: signature},
	}
}

// settled waits until everything that peering promises is there.
func settled(t *testing.T, rome, milan *cluster) {
	t.Helper()
	slice := eventually(t, rome, &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}, "accepted", func(s *authv1beta1.ResourceSlice) bool {
		return peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceAccepted &&
			peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	})
	if diff := cmp.Diff(resources("cpu", "1", "memory", "8Gi", "nvidia.com/gpu", "2"), slice.Status.Resources); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"city": "milan"}, slice.Status.NodeLabels); diff != "" {
		t.Errorf("node labels (-want +got):\n%s", diff)
	}
	user := peering.ResourceSliceSubject("milan", rome.id).User
	quota := eventually(t, milan, &offloadingv1beta1.Quota{ObjectMeta: milan.meta(rome, user)}, "made", func(*offloadingv1beta1.Quota) bool { return true })
	if quota.Labels[api.LabelManaged] != api.True {
		t.Errorf("the quota lacks the labels of everything: %v", quota.Labels)
	}
	if quota.Spec.User != user || *quota.Spec.Cordoned || !quota.Spec.Resources.Cpu().Equal(resource.MustParse("1")) {
		t.Errorf("quota %+v", quota.Spec)
	}
	for _, identity := range []string{"controlplane-milan", "resourceslice-milan"} {
		secret := eventually(t, rome, &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-"+identity)}, "made", func(*corev1.Secret) bool { return true })
		if secret.Annotations[api.AnnotationRemoteTenantNamespace] != "liqo-tenant-rome" || len(secret.Data["kubeconfig"]) == 0 {
			t.Errorf("kubeconfig %s: %v", secret.Name, secret.Annotations)
		}
	}
	nm := eventually(t, milan, &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}, "replicated", func(*offloadingv1beta1.NamespaceMap) bool { return true })
	want := map[string]string{
		api.LabelReplication: api.False, api.LabelReplicated: api.True, api.LabelOriginID: "rome", api.LabelRemoteClusterID: "rome",
	}
	if diff := cmp.Diff(want, nm.Labels); diff != "" {
		t.Errorf("labels of the copy (-want +got):\n%s", diff)
	}
	eventually(t, rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "provider, up", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Role == corev1beta1.RoleProvider && fc.Status.Modules.Authentication.Enabled &&
			len(fc.Status.Conditions) == 1 && fc.Status.Conditions[0].Status == corev1beta1.StatusEstablished
	})
	eventually(t, milan, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, "consumer", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Role == corev1beta1.RoleConsumer && fc.Status.Modules.Authentication.Conditions[0].Status == corev1beta1.StatusReady
	})
}

// unpeer ends the peering in liqoctl's order. There is no garbage collector here, so the test deletes owned objects itself.
func unpeer(t *testing.T, rome, milan *cluster) {
	t.Helper()
	rome.delete(t, sliceOf(rome, milan))
	rome.gone(t, sliceOf(rome, milan))
	milan.gone(t, &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")})
	rome.delete(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "controlplane-milan")})
	secret := &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-controlplane-milan")}
	rome.delete(t, secret)
	rome.gone(t, secret) // the NamespaceMap is still there, its copy must not be
	milan.gone(t, &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")})
	rome.delete(t, mapOf(rome, milan))
	rome.gone(t, mapOf(rome, milan))
	milan.delete(t, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)})
	milan.gone(t, &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)})
	local, wide := bindings(&authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id), Spec: authv1beta1.TenantSpec{ClusterID: rome.id}})
	milan.gone(t, local)
	milan.gone(t, wide)
	eventually(t, rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, "disabled", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Role == corev1beta1.RoleUnknown && !fc.Status.Modules.Authentication.Enabled
	})
	// The garbage collector's part, and the secrets of the handshake.
	for _, name := range []string{authv1beta1.NonceSecret, peering.CertificateSecretName(""), peering.CertificateSecretName("milan")} {
		milan.delete(t, &corev1.Secret{ObjectMeta: milan.meta(rome, name)})
	}
	milan.delete(t, &offloadingv1beta1.Quota{ObjectMeta: milan.meta(rome, peering.ResourceSliceSubject("milan", rome.id).User)})
	for _, name := range []string{authv1beta1.SignedNonceSecret, "kubeconfig-resourceslice-milan"} {
		rome.delete(t, &corev1.Secret{ObjectMeta: rome.meta(milan, name)})
	}
	rome.delete(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "resourceslice-milan")})
}

// TestPeeringOnAPIServer peers twice, with the objects created in opposite orders, and checks the state in between and afterwards.
func TestPeeringOnAPIServer(t *testing.T) {
	rome, milan := newPair(t)
	rome.create(t, rome.tenantNamespace(milan))
	milan.create(t, milan.tenantNamespace(rome))
	step := func(name string, f func(t *testing.T)) {
		if !t.Run(name, f) {
			t.FailNow() // what follows builds on it
		}
	}
	step("step by step", func(t *testing.T) {
		peer(t, rome, milan)
		rome.create(t, sliceOf(rome, milan))
		rome.create(t, mapOf(rome, milan))
		settled(t, rome, milan)
	})
	step("a consumer has exactly its rights", func(t *testing.T) { rights(t, rome, milan) })
	step("a consumer with a client of its own", func(t *testing.T) { hostile(t, rome, milan) })
	step("replication", func(t *testing.T) { replicates(t, rome, milan) })
	step("renewal", func(t *testing.T) { renews(t, rome, milan) })
	step("renewal again and again", func(t *testing.T) { renewsAgain(t, rome, milan) })
	step("serving certificates", func(t *testing.T) { servingCertificatesOf(t, rome, milan) })
	step("a cut cable is no news", func(t *testing.T) { survivesCut(t, rome, milan) })
	step("revocation and unpeer", func(t *testing.T) { revoked(t, rome, milan) })
	step("wishes first, handshake last", func(t *testing.T) {
		rome.create(t, mapOf(rome, milan))
		rome.create(t, sliceOf(rome, milan))
		peer(t, rome, milan)
		settled(t, rome, milan)
	})
	step("drained by the provider, and back", func(t *testing.T) { drained(t, rome, milan) })
	step("given up", func(t *testing.T) { givenUp(t, rome, milan) })
}

func rights(t *testing.T, rome, milan *cluster) {
	t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "liqo-binding-liqo-remote-controlplane"}}
	eventually(t, milan, binding, "bound", func(b *rbacv1.RoleBinding) bool { return b.Subjects[0].Name == "rome" && b.Subjects[0].Kind == "User" })
	wide := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-binding-liqo-virtual-kubelet-remote-clusterwide-rome"}}
	eventually(t, milan, wide, "bound", func(b *rbacv1.ClusterRoleBinding) bool {
		return b.Subjects[0].Name == "rome" && b.Subjects[0].Kind == "Group"
	})
	checkRights(t, milan, "liqo-tenant-rome", "rome", "liqo.io", map[string]bool{
		"get authentication.liqo.io resourceslices":          true,
		"delete authentication.liqo.io renews":               true,
		"patch offloading.liqo.io namespacemaps":             true,
		"patch authentication.liqo.io resourceslices/status": false,
		"patch offloading.liqo.io namespacemaps/status":      false,
		"get authentication.liqo.io tenants":                 false,
		"patch offloading.liqo.io quotas":                    false,
		"get  secrets":                                       false,
		"create offloading.liqo.io shadowpods":               false,
	})
	checkRights(t, milan, "liqo", "rome", "liqo.io", map[string]bool{
		"get authentication.liqo.io resourceslices": false, "get  secrets": false, "get  configmaps": false,
	})
}

func replicates(t *testing.T, rome, milan *cluster) {
	t.Helper()
	there := &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}
	here := &offloadingv1beta1.NamespaceMap{ObjectMeta: rome.meta(milan, "milan")}
	// The spec flows out, what the provider added stays.
	change(t, milan, there, func(m *offloadingv1beta1.NamespaceMap) { m.Annotations = map[string]string{"provider": "own"} })
	change(t, rome, here, func(m *offloadingv1beta1.NamespaceMap) {
		m.Spec.DesiredMapping = map[string]string{"bank": "bank-rome"}
	})
	eventually(t, milan, there, "updated", func(m *offloadingv1beta1.NamespaceMap) bool {
		return cmp.Equal(m.Spec.DesiredMapping, map[string]string{"bank": "bank-rome"}) && m.Annotations["provider"] == "own"
	})
	// The status flows back.
	there.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"bank": {RemoteNamespace: "bank-rome", Phase: offloadingv1beta1.MappingAccepted}}
	if err := milan.Status().Update(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	eventually(t, rome, here, "told", func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Status.CurrentMapping["bank"].Phase == "Accepted"
	})
	// A deleted copy is recreated.
	uid := there.UID
	milan.delete(t, there)
	eventually(t, milan, there, "made again", func(m *offloadingv1beta1.NamespaceMap) bool { return m.UID != uid && m.DeletionTimestamp.IsZero() })
	// A resource that leaves the request leaves the grant.
	slice := &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}
	change(t, rome, slice, func(s *authv1beta1.ResourceSlice) { delete(s.Spec.Resources, "nvidia.com/gpu") })
	eventually(t, rome, slice, "without gpu", func(s *authv1beta1.ResourceSlice) bool {
		return cmp.Equal(s.Status.Resources, resources("cpu", "1", "memory", "8Gi"))
	})
	change(t, rome, slice, func(s *authv1beta1.ResourceSlice) { s.Spec.Resources["nvidia.com/gpu"] = resource.MustParse("2") })
	eventually(t, rome, slice, "with gpu", func(s *authv1beta1.ResourceSlice) bool { return len(s.Status.Resources) == 3 })
}

func survivesCut(t *testing.T, rome, milan *cluster) {
	t.Helper()
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	rome.link.set(true)
	eventually(t, rome, fc, "down", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Conditions[0].Status == corev1beta1.StatusError
	})
	here := mapOf(rome, milan)
	rome.delete(t, here)
	// A second object shows when the first one could have taken all steps.
	probe := mapOf(rome, milan)
	probe.Name = "probe"
	rome.create(t, probe)
	rome.delete(t, probe)
	rome.gone(t, probe)
	if err := rome.Get(t.Context(), keyOf(here), here); err != nil {
		t.Fatalf("the source was let go while nobody could tell what became of its copy: %v", err)
	}
	rome.link.set(false)
	rome.gone(t, here)
	milan.gone(t, &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")})
	rome.create(t, mapOf(rome, milan))
	settled(t, rome, milan)
}

func drained(t *testing.T, rome, milan *cluster) {
	t.Helper()
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantDrained })
	milan.gone(t, &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")})
	eventually(t, milan, tenant, "drained", func(tn *authv1beta1.Tenant) bool {
		ready := meta.FindStatusCondition(tn.Status.Conditions, kube.ConditionReady)
		return ready != nil && ready.ObservedGeneration == tn.Generation && ready.Status == metav1.ConditionTrue
	})
	// The map stays, and with it the remote namespaces.
	if err := milan.Get(t.Context(), client.ObjectKeyFromObject(&offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}), &offloadingv1beta1.NamespaceMap{}); err != nil {
		t.Error(err)
	}
	local, wide := bindings(&authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id), Spec: authv1beta1.TenantSpec{ClusterID: rome.id}})
	milan.gone(t, local)
	milan.gone(t, wide)
	// What the provider refuses to discuss must not hold the consumer.
	rome.delete(t, mapOf(rome, milan))
	rome.gone(t, mapOf(rome, milan))
	// Back again.
	milan.countMaps(t, rome)
	change(t, milan, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantActive })
	rome.create(t, mapOf(rome, milan))
	milan.gone(t, &authv1beta1.Identity{ObjectMeta: milan.meta(rome, "none")})
	apitest.Eventually(t, within, "the copy to be made again", func() error {
		m := &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}
		if err := milan.Get(t.Context(), keyOf(m), m); err != nil {
			return err
		}
		if !peering.IsCopy(m, "rome") {
			return fmt.Errorf("labels %v", m.Labels)
		}
		return nil
	})
}

// countMaps counts the NamespaceMaps of a consumer again. An API server only adds to the usage in a ResourceQuota. It is the controller manager of
// Kubernetes, which does not run here, that subtracts deleted objects. Each attempt of a consumer during a drain may add one.
func (c *cluster) countMaps(t *testing.T, consumer *cluster) {
	t.Helper()
	maps := &offloadingv1beta1.NamespaceMapList{}
	namespace := c.meta(consumer, "").Namespace
	if err := c.List(t.Context(), maps, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: peering.TenantQuota}, quota); err != nil {
		t.Fatal(err)
	}
	before := quota.DeepCopy()
	quota.Status.Used["count/namespacemaps.offloading.liqo.io"] = *resource.NewQuantity(int64(len(maps.Items)), resource.DecimalSI)
	if err := c.Status().Patch(t.Context(), quota, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// givenUp: an administrator declares the provider permanently unreachable.
func givenUp(t *testing.T, rome, milan *cluster) {
	t.Helper()
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	rome.link.set(true)
	defer rome.link.set(false)
	eventually(t, rome, fc, "down", func(fc *corev1beta1.ForeignCluster) bool {
		return len(fc.Status.Conditions) == 1 && fc.Status.Conditions[0].Status == corev1beta1.StatusError
	})
	secret := &corev1.Secret{ObjectMeta: rome.meta(milan, "kubeconfig-controlplane-milan")}
	rome.delete(t, mapOf(rome, milan))
	rome.delete(t, secret)
	if err := rome.Get(t.Context(), keyOf(secret), secret); err != nil {
		t.Fatalf("the way to milan was given up without being told: %v", err)
	}
	rome.delete(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, "controlplane-milan")})
	change(t, rome, fc, func(fc *corev1beta1.ForeignCluster) {
		fc.Annotations = map[string]string{peering.AnnotationUnreachable: api.True}
	})
	rome.gone(t, mapOf(rome, milan))
	rome.gone(t, secret)
	// The provider, for its part, lets the consumer go.
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}
	milan.delete(t, tenant)
	milan.gone(t, tenant)
	milan.gone(t, &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")})
}
