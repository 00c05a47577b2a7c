package controllers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/apitest"
)

// as is a client with the very identity of a consumer's control plane: its user in these groups.
func (c *cluster) as(t *testing.T, consumer string, groups ...string) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(c.config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: consumer, Groups: append(groups, "system:authenticated")}
	return apitest.Client(t, cfg)
}

// hostile tries what a consumer with a client of its own could try in its tenant namespace. It runs while rome and milan are peered.
func hostile(t *testing.T, rome, milan *cluster) {
	t.Helper()
	hostileAs(t, rome, milan, milan.as(t, rome.id, peering.OrganizationControlPlane))
	// A user of AWS that an administrator maps to the user and not to the group.
	hostileAs(t, rome, milan, milan.as(t, rome.id))
}

func hostileAs(t *testing.T, rome, milan *cluster, attacker client.Client) {
	t.Helper()
	copyLabels := func() map[string]string {
		return map[string]string{
			api.LabelReplication: api.False, api.LabelReplicated: api.True, api.LabelOriginID: rome.id, api.LabelRemoteClusterID: rome.id,
		}
	}
	slice := func(name string, f func(*authv1beta1.ResourceSlice)) *authv1beta1.ResourceSlice {
		s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: copyLabels()}}
		if f != nil {
			f(s)
		}
		return s
	}
	// What milan itself asks of rome, as in a peering in both directions, lives in the same namespace.
	own := mapOf(milan, rome)
	own.Name = "milans-own"
	own.Labels[api.LabelRemoteID] = "elsewhere" // nobody replicates it
	milan.create(t, own)
	defer milan.delete(t, own)
	theirs := &offloadingv1beta1.NamespaceMap{ObjectMeta: milan.meta(rome, "milan")}

	create := func(o client.Object) error { return attacker.Create(t.Context(), o, client.DryRunAll) }
	patch := func(o client.Object, f func(client.Object)) error {
		if err := milan.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		f(o)
		return attacker.Patch(t.Context(), o, client.MergeFrom(before), client.DryRunAll)
	}
	want := map[string]bool{ // what is tried, and whether it may be
		"a copy":                                                 true,
		"a source that milan would pursue":                       false,
		"no labels":                                              false,
		"another cluster's copy":                                 false,
		"a slice that was never cordoned":                        false,
		"a finalizer to stay for ever":                           false,
		"changing its copy":                                      true,
		"changing what milan asks of rome":                       false,
		"taking over what milan asks":                            false,
		"deleting what milan asks of rome":                       false,
		"granting itself resources":                              false,
		"a quota":                                                false,
		"changing its Tenant":                                    false,
		"turning its copy into a source":                         false,
		"marking its copy as somebody else":                      false,
		"a second map of namespaces":                             false,
		"deleting its copy":                                      true,
		"deleting its copy, and keeping what was granted for it": false,
		"deleting its copy, and keeping what was granted, by the old option": false,
		"keeping what was granted, by a finalizer":                           false,
	}
	try := func() map[string]bool {
		got := map[string]bool{}
		for what, err := range map[string]error{
			"a copy": create(slice("a", nil)),
			"a source that milan would pursue": create(slice("a", func(s *authv1beta1.ResourceSlice) {
				s.Labels = map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: rome.id, api.LabelRemoteClusterID: rome.id}
			})),
			"no labels":              create(slice("a", func(s *authv1beta1.ResourceSlice) { s.Labels = nil })),
			"another cluster's copy": create(slice("a", func(s *authv1beta1.ResourceSlice) { s.Labels[api.LabelOriginID] = "paris" })),
			"a slice that was never cordoned": create(slice("a", func(s *authv1beta1.ResourceSlice) {
				s.Annotations = map[string]string{authv1beta1.AnnotationCordon: "false"}
			})),
			"a finalizer to stay for ever": create(slice("a", func(s *authv1beta1.ResourceSlice) { s.Finalizers = []string{"rome.example/stay"} })),
			"changing its copy":            patch(theirs, func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }),
			"changing what milan asks of rome": patch(own, func(o client.Object) {
				o.(*offloadingv1beta1.NamespaceMap).Spec.DesiredMapping = map[string]string{"a": "b"}
			}),
			"taking over what milan asks":      patch(own, func(o client.Object) { o.SetLabels(copyLabels()) }),
			"deleting what milan asks of rome": attacker.Delete(t.Context(), own, client.DryRunAll),
			"granting itself resources": func() error {
				s := &authv1beta1.ResourceSlice{ObjectMeta: milan.meta(rome, "milan")}
				s.Status.Resources = resources("cpu", "1000")
				return attacker.Status().Patch(t.Context(), s, client.Merge, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{"All"}}})
			}(),
			"a quota": create(&offloadingv1beta1.Quota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "a"}, Spec: offloadingv1beta1.QuotaSpec{User: "a", Resources: resources("cpu", "1000")},
			}),
			"changing its Tenant": patch(&authv1beta1.Tenant{ObjectMeta: milan.meta(rome, rome.id)}, func(o client.Object) {
				o.(*authv1beta1.Tenant).Spec.AuthzPolicy = authv1beta1.TolerateNoHandshake
			}),
			"turning its copy into a source": patch(theirs, func(o client.Object) {
				o.GetLabels()[api.LabelReplication], o.GetLabels()[api.LabelRemoteID] = api.True, "paris"
			}),
			"a second map of namespaces": create(&offloadingv1beta1.NamespaceMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "more", Labels: copyLabels()},
			}),
			"deleting its copy": attacker.Delete(t.Context(), theirs, client.DryRunAll),
			"deleting its copy, and keeping what was granted for it": attacker.Delete(t.Context(), theirs, client.DryRunAll,
				client.PropagationPolicy(metav1.DeletePropagationOrphan)),
			"deleting its copy, and keeping what was granted, by the old option": attacker.Delete(t.Context(), theirs, client.DryRunAll,
				&client.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: new(true)}}), //nolint:staticcheck // API servers still obey it
			"keeping what was granted, by a finalizer": patch(theirs, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerOrphanDependents)) }),
			"marking its copy as somebody else":        patch(theirs, func(o client.Object) { o.GetLabels()[api.LabelRemoteClusterID] = "paris" }),
		} {
			if err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
			got[what] = err == nil
		}
		return got
	}
	// The API server takes a moment to follow a new policy.
	apitest.Eventually(t, within, "a consumer may do what it should, and nothing else", func() error {
		if diff := cmp.Diff(want, try()); diff != "" {
			return fmt.Errorf("allowed (-want +got):\n%s", diff)
		}
		return nil
	})
}
