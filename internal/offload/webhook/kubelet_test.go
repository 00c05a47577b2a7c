package webhook

import (
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kubelet"
	"liqo.io/liqo/test/apitest"
)

// TestKubeletPolicyOnAPIServer tries, with the account and permissions of a virtual kubelet, to write objects that belong to others.
func TestKubeletPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	create := func(c client.Client, objs ...client.Object) {
		t.Helper()
		for _, obj := range objs {
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	const tenant = "liqo-tenant-milan"
	namespace(t, admin, tenant, nil)
	bind := func(name, role string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tenant, Name: name}},
		}
	}
	ref, subjects := kubelet.Rights(&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}})
	create(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, RoleRef: ref, Subjects: subjects}, bind("operator", "cluster-admin"),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}},
		bind("agent", "agent"))
	as := func(name string) client.Client {
		account := rest.CopyConfig(config)
		account.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + tenant + ":" + name, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + tenant, "system:authenticated"},
		}
		return apitest.Client(t, account)
	}
	virtual, operator, agent := as("milan"), as("operator"), as("agent")
	node := func(name, kind string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelType: kind}}}
	}
	pod := func(name, on string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}
	}
	own, other, real := node("milan", api.TypeVirtualNode), node("turin", api.TypeVirtualNode), node("worker", "")
	here, there := pod("here", "milan"), pod("there", "worker")
	create(admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}, other, real, here, there)
	lease := func(namespace, name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	namespace(t, admin, "elsewhere", nil)
	namespaceLeases := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-node-lease"}}
	if err := admin.Create(t.Context(), namespaceLeases); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	report := func(c client.Client, obj client.Object) error {
		return c.Status().Patch(t.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":""}}`)))
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := report(virtual, other); err == nil || !strings.Contains(err.Error(), "its own virtual Node") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	create(virtual, own)
	for _, row := range []struct {
		what string
		err  error
		says string
	}{
		{"its status", report(virtual, own), ""},
		{"another one's status", report(virtual, other), "its own virtual Node milan and no other"},
		{"a real node's status", report(virtual, real), "its own virtual Node milan and no other"},
		{"another node", virtual.Create(t.Context(), node("lure", api.TypeVirtualNode)), "its own virtual Node milan and no other"},
		{"a node that is none of ours any more", virtual.Patch(t.Context(), own.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"liqo.io/type":null}}}`))), "its own virtual Node milan"},
		{"the status of its pod", report(virtual, here), ""},
		{"the status of another pod", report(virtual, there), "pods of its own Node milan and no others"},
		{"another pod", virtual.Delete(t.Context(), there), "pods of its own Node milan and no others"},
		{"its pod", virtual.Delete(t.Context(), here), ""},
		{"its lease", virtual.Create(t.Context(), lease("kube-node-lease", "milan")), ""},
		{"another one's lease", virtual.Create(t.Context(), lease("kube-node-lease", "worker")), "the Lease of its own Node milan"},
		{"its elections", virtual.Create(t.Context(), lease(tenant, "any")), ""},
		{"elections of others", virtual.Create(t.Context(), lease("elsewhere", "any")), "the Lease of its own Node milan"},
		{"an administrator's account", report(operator, real), ""},
		{"an agent of somebody else's", report(agent, real), ""},
	} {
		if (row.says == "") != (row.err == nil) || row.err != nil && !strings.Contains(row.err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.what, row.err, row.says)
		}
	}
}
