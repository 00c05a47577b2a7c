package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/test/clitest"
)

// tenancy holds the objects of a consumer in a provider.
func tenancy(consumer string) []client.Object {
	namespace := "tenant-of-" + consumer
	copied := map[string]string{api.LabelReplicated: api.True, api.LabelReplication: api.False, api.LabelOriginID: consumer, api.LabelRemoteClusterID: consumer}
	quota := func(slice string) client.Object {
		user := peering.ResourceSliceSubject(slice, consumer).User
		return &offloadingv1beta1.Quota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user, Annotations: map[string]string{"slice": slice}},
			Spec:       offloadingv1beta1.QuotaSpec{User: user, Resources: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
		}
	}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: consumer}}},
		&authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: consumer, Labels: map[string]string{api.LabelRemoteClusterID: consumer}},
			Spec:       authv1beta1.TenantSpec{ClusterID: consumer},
		},
		&authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan", Labels: copied}},
		&authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpu", Labels: copied}},
		&authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ours", Labels: map[string]string{api.LabelRemoteID: consumer}}},
		quota("milan"), quota("gpu"),
	}
}

// controllers does to a tenancy what a controller manager does, until the test ends.
func controllers(t *testing.T, c client.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	pass := func() error {
		var tenants authv1beta1.TenantList
		var quotas offloadingv1beta1.QuotaList
		if err := c.List(ctx, &tenants); err != nil {
			return err
		}
		for i := range tenants.Items {
			tenant := &tenants.Items[i]
			// The Quotas follow in the next pass: who waits for the Tenant alone comes too early.
			if meta.SetStatusCondition(&tenant.Status.Conditions, metav1.Condition{
				Type: kube.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", ObservedGeneration: tenant.Generation,
			}) {
				if err := c.Status().Update(ctx, tenant); err != nil {
					return err
				}
				continue
			}
			if err := c.List(ctx, &quotas, client.InNamespace(tenant.Namespace)); err != nil {
				return err
			}
			for j := range quotas.Items {
				quota, slice := &quotas.Items[j], &authv1beta1.ResourceSlice{}
				if err := c.Get(ctx, client.ObjectKey{Namespace: quota.Namespace, Name: quota.Annotations["slice"]}, slice); err != nil {
					return err
				}
				cordoned := sharing.Cordoned(slice, tenant)
				quota.Spec.Cordoned = &cordoned
				if err := c.Update(ctx, quota); err != nil {
					return err
				}
			}
		}
		return nil
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = pass() // the next pass comes to what failed
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

// TestAdmissionOnAPIServer covers the commands by which a provider revokes what it granted: their errors, and that they return when it is done.
func TestAdmissionOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	clitest.Create(t, c, tenancy("turin")...)
	clitest.Create(t, c, tenancy("pisa")...)
	controllers(t, c)
	liqoctl := func(command string) (int, string) {
		code, out, errOut := run(t, append(strings.Fields(command), "--kubeconfig", kubeconfig, "--timeout", "20s")...)
		if out != "" {
			t.Errorf("%s prints %q", command, out)
		}
		return code, errOut
	}
	condition := func(want authv1beta1.TenantCondition) {
		t.Helper()
		var tenant authv1beta1.Tenant
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "tenant-of-turin", Name: "turin"}, &tenant); err != nil || tenant.Spec.TenantCondition != want {
			t.Errorf("turin is %s, want %s (%v)", tenant.Spec.TenantCondition, want, err)
		}
	}
	open := func(consumer, slice string, want bool) {
		t.Helper()
		var quota offloadingv1beta1.Quota
		key := client.ObjectKey{Namespace: "tenant-of-" + consumer, Name: peering.ResourceSliceSubject(slice, consumer).User}
		if err := c.Get(t.Context(), key, &quota); err != nil || quota.Spec.Cordoned == nil || *quota.Spec.Cordoned == want {
			t.Errorf("%s of %s lets pods in: %t, want %t (%v)", slice, consumer, !ptr.Deref(quota.Spec.Cordoned, false), want, err)
		}
	}
	steps := func(rows ...[3]string) {
		t.Helper()
		for _, row := range rows {
			code, errOut := liqoctl(row[0])
			if want := map[bool]int{true: 1, false: 0}[strings.HasPrefix(row[1], " ERRO")]; code != want || !strings.Contains(errOut, row[1]) {
				t.Errorf("%s: code %d, says %q, want %q", row[0], code, errOut, row[1])
			}
			if row[2] != "" {
				condition(authv1beta1.TenantCondition(row[2]))
			}
		}
	}
	steps(
		[3]string{"uncordon tenant turin", "WARN  Tenant turin is not uncordoned: it is Active already", "Active"},
		[3]string{"cordon tenant turin", " ERRO  not confirmed: nothing was changed", "Active"},
		[3]string{"cordon tenant turin --dry-run", "INFO  (dry run) Tenant turin in namespace tenant-of-turin would be changed: spec.tenantCondition", "Active"},
		[3]string{"cordon tenant turin --skip-confirm", "INFO  Tenant turin cordoned", "Cordoned"},
	)
	open("turin", "milan", false)
	open("turin", "gpu", false)
	steps(
		[3]string{"cordon tn turin --skip-confirm", "WARN  Tenant turin is not cordoned: it is Cordoned already", "Cordoned"},
		[3]string{"uncordon tenants turin", "INFO  Tenant turin uncordoned", "Active"},
		[3]string{"drain tenant turin --skip-confirm -n tenant-of-turin", "INFO  Tenant turin drained", "Drained"},
		[3]string{"cordon tenant turin --skip-confirm", "WARN  Tenant turin is not cordoned: it is Drained, but only a tenant that is Active can be cordoned", "Drained"},
		[3]string{"activate tenant turin", "INFO  Tenant turin activated", "Active"},
		[3]string{"drain tenant rome", " ERRO  there is no tenant rome in any namespace (known: pisa, turin)", ""},
		[3]string{"drain tenant turin -n tenant-of-pisa", " ERRO  there is no tenant turin in namespace tenant-of-pisa (known: pisa)", ""},
		[3]string{"cordon rs gpu --remote-cluster-id turin", " ERRO  not confirmed", ""},
		[3]string{"cordon rs gpu --remote-cluster-id turin --skip-confirm", "INFO  ResourceSlice gpu cordoned", "Active"},
	)
	open("turin", "gpu", false)
	open("turin", "milan", true)
	open("pisa", "gpu", true)
	steps([3]string{"cordon tenant turin --skip-confirm", "INFO  Tenant turin cordoned", "Cordoned"})
	open("turin", "milan", false)
	steps([3]string{"uncordon tenant turin", "INFO  Tenant turin uncordoned", "Active"})
	open("turin", "milan", true)
	open("turin", "gpu", false)
	steps(
		[3]string{"cordon resourceslice gpu --remote-cluster-id turin", "INFO  ResourceSlice gpu is cordoned already", ""},
		[3]string{"uncordon resourceslice gpu --remote-cluster-id turin", "INFO  ResourceSlice gpu uncordoned", ""},
	)
	open("turin", "gpu", true)
	steps(
		[3]string{"uncordon resourceslice gpu --remote-cluster-id turin", "INFO  ResourceSlice gpu is uncordoned already", ""},
		[3]string{"cordon rs cpu --remote-cluster-id turin", " ERRO  cluster turin has no ResourceSlice cpu in namespace tenant-of-turin (known: gpu, milan)", ""},
		[3]string{"cordon rs ours --remote-cluster-id turin", " ERRO  ResourceSlice ours in namespace tenant-of-turin is a request of this cluster to cluster turin: run the command on turin", ""},
		[3]string{"cordon rs gpu --remote-cluster-id paris", " ERRO  there is no tenant namespace for cluster paris", ""},
	)
	for typed, want := range map[string]string{
		"cordon tenant ": "pisa\nturin\n", "drain tenant p": "pisa\n", "cordon resourceslice --remote-cluster-id turin g": "gpu\n",
	} {
		words := strings.Split(typed, " ")
		_, out, _ := run(t, append([]string{"__complete", "--kubeconfig", kubeconfig}, words...)...)
		if got, _, _ := strings.Cut(out, ":"); got != want {
			t.Errorf("%q is completed to %q, want %q", typed, got, want)
		}
	}
}
