package offload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// AllHosts is the host pattern of a rule without a host, and of a default backend.
const AllHosts = ""

// HostClaim holds the hosts that one object of this cluster serves. The host is the unit: a claim of one path claims the whole host.
type HostClaim struct {
	// Kind, Namespace, Name and UID identify the object, ResourceVersion its state.
	Kind, Namespace, Name string
	UID                   types.UID
	ResourceVersion       string
	// Terminating means that the object is being deleted. It serves its hosts until it is gone.
	Terminating bool
	// Owner is the ID of the consumer that the object's namespace belongs to; empty for namespaces of this cluster.
	Owner string
	// Provided means that this cluster created the object. It is false only for copies from a consumer.
	Provided bool
	Created  time.Time
	// Hosts are host names, *.domain for all names below a domain, and AllHosts.
	Hosts []string
}

func (c *HostClaim) String() string { return c.Kind + " " + c.Namespace + "/" + c.Name }

// Withdrawal is a claim of a consumer that is invalid because another claim takes precedence.
type Withdrawal struct {
	Claim, By HostClaim
	// Why is the reason for the consumer. It does not name the objects and hosts of others.
	Why string
}

// WithdrawHosts returns the claims of consumers that overlap claims of others with precedence. Claims of this cluster take precedence over all others,
// and older claims over newer ones. Claims of the same owner never exclude each other. The order of the argument is irrelevant.
func WithdrawHosts(claims []HostClaim) []Withdrawal {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b HostClaim) int {
		if a.Provided != b.Provided {
			if a.Provided {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	var valid []HostClaim
	var out []Withdrawal
	for _, claim := range claims {
		if !claim.Provided {
			if by, why := conflict(&claim, claim.Hosts, valid); by != nil {
				out = append(out, Withdrawal{Claim: claim, By: *by, Why: why})
				continue
			}
		}
		valid = append(valid, claim)
	}
	return out
}

// RefuseHosts returns why a consumer may not serve the hosts of a claim, nil if it may. The argument had is the claim before the change, nil for a new
// object: hosts that it already has are not refused, because WithdrawHosts decides about them.
func RefuseHosts(claim, had *HostClaim, claims []HostClaim) error {
	var added []string
	for _, host := range claim.Hosts {
		if had == nil || !slices.ContainsFunc(had.Hosts, func(h string) bool { return covers(h, host) }) {
			added = append(added, host)
		}
	}
	if _, why := conflict(claim, added, claims); why != "" {
		return fmt.Errorf("%s", why)
	}
	return nil
}

// conflict returns the first claim of another owner that overlaps one of the hosts of a claim, and the reason for the consumer.
func conflict(claim *HostClaim, hosts []string, others []HostClaim) (*HostClaim, string) {
	for i := range others {
		other := &others[i]
		if other.Owner == claim.Owner {
			continue
		}
		for _, host := range hosts {
			for _, taken := range other.Hosts {
				if covers(taken, host) || covers(host, taken) {
					return other, whyRefused(host, taken, other.Owner)
				}
			}
		}
	}
	return nil, ""
}

// whyRefused returns why host is refused. It names the pattern of the provider's claim only if host is among its hosts, so a consumer can't find out
// hosts by claiming many of them.
func whyRefused(host, taken, owner string) string {
	subject := "host " + host
	if host == AllHosts {
		subject = "a rule for all hosts or a default backend"
	}
	by := "another cluster that uses the provider"
	if owner == "" {
		by = "the provider itself"
	}
	switch {
	case !covers(taken, host):
		by += " serves a host among them"
	case owner == "" && taken == AllHosts && host != AllHosts:
		by += " serves all hosts"
	case owner == "" && taken != host:
		by += " serves " + taken
	default:
		by += " serves it"
	}
	return subject + " is refused by the provider, because " + by + ": use another host, or ask the administrator of the provider"
}

// covers reports whether all hosts of a pattern are among those of another one. Some controllers accept several labels in place of an asterisk.
func covers(pattern, host string) bool {
	domain, wildcard := strings.CutPrefix(pattern, "*")
	return pattern == AllHosts || pattern == host || wildcard && strings.HasSuffix(host, domain) && host != domain
}

// HostsOfIngress returns the hosts that an Ingress claims, with those of its certificates.
func HostsOfIngress(spec *networkingv1.IngressSpec) []string {
	var hosts []string
	if spec.DefaultBackend != nil {
		hosts = append(hosts, AllHosts)
	}
	for _, rule := range spec.Rules {
		hosts = append(hosts, rule.Host)
	}
	for _, certificate := range spec.TLS {
		hosts = append(hosts, certificate.Hosts...)
	}
	return distinctHosts(hosts)
}

// HostsOfGateway returns the hosts that a Gateway claims. A listener without a host claims none: its routes do.
func HostsOfGateway(gateway *unstructured.Unstructured) []string {
	var hosts []string
	for _, listener := range elements(gateway, "listeners") {
		if host, _, _ := unstructured.NestedString(listener, "hostname"); host != "" {
			hosts = append(hosts, host)
		}
	}
	return distinctHosts(hosts)
}

// HostsOfRoute returns the hosts that a route of the Gateway API claims: its own host names. A route without them serves the hosts of the listeners of its
// Gateways. If one of these listeners has no host, or a parent is not a known Gateway, the route claims all hosts. Otherwise the Gateways claim these hosts,
// and the result is empty. A route claims no hosts if all its parents are Services. The argument gateway returns a Gateway, nil if there is none.
func HostsOfRoute(route *unstructured.Unstructured, gateway func(namespace, name string) *unstructured.Unstructured) []string {
	parents := slices.DeleteFunc(elements(route, "parentRefs"), func(parent map[string]any) bool { return parent["kind"] == "Service" })
	if len(parents) == 0 {
		return nil
	}
	hosts, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	if len(hosts) > 0 {
		return distinctHosts(hosts)
	}
	for _, parent := range parents {
		namespace, _, _ := unstructured.NestedString(parent, "namespace")
		name, _, _ := unstructured.NestedString(parent, "name")
		section, _, _ := unstructured.NestedString(parent, "sectionName")
		var of *unstructured.Unstructured
		if kind := parent["kind"]; kind == nil || kind == "Gateway" {
			of = gateway(cmp.Or(namespace, route.GetNamespace()), name)
		}
		if of == nil || slices.ContainsFunc(elements(of, "listeners"), func(listener map[string]any) bool {
			return (section == "" || listener["name"] == section) && (listener["hostname"] == nil || listener["hostname"] == "")
		}) {
			return []string{AllHosts}
		}
	}
	return nil
}

// elements returns the objects in a list of the spec.
func elements(obj *unstructured.Unstructured, field string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "spec", field)
	var out []map[string]any
	for _, element := range list {
		if fields, ok := element.(map[string]any); ok {
			out = append(out, fields)
		}
	}
	return out
}

// distinctHosts returns hosts in lower case, sorted and without duplicates.
func distinctHosts(hosts []string) []string {
	out := make([]string, 0, len(hosts))
	for _, host := range hosts {
		out = append(out, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
