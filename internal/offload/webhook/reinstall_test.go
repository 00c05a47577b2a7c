package webhook

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/test/apitest"
)

// TestReinstalledPoliciesAdmitClaimsOnAPIServer deletes and recreates what the chart has for claims of consumers, on one API server. An API server stops the
// informer of a built-in parameter kind with the last policy that uses it, and does not start that informer again: policies of that kind then deny everything.
func TestReinstalledPoliciesAdmitClaimsOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	namespace(t, admin, "liqo", nil)
	namespace(t, admin, "shop-rome", map[string]string{api.LabelRemoteClusterID: "rome"})
	ref, subjects := offload.RemoteNamespaceRights("rome")
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "rights"}, RoleRef: ref, Subjects: subjects}
	if err := admin.Create(t.Context(), rights); err != nil {
		t.Fatal(err)
	}
	vals := values()
	vals["offloading"] = map[string]any{"podPolicy": map[string]any{"storageClasses": []any{"fast"}}}
	each := func(do func(*unstructured.Unstructured) error, kinds ...string) {
		t.Helper()
		for _, object := range chart(t, vals, kinds...) {
			if err := do(object); err != nil {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
	create := func(object *unstructured.Unstructured) error { return admin.Create(t.Context(), object) }
	each(create, "ClusterRole")
	consumer := rest.CopyConfig(config)
	consumer.Impersonate = rest.ImpersonationConfig{UserName: "pool-0a1b2c3d4e5f", Groups: []string{"rome", "system:authenticated"}}
	rome := apitest.Client(t, consumer)
	claim := func(class string) error {
		return rome.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "data", Labels: map[string]string{api.LabelOrigin: "rome"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, client.DryRunAll)
	}
	policies := []string{"ConfigMap", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	for _, round := range []string{"installation", "reinstallation"} {
		each(create, policies...)
		apitest.Eventually(t, within, round+": a claim of an accepted class to be admitted, and of no other", func() error {
			if claim("manual") == nil {
				return errors.New("class manual is admitted: the policies are not in force")
			}
			return claim("fast")
		})
		each(func(object *unstructured.Unstructured) error { return admin.Delete(t.Context(), object) }, policies...)
		apitest.Eventually(t, within, "no policy to be in force", func() error { return claim("manual") })
	}
}
