package offload

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestHostsHaveOneOwner is the law of host claims: after the withdrawals, no host is served from two owners, and no claim of the provider is withdrawn.
func TestHostsHaveOneOwner(t *testing.T) {
	patterns := []string{AllHosts, "*.org", "*.example.org", "*.shop.example.org", "example.org", "shop.example.org", "a.shop.example.org", "blog.example.org", "bank.example"}
	hosts := []string{"example.org", "shop.example.org", "a.shop.example.org", "b.c.shop.example.org", "blog.example.org", "x.example.org", "x.org", "bank.example", "else.where"}
	serves := func(c *HostClaim, host string) bool {
		return slices.ContainsFunc(c.Hosts, func(pattern string) bool {
			return pattern == AllHosts || pattern == host || strings.HasPrefix(pattern, "*.") && strings.HasSuffix(host, pattern[1:])
		})
	}
	withdrawn, kept := 0, 0
	for seed := range int64(3000) {
		random := rand.New(rand.NewSource(seed)) //nolint:gosec // a test repeats it
		var claims []HostClaim
		for i := range 2 + random.Intn(6) {
			owner := []string{"", "rome", "turin"}[random.Intn(3)]
			c := HostClaim{Kind: "Ingress", Namespace: "in-" + owner, Name: fmt.Sprint(i), Owner: owner, Provided: owner == "" || random.Intn(8) == 0, Created: stepNow.Add(time.Duration(random.Intn(3)) * time.Second)}
			for range 1 + random.Intn(2) {
				c.Hosts = append(c.Hosts, patterns[random.Intn(len(patterns))])
			}
			claims = append(claims, c)
		}
		out := WithdrawHosts(claims)
		valid := slices.Clone(claims)
		for _, w := range out {
			if w.Claim.Provided || w.Claim.Owner == w.By.Owner || w.Why == "" || !w.By.Provided && w.By.Created.After(w.Claim.Created) {
				t.Fatalf("seed %d: %+v was withdrawn in favour of %+v: %q", seed, w.Claim, w.By, w.Why)
			}
			valid = slices.DeleteFunc(valid, func(c HostClaim) bool { return c.Name == w.Claim.Name })
			if RefuseHosts(&w.Claim, nil, valid) == nil {
				t.Fatalf("seed %d: %+v was withdrawn, and would be admitted", seed, w.Claim)
			}
		}
		for _, host := range hosts {
			for i := range valid {
				for j := range valid {
					if a, b := &valid[i], &valid[j]; a.Owner != b.Owner && (!a.Provided || !b.Provided) && serves(a, host) && serves(b, host) {
						t.Fatalf("seed %d: %s is served by %+v and %+v", seed, host, a, b)
					}
				}
			}
		}
		if again := WithdrawHosts(valid); len(again) != 0 {
			t.Fatalf("seed %d: it does not settle: %+v", seed, again)
		}
		random.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
		if diff := cmp.Diff(out, WithdrawHosts(claims)); diff != "" {
			t.Fatalf("seed %d: it depends on the order:\n%s", seed, diff)
		}
		withdrawn, kept = withdrawn+len(out), kept+len(valid)
	}
	if withdrawn < 1000 || kept < 1000 {
		t.Errorf("only %d claims were withdrawn and %d kept", withdrawn, kept)
	}
}

