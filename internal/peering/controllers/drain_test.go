package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/accounts"
	"liqo.io/liqo/internal/peering/enrollment"
)

// providerOfRome holds the objects of a provider whose consumer rome has a pod and a claim in namespace shop-rome.
type providerOfRome struct {
	tenant     *authv1beta1.Tenant
	pod        *corev1.Pod
	ends, data []client.Object
	client.Client
	*tenants
}

func newProviderOfRome(condition authv1beta1.TenantCondition) *providerOfRome {
	const namespace, remote = "liqo-tenant-rome", "shop-rome"
	copied := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: "rome", api.LabelRemoteClusterID: "rome",
		}}
	}
	made := map[string]string{offloadingv1beta1.AnnotationManagedByNamespaceMap: namespace + "/milan", offloadingv1beta1.AnnotationOriginalName: "shop"}
	p := &providerOfRome{
		tenant: &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome", UID: "1"},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome", TenantCondition: condition},
		},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: "db-0", Labels: map[string]string{offloadingv1beta1.LabelManagedBy: offloadingv1beta1.ManagedByShadowPod}}},
	}
	p.ends = []client.Object{
		&offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: "db-0", Finalizers: []string{"example.org/never"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: namespace, Annotations: made, Labels: map[string]string{api.LabelRemoteClusterID: "rome"}}},
		&authv1beta1.ResourceSlice{ObjectMeta: copied("milan")}, &authv1beta1.Renew{ObjectMeta: copied("milan")},
	}
	p.data = []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remote, Annotations: made, Labels: map[string]string{api.LabelRemoteClusterID: "rome"}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: "data-db-0"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: "password"}},
		&offloadingv1beta1.NamespaceMap{ObjectMeta: copied("milan"), Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": remote}}},
		&networkingv1beta1.NetworkRequest{ObjectMeta: copied("milan")},
		&networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome", Labels: map[string]string{
			api.LabelRemoteClusterID: "rome", networkingv1beta1.LabelNegotiated: api.True,
		}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: remote, Name: "of-an-administrator"}},
	}
	p.Client = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(p.tenant).WithObjects(p.tenant, p.pod,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "rome"}}},
	).WithObjects(p.ends...).WithObjects(p.data...).Build()
	p.tenants = &tenants{
		providerSide: providerSide{client: p.Client, reader: p.Client, own: "milan", accounts: &accounts.Issuer{Client: p.Client, Reader: p.Client}},
		enrollment:   enrollment.Options{Namespace: api.Namespace, Client: p.Client, Reader: p.Client, Now: time.Now},
	}
	return p
}

// present fails the test unless all objects exist, or none does.
func (p *providerOfRome) present(t *testing.T, want bool, objects []client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) == want {
			t.Errorf("%T %s: %v, want it to exist: %t", o, o.GetName(), err, want)
		}
	}
}

// TestADrainKeepsTheData: a drain revokes the access of a consumer and ends its pods. The remote namespaces, everything in them, and the network
// stay. The Tenant is not Ready before the pods have terminated.
func TestADrainKeepsTheData(t *testing.T) {
	p := newProviderOfRome(authv1beta1.TenantDrained)
	for range 3 {
		if err := p.sync(t.Context(), p.tenant); !kube.IsWait(err) {
			t.Fatalf("while a pod terminates: %v", err)
		}
	}
	if err := p.Delete(t.Context(), p.pod); err != nil { // as Kubernetes does, since its ShadowPod is deleted
		t.Fatal(err)
	}
	if err := p.sync(t.Context(), p.tenant); err != nil {
		t.Fatal(err)
	}
	p.present(t, false, p.ends)
	p.present(t, true, p.data)
	report := &rbacv1.RoleBinding{}
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: offloadingv1beta1.DrainedRoleBinding}, report); err != nil {
		t.Fatalf("the consumer can't recognize the drain: %v", err)
	}
	if report.RoleRef.Name != offloadingv1beta1.DrainedClusterRole || len(report.Subjects) != 1 || report.Subjects[0].Name != "rome" || !inRemoteNamespace(report, "liqo-tenant-rome") {
		t.Errorf("the report of the drain: %+v", report)
	}

	if err := p.endReport(t.Context(), p.tenant); err != nil {
		t.Fatal(err)
	}
	p.present(t, false, []client.Object{report})
}

