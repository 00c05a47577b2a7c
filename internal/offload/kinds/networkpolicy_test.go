package kinds

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

func policyOptions() NetworkPolicyOptions {
	return NetworkPolicyOptions{
		CopyOptions: plainOptions,
		RemoteNamespace: func(namespace string) (string, bool) {
			remote, ok := map[string]string{"shop": "shop-rome", "bank": "bank-rome"}[namespace]
			return remote, ok
		},
		Ours: func(block netip.Prefix) (netip.Prefix, bool) {
			pods := netip.MustParsePrefix("10.200.0.0/16")
			return pods, pods.Overlaps(block)
		},
	}
}

func TestEveryFieldOfANetworkPolicyHasARule(t *testing.T) {
	everyField(t, map[string]bool{"PodSelector": true, "Ingress": true, "Egress": true, "PolicyTypes": true}, func(in *networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicySpec {
		in.PodSelector.MatchLabels = map[string]string{"app": "web"}
		out, _, _ := NetworkPolicy(&networkingv1.NetworkPolicy{Spec: *in}, "shop-rome", policyOptions())
		if len(in.PodSelector.MatchLabels) > 0 && !reflect.DeepEqual(in.PodSelector, out.Spec.PodSelector) {
			t.Error("the selector is not copied")
		}
		return &out.Spec
	})
}

// TestPodsOfNetworkPolicies: the user gets a warning if a policy selects pods by a label that is not copied.
func TestPodsOfNetworkPolicies(t *testing.T) {
	o := policyOptions()
	o.LabelsNotReflected = []string{"internal/*"}
	for key, told := range map[string]bool{"app": false, "team.example.com/x": false, "linkerd.io/proxy": true, "internal/stage": true} {
		for _, selector := range []metav1.LabelSelector{
			{MatchLabels: map[string]string{key: "x"}}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}},
		} {
			out, _, problem := NetworkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: selector}}, "shop-rome", o)
			if out == nil || (problem != nil) != told || told && !strings.Contains(problem.Error(), "spec.podSelector names label "+key) {
				t.Errorf("%s: %v", key, problem)
			}
		}
	}
}