// TestRefusedHosts checks the reasons that a consumer reads: they do not show hosts that the consumer does not know.
func TestRefusedHosts(t *testing.T) {
	others := []HostClaim{
		{Owner: "", Provided: true, Hosts: []string{"shop.milan.example", "*.apps.milan.example"}},
		{Owner: "turin", Hosts: []string{"shop.turin.example", "*.apps.turin.example"}},
		{Owner: "rome", Hosts: []string{"shop.rome.example"}},
	}
	const itself, another = "because the provider itself serves ", "because another cluster that uses the provider serves "
	for host, want := range map[string]string{
		"free.example": "", "shop.rome.example": "", "*.rome.example": "", "apps.milan.example": "", "evilapps.milan.example": "",
		"shop.milan.example":     "host shop.milan.example is refused by the provider, " + itself + "it:",
		"a.b.apps.milan.example": itself + "*.apps.milan.example:",
		"*.apps.milan.example":   itself + "it:",
		"*.milan.example":        itself + "a host among them:",
		AllHosts:                 "a rule for all hosts or a default backend is refused by the provider, " + itself + "a host among them:",
		"shop.turin.example":     another + "it:",
		"a.apps.turin.example":   another + "it:",
		"*.turin.example":        another + "a host among them:",
	} {
		claim := &HostClaim{Owner: "rome", Hosts: []string{host}}
		err := RefuseHosts(claim, nil, others)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", host, err, want)
		}
		if err := RefuseHosts(claim, &HostClaim{Hosts: []string{host}}, others); err != nil {
			t.Errorf("%q, which it has already: %v", host, err)
		}
	}
	all := []HostClaim{{Provided: true, Hosts: []string{AllHosts}}}
	if err := RefuseHosts(&HostClaim{Owner: "rome", Hosts: []string{"a.example"}}, nil, all); err == nil || !strings.Contains(err.Error(), itself+"all hosts:") {
		t.Errorf("while the provider serves all hosts: %v", err)
	}
}

// TestHostsOfObjects reads the hosts of Ingresses, Gateways and routes.
func TestHostsOfObjects(t *testing.T) {
	backend := &networkingv1.IngressBackend{}
	rules := func(hosts ...string) (out []networkingv1.IngressRule) {
		for _, host := range hosts {
			out = append(out, networkingv1.IngressRule{Host: host})
		}
		return out
	}
	for what, row := range map[string]struct {
		spec networkingv1.IngressSpec
		want []string
	}{
		"rules":             {networkingv1.IngressSpec{Rules: rules("b.example", "*.example", "b.example")}, []string{"*.example", "b.example"}},
		"a rule for all":    {networkingv1.IngressSpec{Rules: rules("")}, []string{AllHosts}},
		"a default backend": {networkingv1.IngressSpec{Rules: rules("a.example"), DefaultBackend: backend}, []string{AllHosts, "a.example"}},
		"a certificate":     {networkingv1.IngressSpec{Rules: rules("a.example"), TLS: []networkingv1.IngressTLS{{Hosts: []string{"c.example"}}}}, []string{"a.example", "c.example"}},
	} {
		if diff := cmp.Diff(row.want, HostsOfIngress(&row.spec)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	object := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "web", "name": "x"}, "spec": spec}}
	}
	gateway := object(map[string]any{"listeners": []any{
		map[string]any{"name": "named", "hostname": "*.Milan.example"}, map[string]any{"name": "open"},
	}})
	if diff := cmp.Diff([]string{"*.milan.example"}, HostsOfGateway(gateway)); diff != "" {
		t.Errorf("a Gateway: %s", diff)
	}
	find := func(namespace, name string) *unstructured.Unstructured {
		if namespace == "web" && name == "gate" {
			return gateway
		}
		return nil
	}
	for what, row := range map[string]struct {
		hosts  []any
		parent map[string]any
		want   []string
	}{
		"its hosts":             {[]any{"a.example"}, map[string]any{"name": "gate"}, []string{"a.example"}},
		"hosts of a listener":   {nil, map[string]any{"name": "gate", "sectionName": "named"}, nil},
		"a listener for all":    {nil, map[string]any{"name": "gate", "sectionName": "open"}, []string{AllHosts}},
		"all listeners":         {nil, map[string]any{"name": "gate", "kind": "Gateway"}, []string{AllHosts}},
		"an unknown Gateway":    {nil, map[string]any{"name": "gate", "namespace": "other"}, []string{AllHosts}},
		"an unknown kind":       {nil, map[string]any{"name": "gate", "kind": "ListenerSet"}, []string{AllHosts}},
		"a Service":             {[]any{"a.example"}, map[string]any{"name": "web", "kind": "Service"}, nil},
		"a route to no Gateway": {[]any{"a.example"}, nil, nil},
	} {
		spec := map[string]any{"hostnames": row.hosts}
		if row.parent != nil {
			spec["parentRefs"] = []any{row.parent}
		}
		if diff := cmp.Diff(row.want, HostsOfRoute(object(spec), find)); diff != "" {
			t.Errorf("a route, %s: %s", what, diff)
		}
	}
}