// TestADrainDoesNotDependOnWhoPeered: a peering that a peering user made has its network by a NetworkRequest, and the user keeps its own rights. The drain ends the same
// objects as where an administrator made the peering, reports itself in the same way, and leaves the network.
func TestADrainDoesNotDependOnWhoPeered(t *testing.T) {
	writer := peering.PeeringUserPrefix + "rome-tenant-ns-writer"
	for who, peered := range map[string]func(*providerOfRome) []client.Object{
		"an administrator": func(p *providerOfRome) []client.Object {
			p.data = slices.DeleteFunc(p.data, func(o client.Object) bool {
				_, request := o.(*networkingv1beta1.NetworkRequest)
				return request
			})
			return []client.Object{
				&networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: "rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}}},
				&networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: "rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}}},
			}
		},
		"a peering user": func(p *providerOfRome) []client.Object {
			negotiated := map[string]string{api.LabelRemoteClusterID: "rome", networkingv1beta1.LabelNegotiated: api.True}
			return []client.Object{
				&networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: "rome", Labels: negotiated}},
				&networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: "rome", Labels: negotiated}},
				&rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant.Namespace, Name: writer},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: peering.RolePeeringUser},
				},
			}
		},
	} {
		t.Run(who, func(t *testing.T) {
			p := newProviderOfRome(authv1beta1.TenantDrained)
			for _, o := range peered(p) {
				if err := p.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				p.data = append(p.data, o)
			}
			if err := p.sync(t.Context(), p.tenant); !kube.IsWait(err) {
				t.Fatalf("while a pod terminates: %v", err)
			}
			p.present(t, false, p.ends)
			p.present(t, true, append(slices.Clone(p.data), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: offloadingv1beta1.DrainedRoleBinding}}))
			if err := p.Delete(t.Context(), p.pod); err != nil {
				t.Fatal(err)
			}
			if err := p.sync(t.Context(), p.tenant); err != nil {
				t.Fatal(err)
			}
			p.present(t, true, p.data)
		})
	}
}

// TestAReportOfADrainEndsWithTheTenant: nothing would delete the report if a remote namespace stays after its Tenant.
func TestAReportOfADrainEndsWithTheTenant(t *testing.T) {
	p := newProviderOfRome(authv1beta1.TenantDrained)
	if err := p.sync(t.Context(), p.tenant); !kube.IsWait(err) {
		t.Fatalf("while a pod terminates: %v", err)
	}
	report := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: offloadingv1beta1.DrainedRoleBinding}}
	p.present(t, true, []client.Object{report})
	p.tenant.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for range 2 {
		if err := p.suspend(t.Context(), p.tenant); !kube.IsWait(err) {
			t.Fatalf("while a pod terminates: %v", err)
		}
		p.present(t, false, []client.Object{report})
	}
}

// TestADeletedTenantKeepsTheData: the deletion of a Tenant ends its access and its pods. It waits, and names the claims, as long as the remote namespaces have
// some. It completes when the claims are deleted, or when the annotation of the Tenant abandons the data. Ephemeral claims do not hold it.
func TestADeletedTenantKeepsTheData(t *testing.T) {
	for name, decide := range map[string]func(p *providerOfRome) error{
		"the claim is deleted": func(p *providerOfRome) error { return p.Delete(t.Context(), p.data[1]) },
		"the data is abandoned": func(p *providerOfRome) error {
			p.tenant.Annotations = map[string]string{api.AnnotationDeleteVolumes: api.True}
			return p.Update(t.Context(), p.tenant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProviderOfRome(authv1beta1.TenantActive)
			controller := true
			ephemeral := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "of-an-administrator-scratch", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "of-an-administrator", UID: "2", Controller: &controller, BlockOwnerDeletion: &controller},
			}}}
			for _, err := range []error{p.Create(t.Context(), ephemeral), p.Delete(t.Context(), p.pod)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			p.tenant.Finalizers = []string{peering.FinalizerTenant}
			if err := p.Update(t.Context(), p.tenant); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(t.Context(), p.tenant); err != nil {
				t.Fatal(err)
			}
			if err := p.Get(t.Context(), client.ObjectKeyFromObject(p.tenant), p.tenant); err != nil {
				t.Fatal(err)
			}
			var err error
			for range 4 {
				err = p.end(t.Context(), p.tenant)
			}
			if !kube.IsWait(err) || !strings.Contains(err.Error(), "PersistentVolumeClaim shop-rome/data-db-0") || strings.Contains(err.Error(), "scratch") ||
				!strings.Contains(err.Error(), "kubectl annotate tenant rome --namespace liqo-tenant-rome liqo.io/delete-volumes=true") {
				t.Fatalf("with a claim: %v", err)
			}
			p.present(t, false, p.ends)
			p.present(t, true, p.data)
			if err := decide(p); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				err = p.end(t.Context(), p.tenant)
			}
			if err != nil {
				t.Fatal(err)
			}
			p.present(t, false, []client.Object{p.data[0], p.data[3], p.data[4], p.data[5]}) // namespace, map, request for the network, gateway
		})
	}
}

