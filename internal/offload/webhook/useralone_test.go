package webhook

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

// TestUsersOfConsumersWithoutTheirGroupOnAPIServer: an administrator granted permissions to users of a consumer, and not to its group. A
// ServiceAccount that impersonates such a user can omit the group. The policies apply to it nevertheless, and they do not apply to other users of the
// provider.
func TestUsersOfConsumersWithoutTheirGroupOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	namespace(t, admin, "liqo", nil)
	strict := values()
	strict["offloading"] = map[string]any{"ingressPolicy": map[string]any{"hosts": []any{"shop.example"}}}
	for _, object := range chart(t, strict, "ConfigMap", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
	offload.MarkNamespace(&remote.ObjectMeta, &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}, "rome", offload.NamespacePair{Local: "shop"})
	control, kubelet := peering.ControlPlaneSubject("rome"), peering.ResourceSliceSubject("pool", "rome")
	users := map[string]bool{ // whether the policies hold for the user
		control.User: true, peering.TokenSubject(control).User: true, kubelet.User: true, "ada": false, peering.ResourceSliceSubject("pool", "turin").User: false,
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: remote.Name, Name: "all"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "policy", "networking.k8s.io"}, Verbs: []string{"create", "delete"},
		Resources: []string{"services", "configmaps", "persistentvolumeclaims", "ingresses", "poddisruptionbudgets"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: remote.Name, Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	for user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	for _, object := range []client.Object{remote, role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	meta := func(change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: remote.Name, Name: "x", Labels: map[string]string{api.LabelOrigin: "rome"}}
		if change != nil {
			change(&m)
		}
		return m
	}
	ports, class, one, prefix := []corev1.ServicePort{{Port: 80}}, "manual", intstr.FromInt32(1), networkingv1.PathTypePrefix
	refused := map[string]client.Object{
		"belongs to cluster 'rome'":       &corev1.ConfigMap{ObjectMeta: meta(func(m *metav1.ObjectMeta) { m.Labels[api.LabelOrigin] = "turin" })},
		"metadata.finalizers are refused": &corev1.ConfigMap{ObjectMeta: meta(func(m *metav1.ObjectMeta) { m.Finalizers = []string{"example.org/never"} })},
		"spec.externalIPs are refused":    &corev1.Service{ObjectMeta: meta(nil), Spec: corev1.ServiceSpec{Ports: ports, ExternalIPs: []string{"203.0.113.9"}}},
		"only spec.minAvailable":          &policyv1.PodDisruptionBudget{ObjectMeta: meta(nil), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}},
		"external-dns.alpha.kubernetes.io": &corev1.ConfigMap{ObjectMeta: meta(func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "x"}
		})},
		"bank.example": &networkingv1.Ingress{ObjectMeta: meta(nil), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: "bank.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				PathType: &prefix, Path: "/", Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}}},
		}}}},
		"spec.storageClassName 'manual' is refused": &corev1.PersistentVolumeClaim{ObjectMeta: meta(nil), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}
	for user, held := range users {
		alone := rest.CopyConfig(config)
		alone.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		c := apitest.Client(t, alone)
		for says, object := range refused {
			apitest.Eventually(t, within, user+": "+says, func() error { // the API server takes a moment to follow a new policy
				err := c.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
				if held != (err != nil) || err != nil && !strings.Contains(err.Error(), says) {
					return errors.Join(errors.New("the answer is another one"), err)
				}
				return nil
			})
		}
		if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta(nil)}, client.DryRunAll); err != nil {
			t.Errorf("%s creates what consumers may: %v", user, err)
		}
	}
}
