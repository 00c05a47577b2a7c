package offload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestProtectedNamespaces(t *testing.T) {
	policy := ProtectedNamespaces{LiqoNamespace: "peering", Patterns: []string{"vault", "*-secrets"}}
	tenant := map[string]string{api.LabelTenantNamespace: api.True}
	for _, c := range []struct {
		name   string
		labels map[string]string
		says   string
	}{
		{"peering", nil, "Liqo is installed there"}, {"liqo", nil, ""},
		{"liqo-tenant-milan", nil, "tenant namespace"}, {"milan", tenant, "tenant namespace"}, {"milan", map[string]string{api.LabelTenantNamespace: "false"}, ""},
		{"kube-system", nil, "belongs to Kubernetes"}, {"kube-anything", nil, "belongs to Kubernetes"}, {"kubernetes", nil, ""}, {"kube", nil, ""},
		{"liqo-storage", nil, "storage"},
		{"vault", nil, "contains vault"}, {"vault-2", nil, ""}, {"my-secrets", nil, "contains *-secrets"}, {"secrets", nil, ""},
		{"default", nil, ""}, {"demo", map[string]string{"team": "blue"}, ""},
	} {
		why := policy.Why(c.name, c.labels)
		if (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s with labels %v: %q, want %q", c.name, c.labels, why, c.says)
		}
	}
	if policy.Patterns = []string{"["}; policy.Why("demo", nil) == "" {
		t.Error("with a pattern that can not be read, a namespace is offloaded")
	}
}

// TestProtectedNamespaceIsNotOffloaded: no provider is requested to have a protected namespace, whatever its NamespaceOffloading selects and whatever
// remote namespaces exist. The status contains the reason.
func TestProtectedNamespaceIsNotOffloaded(t *testing.T) {
	o, free := offloading("kube-system", offloadingv1beta1.NamespaceOffloadingSpec{}), offloading("demo", offloadingv1beta1.NamespaceOffloadingSpec{})
	nodes := []offloadingv1beta1.VirtualNode{virtualNode("naples-1", "naples", nil)}
	policy := ProtectedNamespaces{LiqoNamespace: "liqo"}
	protected := policy.Protected([]offloadingv1beta1.NamespaceOffloading{o, free}, func(string) map[string]string { return nil })
	why := protected["kube-system"]
	if why == "" || len(protected) != 1 {
		t.Fatalf("%v", protected)
	}
	if diff := cmp.Diff(map[string]string{"demo": "demo-rome"}, DesiredMapping([]offloadingv1beta1.NamespaceOffloading{o, free}, nodes, nil, protected, "rome", nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	current := map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus{"naples": {"kube-system": at("kube-system-rome", offloadingv1beta1.MappingAccepted)}}
	o.Status = Compile(&o, nodes, nil, current, nil, "", "rome", midnight) // as it was before
	status := Compile(&o, nodes, nil, current, nil, why, "rome", noon)
	conditions := status.RemoteNamespacesConditions["naples"]
	if status.OffloadingPhase != offloadingv1beta1.PhaseAllFailed || len(conditions) != 2 || conditions[0].Reason != offloadingv1beta1.ReasonNamespaceProtected ||
		conditions[0].Message != ProtectedMessage("kube-system", why) || conditions[1].Reason != offloadingv1beta1.ReasonTerminating {
		t.Errorf("while the provider holds it: %+v", status)
	}
	if status = Compile(&o, nil, nil, nil, nil, why, "rome", noon); status.OffloadingPhase != offloadingv1beta1.PhaseAllFailed {
		t.Errorf("without a provider: %+v", status)
	}
	o.DeletionTimestamp = &noon
	if status = Compile(&o, nodes, nil, current, nil, why, "rome", noon); status.OffloadingPhase != offloadingv1beta1.PhaseTerminating {
		t.Errorf("while it is deleted: %+v", status)
	}
}