// TestADeletedTenantKeepsCopiesOfRemoteNamespaces: a copy of a remote namespace, with all its annotations, is no remote namespace: it neither holds the Tenant nor
// ends with it.
func TestADeletedTenantKeepsCopiesOfRemoteNamespaces(t *testing.T) {
	p := newProviderOfRome(authv1beta1.TenantActive)
	remote := p.data[0].(*corev1.Namespace)
	p.present(t, true, []client.Object{remote})
	remote.Annotations[offloadingv1beta1.AnnotationRemoteNamespaceName] = remote.Name
	backup := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-backup", Labels: remote.Labels, Annotations: remote.Annotations}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-backup", Name: "data"}}
	p.tenant.Finalizers = []string{peering.FinalizerTenant}
	for _, err := range []error{
		p.Update(t.Context(), remote), p.Create(t.Context(), backup), p.Create(t.Context(), claim), p.Delete(t.Context(), p.pod), p.Delete(t.Context(), p.data[1]),
		p.Update(t.Context(), p.tenant), p.Delete(t.Context(), p.tenant), p.Get(t.Context(), client.ObjectKeyFromObject(p.tenant), p.tenant),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for range 6 {
		err = p.end(t.Context(), p.tenant)
	}
	if err != nil {
		t.Error(err)
	}
	p.present(t, false, []client.Object{remote})
	p.present(t, true, []client.Object{backup, claim})
}

// TestADeletedTenantConfirmsEachDeletion: after the copies of a consumer are deleted, its remote namespaces end one by one. Each stays if it has got a claim since, if
// the permission to delete data was withdrawn, if its mark was removed, or if the Tenant is another one.
func TestADeletedTenantConfirmsEachDeletion(t *testing.T) {
	abandoned := map[string]string{api.AnnotationDeleteVolumes: api.True}
	for name, c := range map[string]struct {
		abandoned bool
		meanwhile func(t *testing.T, p *providerOfRome) error
		deleted   bool
	}{
		"nothing has changed": {meanwhile: func(*testing.T, *providerOfRome) error { return nil }, deleted: true},
		"a claim is new": {meanwhile: func(t *testing.T, p *providerOfRome) error {
			return p.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "new"}})
		}},
		"the permission is withdrawn": {abandoned: true, meanwhile: func(t *testing.T, p *providerOfRome) error {
			live := p.tenant.DeepCopy()
			live.Annotations = nil
			return p.Update(t.Context(), live)
		}},
		"the mark is removed": {abandoned: true, meanwhile: func(t *testing.T, p *providerOfRome) error {
			remote := &corev1.Namespace{}
			if err := p.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, remote); err != nil {
				return err
			}
			remote.Annotations = nil
			return p.Update(t.Context(), remote)
		}},
		"the Tenant is another one": {abandoned: true, meanwhile: func(t *testing.T, p *providerOfRome) error {
			live := p.tenant.DeepCopy()
			live.Finalizers = nil
			fresh := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name, UID: "2"}, Spec: live.Spec}
			return errors.Join(p.Update(t.Context(), live), p.Create(t.Context(), fresh))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProviderOfRome(authv1beta1.TenantActive)
			p.tenant.Finalizers = []string{peering.FinalizerTenant}
			if c.abandoned {
				p.tenant.Annotations = abandoned
			} else if err := p.Delete(t.Context(), p.data[1]); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{
				p.Delete(t.Context(), p.pod), p.Update(t.Context(), p.tenant), p.Delete(t.Context(), p.tenant),
				p.Get(t.Context(), client.ObjectKeyFromObject(p.tenant), p.tenant), p.Delete(t.Context(), p.data[3]), p.Delete(t.Context(), p.data[4]),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			for range 3 { // the access ends
				if err := p.suspend(t.Context(), p.tenant); err != nil && !kube.IsWait(err) {
					t.Fatal(err)
				}
			}
			p.client = interceptor.NewClient(p.Client.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, copies := list.(*offloadingv1beta1.NamespaceMapList); copies {
						if err := c.meanwhile(t, p); err != nil {
							t.Error(err)
						}
					}
					return inner.List(ctx, list, opts...)
				},
			})
			err := p.revoke(t.Context(), p.tenant)
			p.present(t, !c.deleted, []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}})
			if err == nil && name != "the mark is removed" { // which makes it a namespace of the provider
				t.Error("the Tenant ends")
			}
		})
	}
}
