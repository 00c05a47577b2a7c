package controllers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/network/gatewaypod"
	"liqo.io/liqo/test/apitest"
)

func checkEvent(t *testing.T, c *cluster, about client.Object, reason string) {
	t.Helper()
	apitest.Eventually(t, within, "event "+reason, func() error {
		list := &eventsv1.EventList{}
		if err := c.List(t.Context(), list, client.InNamespace(about.GetNamespace())); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.UID == about.GetUID() && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%d events, none with it", len(list.Items))
	})
}

// checkChildren checks all objects that were created for a gateway.
func checkChildren(t *testing.T, c *cluster, gw client.Object, id string, served bool) {
	t.Helper()
	children := []client.Object{
		&corev1.Secret{ObjectMeta: child(id)}, &corev1.ServiceAccount{ObjectMeta: child(id)}, &rbacv1.Role{ObjectMeta: child(id)},
		&rbacv1.RoleBinding{ObjectMeta: child(id)}, &appsv1.Deployment{ObjectMeta: child(id)}, &networkingv1beta1.Connection{ObjectMeta: child(id)},
	}
	if served {
		children = append(children, &corev1.Service{ObjectMeta: child(id)})
	}
	for _, o := range children {
		eventually(t, c, o, "there", func(client.Object) bool { return true })
		labels := o.GetLabels()
		if !metav1.IsControlledBy(o, gw) || labels[networkingv1beta1.LabelGatewayName] != id || labels[api.LabelRemoteClusterID] != id ||
			labels[networkingv1beta1.LabelGatewayNamespace] != gw.GetNamespace() || labels[api.LabelManaged] != api.True {
			t.Errorf("%T %s: labels %v, owners %v", o, o.GetName(), labels, o.GetOwnerReferences())
		}
	}
	secret := children[0].(*corev1.Secret)
	if err := network.CheckKeys(secret.Data); err != nil || secret.Labels[networkingv1beta1.LabelGatewayResource] != api.True {
		t.Errorf("keys %v, labels %v", err, secret.Labels)
	}
	wide := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "liqo-gateway-" + gw.GetNamespace() + "-" + id}, wide); err != nil {
		t.Fatal(err)
	}
	if wide.RoleRef.Name != gatewaypod.ClusterRole || wide.Subjects[0].Name != "gw-"+id {
		t.Errorf("ClusterRoleBinding %+v", wide)
	}
}

// checkRights asks the API server what a gateway may do.
func checkRights(t *testing.T, c *cluster, id string) {
	t.Helper()
	type right struct{ namespace, verb, group, resource, sub, name string }
	own := api.TenantNamespace(id)
	for r, want := range map[right]bool{
		{own, "watch", "", "secrets", "", "gw-" + id}:                               true,
		{own, "get", "", "secrets", "", "another"}:                                  false,
		{own, "list", "", "secrets", "", ""}:                                        false,
		{own, "patch", "networking.liqo.io", "connections", "status", "gw-" + id}:   true,
		{own, "patch", "networking.liqo.io", "connections", "status", "gw-another"}: false,
		{own, "patch", "networking.liqo.io", "connections", "", "gw-" + id}:         false,
		{own, "patch", "networking.liqo.io", "configurations", "", id}:              false,
		{own, "create", "networking.liqo.io", "publickeies", "", ""}:                false,
		{own, "patch", "", "pods", "", ""}:                                          true,
		{own, "create", "", "pods", "", ""}:                                         false,
		{home, "patch", "", "pods", "", ""}:                                         false,
		{"", "watch", "", "pods", "", ""}:                                           true,
		{"", "watch", "", "nodes", "", ""}:                                          true,
		{"", "watch", "networking.liqo.io", "publickeies", "", ""}:                  true,
		{"", "watch", "ipam.liqo.io", "networks", "", ""}:                           true,
		{home, "get", "", "secrets", "", "authentication-keys"}:                     false,
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + own + ":gw-" + id, Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.sub, Name: r.name,
			},
		}}
		apitest.Eventually(t, within, fmt.Sprintf("the right %+v to be %t", r, want), func() error {
			again := review.DeepCopy()
			if err := c.Create(t.Context(), again); err != nil {
				return err
			}
			if again.Status.Allowed != want {
				return fmt.Errorf("it is %t", again.Status.Allowed)
			}
			return nil
		})
	}
}

// checkPodPolicy: a gateway may label its own pods and change nothing else of them, and must not change other pods.
func checkPodPolicy(t *testing.T, c *cluster, gw client.Object, own string) {
	t.Helper()
	neighbour := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: gw.GetNamespace(), Name: "virtual-kubelet"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "x"}}},
	}
	c.create(t, neighbour)
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + gw.GetNamespace() + ":gw-" + gw.GetName(), Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	gateway := apitest.Client(t, as)
	mark := func(value any) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{networkingv1beta1.LabelActive: value}}}
	}
	image := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "gateway", "image": "evil"}}}}
	for _, step := range []struct {
		pod    string
		patch  map[string]any
		refuse string
	}{
		{"virtual-kubelet", mark("true"), "does not belong to the gateway"},
		{own, image, "may change nothing of its pods but"},
		{own, map[string]any{"metadata": map[string]any{"labels": map[string]any{networkingv1beta1.LabelGatewayName: nil}}}, "may change nothing"},
		{own, map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "victim"}}}, "may change nothing"},
		{own, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, "may change nothing"},
		{own, mark(nil), ""},
		{own, mark("true"), ""},
	} {
		text, err := json.Marshal(step.patch)
		if err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, within, fmt.Sprintf("the answer %q to %s of %s", step.refuse, text, step.pod), func() error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gw.GetNamespace(), Name: step.pod}}
			err := gateway.Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, text), client.DryRunAll)
			if (err == nil) != (step.refuse == "") || (err != nil && !strings.Contains(err.Error(), step.refuse)) {
				return fmt.Errorf("it is %w", err)
			}
			return nil
		})
	}
}
