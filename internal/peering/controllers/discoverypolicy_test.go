package controllers

import (
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

const discoverer = "system:serviceaccount:" + api.Namespace + ":liqo-discovery"

// discoveryObject is the object of a kind that the chart has for discovery.
func discoveryObject[T client.Object](t *testing.T, kind string, into T) T {
	t.Helper()
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{"discovery": map[string]any{"config": map[string]any{"clusterID": "rome", "enableDiscovery": true}}}
	manifest, err := installer.Render(chart, api.Namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		head := &metav1.PartialObjectMetadata{}
		if err := yaml.Unmarshal([]byte(document), head); err != nil {
			t.Fatal(err)
		}
		if head.Kind == kind && head.Name == "liqo-discovery" {
			if err := yaml.Unmarshal([]byte(document), into); err != nil {
				t.Fatal(err)
			}
			return into
		}
	}
	t.Fatalf("the chart has no %s liqo-discovery", kind)
	return into
}

// TestDiscoveryPolicyOnAPIServer tries, as the program that reads multicast packets and with its rights, to decide about peerings.
func TestDiscoveryPolicyOnAPIServer(t *testing.T) {
	config := apitest.APIServer(t)
	admin := apitest.Client(t, config)
	role := discoveryObject(t, "ClusterRole", &rbacv1.ClusterRole{})
	for _, obj := range []client.Object{
		role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test"}, RoleRef: clusterRole(role.Name), Subjects: subjects(rbacv1.UserKind, discoverer),
		},
		discoveryObject(t, "ValidatingAdmissionPolicy", &admissionregistrationv1.ValidatingAdmissionPolicy{}),
		discoveryObject(t, "ValidatingAdmissionPolicyBinding", &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}),
	} {
		if err := admin.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	user := rest.CopyConfig(config)
	user.Impersonate = rest.ImpersonationConfig{UserName: discoverer, Groups: []string{"system:authenticated"}}
	agent := apitest.Client(t, user)
	cluster := func(name string, change func(*corev1beta1.ForeignCluster)) *corev1beta1.ForeignCluster {
		fc := &corev1beta1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1beta1.LabelDiscoveryType: corev1beta1.DiscoveredLAN}},
			Spec:       corev1beta1.ForeignClusterSpec{ClusterID: name, ForeignAuthURL: "https://198.51.100.7"},
		}
		if change != nil {
			change(fc)
		}
		return fc
	}
	yes := func(fc *corev1beta1.ForeignCluster) { fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes }
	no := func(fc *corev1beta1.ForeignCluster) { fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo }
	moved := func(fc *corev1beta1.ForeignCluster) { fc.Spec.ForeignAuthURL = "https://203.0.113.7" }
	manual := func(fc *corev1beta1.ForeignCluster) { fc.Labels = nil }
	held := func(fc *corev1beta1.ForeignCluster) { fc.Finalizers = []string{"rome.example/stay"} }
	proxied := func(fc *corev1beta1.ForeignCluster) { fc.Spec.ForeignProxyURL = "https://203.0.113.7" }
	// The garbage collector deletes an object whose owner does not exist.
	owned := func(fc *corev1beta1.ForeignCluster) {
		fc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "gone", UID: "00000000-0000-0000-0000-000000000001"}}
	}
	labelled := func(fc *corev1beta1.ForeignCluster) { fc.Labels["app.kubernetes.io/instance"] = "somebody" }
	lost := func(fc *corev1beta1.ForeignCluster) {
		fc.Annotations = map[string]string{peering.AnnotationUnreachable: api.True}
	}
	apitest.InForce(t, admin)
	apitest.Eventually(t, within, "the policy to be in force", func() error {
		if err := agent.Create(t.Context(), cluster("milan", yes), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "decides about no peering") {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	check := func(what string, err error, allowed bool) {
		t.Helper()
		if (err == nil) != allowed {
			t.Errorf("%s: %v", what, err)
		}
	}
	forbidden := map[string]func(*corev1beta1.ForeignCluster){
		"no label": manual, "a finalizer": held, "an annotation": lost, "an owner": owned, "another label": labelled, "a proxy": proxied,
	}
	check("creating with No", agent.Create(t.Context(), cluster("milan", no), client.DryRunAll), false)
	for what, change := range forbidden {
		check("creating with "+what, agent.Create(t.Context(), cluster("milan", change), client.DryRunAll), false)
	}
	check("creating a proposal", agent.Create(t.Context(), cluster("milan", nil)), true)
	check("creating one of an administrator", admin.Create(t.Context(), cluster("turin", manual)), true)
	check("creating one that is wanted", admin.Create(t.Context(), cluster("genoa", yes)), true)
	check("creating one that is not wanted", admin.Create(t.Context(), cluster("pisa", no)), true)
	check("creating one that was joined by policy", admin.Create(t.Context(), cluster("parma", held)), true)
	patch := func(name string, change func(*corev1beta1.ForeignCluster)) error {
		t.Helper()
		fc := &corev1beta1.ForeignCluster{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, fc); err != nil {
			t.Fatal(err)
		}
		before := fc.DeepCopy()
		change(fc)
		return agent.Patch(t.Context(), fc, client.MergeFrom(before))
	}
	check("a new address", patch("milan", moved), true)
	check("a new address of one that was joined by policy", patch("parma", moved), true)
	for what, change := range map[string]func(*corev1beta1.ForeignCluster){"Yes": yes, "No": no} {
		check("changing to "+what, patch("milan", change), false)
	}
	for what, change := range forbidden {
		check("changing to "+what, patch("milan", change), false)
		check("changing one that is wanted to "+what, patch("genoa", change), false)
	}
	for _, name := range []string{"genoa", "pisa"} {
		check("a new address of "+name, patch(name, moved), false)
		check("deleting "+name, agent.Delete(t.Context(), cluster(name, nil)), false)
	}
	check("deleting one that was joined by policy", agent.Delete(t.Context(), cluster("parma", nil)), false)
	check("ending one that is wanted", patch("genoa", no), false)
	check("the address of an administrator", patch("turin", moved), false)
	check("taking one of an administrator", patch("turin", func(fc *corev1beta1.ForeignCluster) {
		fc.Labels = map[string]string{corev1beta1.LabelDiscoveryType: corev1beta1.DiscoveredLAN}
	}), false)
	check("deleting one of an administrator", agent.Delete(t.Context(), cluster("turin", nil)), false)
	check("deleting a proposal", agent.Delete(t.Context(), cluster("milan", nil)), true)
}
