package offload

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// TestOffloadedRights: a virtual kubelet whose provider only reports a remote namespace keeps the permission to read the namespace if it had it, and does not
// get it otherwise.
func TestOffloadedRights(t *testing.T) {
	nodes := []offloadingv1beta1.VirtualNode{virtualNode("turin", "turin", nil), virtualNode("naples", "naples", nil)}
	naples := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-tenant-naples", Name: "naples"}
	turin := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo-tenant-turin", Name: "turin"}
	both := []string{"naples", "turin"}
	for name, c := range map[string]struct {
		asked, held  []string
		before, want []rbacv1.Subject
	}{
		"asked":                   {both, nil, nil, []rbacv1.Subject{naples, turin}},
		"asked, and another says": {[]string{"turin"}, both, []rbacv1.Subject{turin}, []rbacv1.Subject{turin}},
		"asked no more":           {nil, both, []rbacv1.Subject{naples}, []rbacv1.Subject{naples}},
		"gone":                    {nil, nil, []rbacv1.Subject{naples, turin}, nil},
	} {
		if _, got := OffloadedRights(nodes, c.asked, c.held, c.before); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
