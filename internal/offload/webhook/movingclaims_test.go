package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/apitest"
)

// TestMovingClaimsOnAPIServer: while a namespace names a claim that is being moved, the API server refuses a claim of this name to the controller of StatefulSets
// and to everyone else, and permits the one that waits for the data. Users of the namespace, even those who may write it, write no mark of a move.
func TestMovingClaimsOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	for _, name := range []string{"liqo", "shop", "other"} {
		namespace(t, admin, name, nil)
	}
	for _, object := range chart(t, values(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if object.GetName() != storage.PolicyMovingClaims {
			continue
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	as := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
		return apitest.Client(t, config)
	}
	sets, binder, tenant := as("system:serviceaccount:kube-system:statefulset-controller"), as("system:serviceaccount:kube-system:persistent-volume-binder"), as("alice")
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "persistentvolumeclaims/status", "namespaces", "namespaces/status"}, Verbs: []string{"*"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenant"}},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(in, name, mark, volume string) *corev1.PersistentVolumeClaim {
		class := "liqo"
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, VolumeName: volume, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		if mark != "" {
			c.Annotations = map[string]string{storage.AnnotationMove: mark}
		}
		return c
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	record := func(text string) client.Patch {
		return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, storage.AnnotationMovingClaims, text))
	}
	const moves = `"data-db-0=pvc-u1/milan,old=pvc-u9/naples"`
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := tenant.Patch(t.Context(), shop.DeepCopy(), record(moves), client.DryRunAll); err == nil {
			return errors.New("not yet")
		}
		if err := admin.Patch(t.Context(), shop.DeepCopy(), record(moves)); err != nil {
			return err
		}
		if err := sets.Create(t.Context(), claim("shop", "data-db-0", "", ""), client.DryRunAll); err == nil {
			return errors.New("not yet")
		}
		return nil
	})
	refused := "no other claim of this name may be created now: its data is being moved by liqoctl move volume, and is kept in PersistentVolume pvc-u1. Continue the move: " +
		"liqoctl move volume data-db-0 --namespace shop --target-node milan; or cancel it"
	for what, row := range map[string]struct {
		user  client.Client
		claim *corev1.PersistentVolumeClaim
		says  string
	}{
		"a StatefulSet":                       {sets, claim("shop", "data-db-0", "", ""), refused},
		"a StatefulSet, another moving claim": {sets, claim("shop", "old", "", ""), "kept in PersistentVolume pvc-u9"},
		"a StatefulSet, its next claim":       {sets, claim("shop", "data-db-1", "", ""), ""},
		"a StatefulSet in another namespace":  {sets, claim("other", "data-db-0", "", ""), ""},
		"a user of the namespace":             {tenant, claim("shop", "data-db-0", "", ""), refused},
		"a user with the mark":                {tenant, claim("shop", "data-db-0", "pvc-u1", ""), refused},
		"a user with another volume":          {tenant, claim("shop", "data-db-0", "", "pvc-u9"), refused},
		"a user with the volume":              {tenant, claim("shop", "data-db-0", "", "pvc-u1"), ""},
		"an administrator":                    {admin, claim("shop", "data-db-0", "", ""), refused},
		"an administrator with an older mark": {admin, claim("shop", "data-db-0", "pvc-u0", ""), refused},
		"a name that begins in the same way":  {tenant, claim("shop", "data-db-00", "", ""), ""},
		"the move":                            {admin, claim("shop", "data-db-0", "pvc-u1", ""), ""},
	} {
		err := row.user.Create(t.Context(), row.claim, client.DryRunAll)
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", what, err, row.says)
		}
	}
	held := claim("shop", "data-db-0", "pvc-u1", "")
	if err := admin.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	// The claim exists, and the dry run says whether others may create it, all the same.
	if err := admin.Create(t.Context(), claim("shop", "data-db-0", "", ""), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'liqo-moving-claims'") {
		t.Errorf("a dry run beside the claim: %v", err)
	}
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	const stay = "annotation storage.liqo.io/move and spec.volumeName of this claim stay as they are now"
	for _, row := range []struct {
		what   string
		user   client.Client
		object client.Object
		patch  client.Patch
		says   string
	}{
		{"a user removes the mark", tenant, held, merge(`{"metadata":{"annotations":{"storage.liqo.io/move":null}}}`), stay},
		{"a user asks for a larger copy than the quota counts", tenant, held, merge(`{"metadata":{"annotations":{"storage.liqo.io/move-capacity":"9Ti"}}}`),
			"annotation storage.liqo.io/move-capacity of a claim is written by users who may update PersistentVolumes"},
		{"the move asks for a volume of the old size", admin, held, merge(`{"metadata":{"annotations":{"storage.liqo.io/move-capacity":"5Gi"}}}`), ""},
		{"a user names another volume", tenant, held, merge(`{"spec":{"volumeName":"mine"}}`), stay},
		{"a user writes a label", tenant, held, merge(`{"metadata":{"labels":{"a":"b"}}}`), ""},
		{"a user writes an annotation of the namespace", tenant, shop, merge(`{"metadata":{"annotations":{"a":"b"}}}`), ""},
		{"a user removes the record", tenant, shop, record("null"), "is written by users who may update PersistentVolumes"},
		{"a user records a move", tenant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, record(`"x=pvc-u1/n1"`), "is written by users who may update"},
		{"a user records a claim as replaced", tenant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
			merge(`{"metadata":{"annotations":{"storage.liqo.io/replaced-claims":"x=1"}}}`), "is written by users who may update"},
		{"the binder names the volume", binder, held, nil, ""},
		{"the move permits pods to use the claim", admin, held, merge(`{"metadata":{"annotations":{"storage.liqo.io/move":null}}}`), ""},
		{"the move ends", admin, shop, record("null"), ""},
	} {
		object := row.object.DeepCopyObject().(client.Object)
		var err error
		if bound, ok := object.(*corev1.PersistentVolumeClaim); ok && row.patch == nil {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(bound), bound); err != nil {
				t.Fatal(err)
			}
			bound.Spec.VolumeName = "pvc-u2"
			err = row.user.Update(t.Context(), bound)
		} else {
			err = row.user.Patch(t.Context(), object, row.patch)
		}
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.what, err, row.says)
		}
	}
	status := tenant.Status().Patch(t.Context(), shop.DeepCopy(), record(moves))
	if status == nil || !strings.Contains(status.Error(), "is written by users who may update PersistentVolumes") {
		t.Errorf("a user records a move together with the status of the namespace: %v", status)
	}
	apitest.Eventually(t, within, "all claims to be permitted again", func() error {
		return sets.Create(t.Context(), claim("shop", "old", "", ""), client.DryRunAll)
	})
}
