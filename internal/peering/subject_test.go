package peering

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestNoConsumerTakesANameWithPermissions: a consumer must not have the ID of a user or group that has permissions in this cluster, because it would
// get them.
func TestNoConsumerTakesANameWithPermissions(t *testing.T) {
	bound := func(namespace, role, kind, name string) []Binding {
		return []Binding{{
			Namespace: namespace, Name: "b", RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{Kind: kind, Name: name}},
		}}
	}
	for name, row := range map[string]struct {
		bindings []Binding
		want     string
	}{
		"nothing is bound":                     {nil, ""},
		"a group of the whole cluster":         {bound("", "cluster-admin", rbacv1.GroupKind, "developers"), "ClusterRoleBinding b"},
		"a group of a namespace":               {bound("bank", "admin", rbacv1.GroupKind, "developers"), "RoleBinding bank/b"},
		"a user":                               {bound("bank", "admin", rbacv1.UserKind, "developers"), "User \"developers\""},
		"the user that its token acts as":      {bound("", "cluster-admin", rbacv1.UserKind, TokenUserPrefix+"developers"), "User \"liqo.io:developers\""},
		"what its own Tenant grants that user": {bound("liqo-tenant-developers", RoleControlPlane, rbacv1.UserKind, TokenUserPrefix+"developers"), ""},
		"another group":                        {bound("", "cluster-admin", rbacv1.GroupKind, "admins"), ""},
		"an account of a namespace":            {bound("bank", "admin", rbacv1.ServiceAccountKind, "developers"), ""},
		"what its own Tenant is granted": {append(bound("liqo-tenant-developers", RoleControlPlane, rbacv1.UserKind, "developers"),
			append(bound("", RoleVirtualKubeletClusterwide, rbacv1.GroupKind, "developers"), bound("bank", RoleVirtualKubelet, rbacv1.GroupKind, "developers")...)...), ""},
		"the report of a drain": {bound("bank", "liqo-virtual-kubelet-drained", rbacv1.GroupKind, "developers"), ""},
	} {
		err := CheckFreeSubject("developers", row.bindings)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