func TestPeersOfNetworkPolicies(t *testing.T) {
	named := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	byLabel := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	pods := byLabel("app", "web")
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	of := func(namespaces, pods *metav1.LabelSelector) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: namespaces, PodSelector: pods}
	}
	allOfRome := &metav1.LabelSelector{
		MatchLabels:      map[string]string{api.LabelRemoteClusterID: "rome"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelTenantNamespace, Operator: metav1.LabelSelectorOpDoesNotExist}},
	}
	type peers = []networkingv1.NetworkPolicyPeer
	for name, row := range map[string]struct {
		in, want peers
		gone     bool   // the whole rule is left out
		says     string // expected text of the problem reported to the user
	}{
		"everybody":             {nil, nil, false, ""},
		"pods":                  {peers{of(nil, pods)}, peers{of(nil, pods)}, false, ""},
		"a namespace":           {peers{of(byLabel("kubernetes.io/metadata.name", "bank"), nil)}, peers{of(named("bank-rome"), nil)}, false, ""},
		"pods of a namespace":   {peers{of(named("bank"), pods)}, peers{of(named("bank-rome"), pods)}, false, ""},
		"namespaces":            {peers{of(named("shop", "bank"), nil)}, peers{of(named("bank-rome", "shop-rome"), nil)}, false, ""},
		"all namespaces":        {peers{of(&metav1.LabelSelector{}, pods)}, peers{of(allOfRome, pods)}, false, ""},
		"the DNS server":        {peers{of(named("kube-system"), pods)}, peers{of(named("kube-system"), pods)}, false, ""},
		"one that is not there": {peers{of(named("lab"), nil)}, nil, true, "spec.ingress[0].from[0]: namespace lab is not offloaded"},
		"two of which one is":   {peers{of(named("lab", "bank"), pods)}, peers{of(named("bank-rome"), pods)}, false, "namespace lab is not offloaded"},
		"two peers":             {peers{of(named("lab"), pods), of(nil, pods)}, peers{of(nil, pods)}, false, "spec.ingress[0].from[0]"},
		"pods by a label that they do not have there": {
			peers{of(nil, byLabel("security.istio.io/tlsMode", "istio")), of(nil, pods)}, peers{of(nil, pods)}, false, "from[0]: podSelector names label security.istio.io/tlsMode",
		},
		"by another label": {peers{of(byLabel("team", "blue"), nil)}, nil, true, "by label kubernetes.io/metadata.name, and by no other"},
		"all but one": {peers{of(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"lab"}},
		}}, nil)}, nil, true, "and by no other"},
		"none at all": {peers{of(&metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": "shop"}, MatchExpressions: named("bank").MatchExpressions,
		}, pods)}, nil, true, ""},
		"the world":                     {peers{block("0.0.0.0/0")}, peers{block("0.0.0.0/0")}, false, ""},
		"the world of IPv6":             {peers{block("::/0", "fd00::/8")}, peers{block("::/0", "fd00::/8")}, false, ""},
		"a block outside":               {peers{block("203.0.113.0/24")}, peers{block("203.0.113.0/24")}, false, ""},
		"a block of ours":               {peers{block("10.200.1.0/24")}, nil, true, "block 10.200.1.0/24 overlaps range 10.200.0.0/16"},
		"a block around ours":           {peers{block("10.0.0.0/8")}, nil, true, "block 10.0.0.0/8 overlaps range"},
		"the world but ours":            {peers{block("0.0.0.0/0", "192.0.2.0/24", "10.0.0.0/8")}, nil, true, "block 10.0.0.0/8 overlaps range"},
		"the world but somewhere else":  {peers{block("0.0.0.0/0", "192.0.2.0/24")}, peers{block("0.0.0.0/0", "192.0.2.0/24")}, false, ""},
		"what is no block, of all days": {peers{block("x")}, nil, true, "reading block x"},
	} {
		local := &networkingv1.NetworkPolicy{ObjectMeta: meta(nil)}
		local.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: row.in}}
		local.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: row.in}}
		before := local.DeepCopy()
		got, why, problem := NetworkPolicy(local, "shop-rome", policyOptions())
		switch {
		case got == nil:
			t.Errorf("%s: %s", name, why)
			continue
		case row.gone != (len(got.Spec.Ingress) == 0) || row.gone != (len(got.Spec.Egress) == 0):
			t.Errorf("%s: %+v", name, got.Spec)
		case !row.gone && cmp.Diff(row.want, got.Spec.Ingress[0].From)+cmp.Diff(row.want, got.Spec.Egress[0].To) != "":
			t.Errorf("%s: %s", name, cmp.Diff(row.want, got.Spec.Ingress[0].From))
		}
		if (row.says == "") != (problem == nil) || problem != nil && (!strings.Contains(problem.Error(), row.says) || !strings.Contains(problem.Error(), "milan")) {
			t.Errorf("%s: the user hears %v", name, problem)
		}
		if diff := cmp.Diff(before, local); diff != "" {
			t.Errorf("%s: the local policy was changed: %s", name, diff)
		}
	}
	o := policyOptions()
	o.Ours = nil
	ours := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{To: peers{block("10.200.1.0/24")}}}}}
	if got, _, problem := NetworkPolicy(ours, "x", o); problem != nil || len(got.Spec.Egress) != 1 {
		t.Errorf("a block of ours where addresses mean the same: %v, %v", got, problem)
	}
	ours.Annotations = map[string]string{AnnotationSkip: ""}
	if got, why, _ := NetworkPolicy(ours, "x", o); got != nil || why == "" {
		t.Errorf("skipped: %v", got)
	}
}
