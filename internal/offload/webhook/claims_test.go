package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/test/apitest"
)

// TestClaimsOfConsumersOnAPIServer tries, with the groups and the rights of a consumer, which claims it may have in its remote namespaces.
func TestClaimsOfConsumersOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	remote := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop-rome", Labels: map[string]string{api.LabelRemoteClusterID: "rome"}, Annotations: map[string]string{storage.AnnotationDefaultClass: "standard"},
	}}
	if err := admin.Create(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	vals := values()
	vals["offloading"] = map[string]any{"podPolicy": map[string]any{"storageClasses": []any{"fast"}}}
	for _, object := range chart(t, vals, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	ref, subjects := offload.RemoteNamespaceRights("rome")
	twin := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "twin"}, RoleRef: ref, Subjects: subjects}
	if err := admin.Create(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	consumer := rest.CopyConfig(config)
	consumer.Impersonate = rest.ImpersonationConfig{UserName: "pool-0a1b2c3d4e5f", Groups: []string{"rome", "system:authenticated"}}
	rome := apitest.Client(t, consumer)

	made := 0
	type pvc = corev1.PersistentVolumeClaim
	claim := func(class string, change func(*pvc)) *pvc {
		made++
		c := &pvc{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop-rome", Name: fmt.Sprintf("data-%d", made), Labels: map[string]string{api.LabelOrigin: "rome", "storage.liqo.io/virtual-pvc-name": "data"},
				Annotations: map[string]string{"storage.liqo.io/virtual-pvc-uid": "u1"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		if change != nil {
			change(c)
		}
		return c
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		stray, right := claim("standard", func(c *pvc) { c.Labels = nil }), claim("standard", nil)
		if err := rome.Create(t.Context(), stray, client.DryRunAll); err == nil {
			return errors.New("not yet")
		}
		return rome.Create(t.Context(), right, client.DryRunAll)
	})
	for what, row := range map[string]struct {
		claim *pvc
		says  string
	}{
		"the default class": {claim("standard", nil), ""},
		"an accepted class": {claim("fast", nil), ""},
		"another class":     {claim("manual", nil), "spec.storageClassName 'manual' is refused by the provider"},
		"no class":          {claim("", nil), "spec.storageClassName '' is refused"},
		"another's origin":  {claim("standard", func(c *pvc) { c.Labels[api.LabelOrigin] = "turin" }), "is not of cluster 'rome'"},
		"a volume":          {claim("standard", func(c *pvc) { c.Spec.VolumeName = "pv-0" }), "spec.volumeName of a claim is refused"},
		"volumes by labels": {claim("standard", func(c *pvc) { c.Spec.Selector = &metav1.LabelSelector{} }), "spec.selector of a claim is refused"},
		"a finalizer":       {claim("standard", func(c *pvc) { c.Finalizers = []string{"example.org/never"} }), "metadata.finalizers and metadata.ownerReferences of a claim"},
		"an owner": {claim("standard", func(c *pvc) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "1"}}
		}), "metadata.finalizers and metadata.ownerReferences of a claim are refused"},
		"a node":                    {claim("standard", func(c *pvc) { c.Annotations["volume.kubernetes.io/selected-node"] = "n1" }), "volume.kubernetes.io/selected-node"},
		"a class of old":            {claim("standard", func(c *pvc) { c.Annotations[corev1.BetaStorageClassAnnotation] = "manual" }), corev1.BetaStorageClassAnnotation},
		"a label of others":         {claim("standard", func(c *pvc) { c.Labels["app.kubernetes.io/part-of"] = "x" }), "app.kubernetes.io/part-of"},
		"a mark of moves":           {claim("standard", func(c *pvc) { c.Annotations["storage.liqo.io/move"] = "pvc-1" }), "metadata storage.liqo.io/move of a claim is refused"},
		"a second volume":           {claim("standard", func(c *pvc) { c.Annotations["storage.liqo.io/move-ahead"] = "n1/u2" }), "storage.liqo.io/move-ahead"},
		"a mark of the provisioner": {claim("standard", func(c *pvc) { c.Annotations["storage.liqo.io/selected-node"] = "n1" }), "storage.liqo.io/selected-node"},
		"a label of moves":          {claim("standard", func(c *pvc) { c.Labels["storage.liqo.io/move"] = "u1" }), "metadata storage.liqo.io/move of a claim is refused"},
		"another label of Liqo":     {claim("standard", func(c *pvc) { c.Labels["offloading.liqo.io/managed-by"] = "x" }), "offloading.liqo.io/managed-by"},
		"all that is needed": {claim("standard", func(c *pvc) {
			c.Labels[api.LabelDestination], c.Labels[storage.LabelClaimNamespace], c.Labels[storage.LabelClaimName] = "milan", "shop", "data"
			c.Annotations[storage.LabelClaimName], c.Annotations[storage.AnnotationClaimUID], c.Annotations[storage.AnnotationRetained] = "data", "u1", "true"
		}), ""},
		"a copy of a claim": {claim("standard", func(c *pvc) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "old"}
		}), "spec.dataSource of a claim is refused"},
	} {
		err := rome.Create(t.Context(), row.claim)
		if (row.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", what, err, row.says)
		}
	}
	// Neither the consumer nor the policy affects claims of the provider itself.
	theirs := claim("manual", func(c *pvc) { c.Labels = nil })
	if err := admin.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if err := rome.Delete(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "is left alone") {
		t.Errorf("deleting a claim of the provider: %v", err)
	}
	own := claim("standard", nil)
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	annotate := func(key, value string) client.Patch {
		return merge(`{"metadata":{"annotations":{"` + key + `":` + value + `}}}`)
	}
	for _, err := range []error{
		rome.Create(t.Context(), own),
		rome.Patch(t.Context(), own, annotate("storage.liqo.io/retained", `"true"`)),
		admin.Patch(t.Context(), own, annotate("pv.kubernetes.io/bind-completed", `"yes"`)),
	} {
		if err != nil {
			t.Errorf("the life of a claim: %v", err)
		}
	}
	// A consumer can't grant itself a class by the annotation of its namespace.
	if err := rome.Patch(t.Context(), remote.DeepCopy(), annotate(storage.AnnotationDefaultClass, `"manual"`)); !apierrors.IsForbidden(err) {
		t.Errorf("a consumer changes the default class: %v", err)
	}
	// The API server follows the annotation.
	if err := admin.Patch(t.Context(), remote, annotate(storage.AnnotationDefaultClass, `""`)); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, within, "the former default class to be refused", func() error {
		if err := rome.Create(t.Context(), claim("standard", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the claim: %w", err)
		}
		return rome.Create(t.Context(), claim("fast", nil), client.DryRunAll)
	})
	// The fields that no claim may be created with can't be set later either, and marks of the provider stay.
	for what, row := range map[string]struct{ patch, says string }{
		"a volume":    {`{"spec":{"volumeName":"pv-0"}}`, "spec.volumeName of a claim is refused"},
		"a finalizer": {`{"metadata":{"finalizers":["example.org/never"]}}`, "metadata.finalizers and metadata.ownerReferences of a claim are refused"},
		"an owner": {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`,
			"metadata.ownerReferences of a claim are refused"},
		"another origin":           {`{"metadata":{"labels":{"offloading.liqo.io/origin":"turin"}}}`, "is not of cluster 'rome'"},
		"a node":                   {`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":""}}}`, "volume.kubernetes.io/selected-node"},
		"no mark of the provider":  {`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}`, "pv.kubernetes.io/bind-completed"},
		"a mark of moves":          {`{"metadata":{"annotations":{"storage.liqo.io/move":"pvc-1"}}}`, "storage.liqo.io/move of a claim is refused"},
		"a mark with another text": {`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"no"}}}`, "pv.kubernetes.io/bind-completed"},
	} {
		if err := rome.Patch(t.Context(), own.DeepCopy(), merge(row.patch)); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s later: %v, want %q", what, err, row.says)
		}
	}
	if err := rome.Delete(t.Context(), own); err != nil {
		t.Errorf("the end of a claim: %v", err)
	}
}
