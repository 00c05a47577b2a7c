package installer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"liqo.io/liqo/internal/install"
)

// TestConsumerRolesStayNarrow: the roles of peers are written by hand. This is the complete list of their write permissions.
func TestConsumerRolesStayNarrow(t *testing.T) {
	allowed := map[string]bool{
		"resourceslices": true, "renews": true, "namespacemaps": true, "shadowpods": true, "shadowendpointslices": true, "services": true,
		"configmaps": true, "secrets": true, "ingresses": true, "poddisruptionbudgets": true, "networkrequests": true, // copies of the peer's own objects
		"persistentvolumeclaims": true,                                                // policy liqo-copies-claim
		"pods/exec":              true, "pods/attach": true, "pods/portforward": true, // create opens the stream
	}
	objects := render(t, minimal)
	for _, name := range []string{"liqo-remote-controlplane", "liqo-virtual-kubelet-remote", "liqo-virtual-kubelet-remote-clusterwide"} {
		rules, _, _ := unstructured.NestedSlice(find(t, objects, "ClusterRole", name).Object, "rules")
		for _, rule := range rules {
			verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			for _, verb := range verbs {
				for _, resource := range resources {
					ends := resource == "tenants" && verb == "delete" // only its own Tenant: policy liqo-tenant
					if verb != "get" && verb != "list" && verb != "watch" && !allowed[resource] && !ends {
						t.Errorf("ClusterRole %s allows to %s %s", name, verb, resource)
					}
				}
			}
			if contains(verbs, "*") || contains(resources, "*") {
				t.Errorf("ClusterRole %s has a wildcard: %v", name, rule)
			}
		}
	}
}

// TestVirtualKubeletsReadNoSecrets: outside of offloaded namespaces, virtual kubelets can neither read Secrets nor act as service accounts.
func TestVirtualKubeletsReadNoSecrets(t *testing.T) {
	rules, _, _ := unstructured.NestedSlice(find(t, render(t, minimal), "ClusterRole", "liqo-virtual-kubelet-local").Object, "rules")
	for _, rule := range rules {
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		for _, forbidden := range []string{"secrets", "serviceaccounts/token", "*"} {
			if contains(resources, forbidden) {
				t.Errorf("ClusterRole liqo-virtual-kubelet-local is about %s: %v", forbidden, rule)
			}
		}
	}
}

// TestNetworkPoliciesAreAcceptedOnDemand: consumers may create NetworkPolicies only if the administrator allows it, since they can allow traffic that this
// cluster's own NetworkPolicies do not.
func TestNetworkPoliciesAreAcceptedOnDemand(t *testing.T) {
	for text, want := range map[string]bool{minimal: false, minimal + "\noffloading: {networkPolicies: {accept: true}}": true} {
		rules, _, _ := unstructured.NestedSlice(find(t, render(t, text), "ClusterRole", "liqo-virtual-kubelet-remote").Object, "rules")
		writes := false
		for _, rule := range rules {
			verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			writes = writes || contains(resources, "networkpolicies") && contains(verbs, "create")
		}
		if writes != want {
			t.Errorf("%s: peers may write NetworkPolicies: %v", text, writes)
		}
	}
}

// TestDisruptionBudgetsAreAccepted: consumers may create disruption budgets by default, because these affect only their own pods.
func TestDisruptionBudgetsAreAccepted(t *testing.T) {
	for text, want := range map[string]bool{minimal: true, minimal + "\noffloading: {disruptionBudgets: {accept: false}}": false} {
		rules, _, _ := unstructured.NestedSlice(find(t, render(t, text), "ClusterRole", "liqo-virtual-kubelet-remote").Object, "rules")
		writes := false
		for _, rule := range rules {
			verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			writes = writes || contains(resources, "poddisruptionbudgets") && contains(verbs, "create")
		}
		if writes != want {
			t.Errorf("%s: peers may write PodDisruptionBudgets: %v", text, writes)
		}
	}
}

// TestPoliciesSayTheProvider: consumers read the messages of these policies in their own cluster. There, "this cluster" would be the wrong one.
func TestPoliciesSayTheProvider(t *testing.T) {
	messages := 0
	for _, text := range []string{minimal, everything, minimal + `
offloading:
  servicePolicy: {refuse: [LoadBalancer, NodePort, ExternalName, nodePorts], externalNames: ["example.net"], refusedLoadBalancerPorts: [22]}
  ingressPolicy: {hosts: ["shop.example.net"]}
  reflection: {service: {loadBalancerClasses: [{name: lb}]}, ingress: {ingressClasses: [{name: nginx}]}}
`} {
		for _, object := range render(t, text) {
			name := object.GetName()
			ofConsumers := strings.HasPrefix(name, "liqo-copies") || strings.HasPrefix(name, "liqo-shadowpod") ||
				slices.Contains([]string{"liqo-replication", "liqo-tenant", "liqo-peering-user"}, name)
			if object.GetKind() != "ValidatingAdmissionPolicy" || !ofConsumers {
				continue
			}
			// A message can be in a variable of the policy.
			for list, fields := range map[string][]string{"variables": {"expression"}, "validations": {"message", "messageExpression"}} {
				items, _, err := unstructured.NestedSlice(object.Object, "spec", list)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					for _, field := range fields {
						message, _ := item.(map[string]any)[field].(string)
						// A variable with the rules of a policy has their messages one after the other.
						messages += max(strings.Count(message, "? optional.of("), min(1, strings.Count(message, "the provider")))
						if strings.Contains(message, "this cluster") {
							t.Errorf("%s: consumers read %q: write the provider", name, message)
						}
					}
				}
			}
		}
	}
	if messages < 100 {
		t.Errorf("only %d messages were found", messages)
	}
}

// TestPeeringUserReadsNoKeys: the tenant namespace may hold kubeconfigs of this cluster. So the peering user can read only the Secret with the nonce there.
func TestPeeringUserReadsNoKeys(t *testing.T) {
	rules, _, _ := unstructured.NestedSlice(find(t, render(t, minimal), "ClusterRole", "liqo-peering-user").Object, "rules")
	for _, rule := range rules {
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
		names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
		if contains(resources, "secrets") && strings.Join(verbs, " ") != "create" && strings.Join(names, " ") != "liqo-nonce" {
			t.Errorf("a peering user may %v Secrets %v", verbs, names)
		}
	}
}

// TestLeaderElectionRights: permission for a Lease exists only if the program elects a leader, and only for that Lease.
func TestLeaderElectionRights(t *testing.T) {
	for text, want := range map[string]int{minimal: 0, everything: 1} {
		got := 0
		for _, object := range render(t, text) {
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
				if object.GetKind() != "Role" || !contains(resources, "leases") || !contains(verbs, "update") {
					continue
				}
				got++
				if names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames"); len(names) != 1 {
					t.Errorf("Role %s may %v any lease", object.GetName(), verbs)
				}
			}
		}
		if got != want {
			t.Errorf("%d rules about leases, want %d", got, want)
		}
	}
}

// TestControllerManagerRightsStayNarrow: this is the complete list of the controller manager's permissions on objects that give power over a cluster:
// Secrets, accounts, roles, bindings, pods, certificates, nodes, admission and definitions. The permissions are generated from markers in the code,
// so a new marker may extend them. A change of this list needs a deliberate decision.
func TestControllerManagerRightsStayNarrow(t *testing.T) {
	const read, write = "get list watch", "create patch"
	want := map[string]string{
		// Administrators choose the names of tenant namespaces, so a Role for each is impossible. The controller manager never deletes a Secret there.
		"cluster: secrets":                                              write + " " + read,
		"liqo: secrets":                                                 "create",
		"liqo: secrets liqo-webhook-certs":                              read + " update",
		"cluster: serviceaccounts":                                      write + " delete " + read, // only of consumers: policy liqo-consumer-accounts
		"cluster: roles":                                                write + " " + read,        // Kubernetes lets it grant only permissions that it has itself
		"cluster: rolebindings":                                         write + " delete " + read,
		"cluster: clusterrolebindings":                                  write + " delete " + read,
		"cluster: clusterroles liqo-gateway":                            "bind",
		"cluster: clusterroles liqo-virtual-kubelet-drained":            "bind",
		"cluster: clusterroles liqo-remote-controlplane":                "bind",
		"cluster: clusterroles liqo-virtual-kubelet-local":              "bind",
		"cluster: clusterroles liqo-virtual-kubelet-offloaded":          "bind",
		"cluster: clusterroles liqo-virtual-kubelet-remote":             "bind",
		"cluster: clusterroles liqo-virtual-kubelet-remote-clusterwide": "bind",
		"cluster: pods":                                                 write + " delete " + read,
		"cluster: pods/ephemeralcontainers":                             "patch",
		"cluster: pods/eviction":                                        "create",
		"cluster: pods/resize":                                          "patch",
		"cluster: pods/status":                                          "patch",
		"cluster: deployments":                                          write + " delete " + read, // gateways and virtual kubelets
		"cluster: daemonsets":                                           "list",
		"cluster: daemonsets/status":                                    "patch",
		"cluster: replicasets":                                          "list",
		"cluster: replicasets/status":                                   "patch",
		"cluster: statefulsets":                                         "list",
		"cluster: statefulsets/status":                                  "patch",
		"cluster: certificatesigningrequests":                           "create delete " + read,
		"cluster: certificatesigningrequests/approval":                  "update",
		"cluster: signers kubernetes.io/kube-apiserver-client":          "approve",
		"cluster: signers kubernetes.io/kubelet-serving":                "approve",
		"cluster: nodes":                                                "delete " + read + " patch",
		"cluster: mutatingwebhookconfigurations liqo-webhook":           read + " patch",
		"cluster: validatingwebhookconfigurations liqo-webhook":         read + " patch",
	}
	groups := []string{"rbac.authorization.k8s.io", "certificates.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io", "apps", "batch", "*"}
	harmless := []string{"configmaps", "events", "limitranges", "namespaces", "persistentvolumeclaims", "persistentvolumeclaims/status", "persistentvolumes", "resourcequotas", "resourcequotas/status", "services"}
	got := map[string]map[string]bool{}
	objects := render(t, everything)
	for _, rule := range rulesOf(t, objects, "liqo-controller-manager") {
		for _, verb := range rule.verbs {
			for _, resource := range rule.resources {
				core := contains(rule.groups, "") && !contains(harmless, resource)
				if !core && !slices.ContainsFunc(rule.groups, func(group string) bool { return contains(groups, group) }) &&
					verb != "*" && resource != "*" && verb != "impersonate" && verb != "escalate" && verb != "bind" {
					continue
				}
				if len(rule.names) == 0 {
					add(got, rule.where+": "+resource, verb)
				}
				for _, name := range rule.names {
					add(got, rule.where+": "+resource+" "+name, verb)
				}
			}
		}
	}
	have := map[string]string{}
	for what, verbs := range got {
		have[what] = strings.Join(slices.Sorted(maps.Keys(verbs)), " ")
	}
	for what, verbs := range want {
		want[what] = strings.Join(slices.Sorted(slices.Values(strings.Fields(verbs))), " ")
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("rights of the controller manager (-want +got):\n%s", diff)
	}
}

// rights is one rule of a program's permissions.
type rights struct {
	// where is "cluster", or the namespace in which the rule holds.
	where                           string
	groups, resources, names, verbs []string
}

// rulesOf returns all rules that are bound to a ServiceAccount of the chart.
func rulesOf(t *testing.T, objects []*unstructured.Unstructured, account string) (out []rights) {
	t.Helper()
	for _, binding := range objects {
		if kind := binding.GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
		if !slices.ContainsFunc(subjects, func(s any) bool {
			subject, _ := s.(map[string]any)
			return subject["kind"] == "ServiceAccount" && subject["name"] == account
		}) {
			continue
		}
		kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
		where := "cluster"
		if binding.GetKind() == "RoleBinding" {
			where = binding.GetNamespace()
		}
		rules, _, _ := unstructured.NestedSlice(find(t, objects, kind, name).Object, "rules")
		for _, r := range rules {
			rule, _ := r.(map[string]any)
			field := func(name string) []string {
				values, _, _ := unstructured.NestedStringSlice(rule, name)
				return values
			}
			out = append(out, rights{where, field("apiGroups"), field("resources"), field("resourceNames"), field("verbs")})
		}
	}
	if len(out) == 0 {
		t.Fatalf("ServiceAccount %s has no rights", account)
	}
	return out
}

func add(verbs map[string]map[string]bool, what, verb string) {
	if verbs[what] == nil {
		verbs[what] = map[string]bool{}
	}
	verbs[what][verb] = true
}

// TestNoRightsOnVolumesWithoutStorage: with storage.enabled=false, no program and no peer has permissions on volumes, claims or their classes, and virtual
// kubelets do not watch claims. The controller manager may only list claims, so that it deletes no remote namespace that has some, and read volumes, so that those of
// before still hold their data.
func TestNoRightsOnVolumesWithoutStorage(t *testing.T) {
	for text, enabled := range map[string]bool{minimal: true, minimal + "\nstorage: {enabled: false}": false} {
		objects, allowed, read := render(t, text), map[string]bool{}, false
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
				for _, resource := range resources {
					if object.GetName() == "liqo-controller-manager" && resource == "persistentvolumeclaims" && slices.Equal(verbs, []string{"list"}) {
						continue
					}
					if object.GetName() == "liqo-controller-manager" && resource == "persistentvolumes" && slices.Equal(verbs, []string{"get", "list", "watch"}) {
						read = !enabled
						continue
					}
					if name, _, _ := strings.Cut(resource, "/"); slices.Contains([]string{"persistentvolumes", "persistentvolumeclaims", "storageclasses"}, name) {
						allowed[name] = true
						if !enabled {
							t.Errorf("%s %s has a rule about %s", object.GetKind(), object.GetName(), resource)
						}
					}
				}
				urls, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "nonResourceURLs")
				if len(resources)+len(urls) == 0 {
					t.Errorf("%s %s has an empty rule: %v", object.GetKind(), object.GetName(), rule)
				}
			}
		}
		if want := map[bool]int{true: 3}[enabled]; len(allowed) != want || read == enabled {
			t.Errorf("storage.enabled=%t: rules about %v, the controller manager reads volumes only: %t", enabled, allowed, read)
		}
		template := find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default")
		workers, _, err := unstructured.NestedFloat64(template.Object, "spec", "reflectorsConfig", "persistentvolumeclaim", "workers")
		if err != nil || (workers > 0) != enabled {
			t.Errorf("storage.enabled=%t: %v workers for claims, %v", enabled, workers, err)
		}
	}
}

// TestNobodyHasRightsAsAnyServiceAccount: consumers with tokens are in the group of all ServiceAccounts, and in the group of those in their tenant
// namespace, like programs of this cluster there. No binding may name such a group, or the group of all users.
func TestNobodyHasRightsAsAnyServiceAccount(t *testing.T) {
	for _, text := range []string{everything, "{discovery: {config: {clusterID: rome}}, authentication: {identity: token}}"} {
		bindings := 0
		for _, object := range render(t, text) {
			if object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
				continue
			}
			bindings++
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				if kind, _, _ := unstructured.NestedString(subject.(map[string]any), "kind"); kind != "ServiceAccount" {
					t.Errorf("%s %s is about %v, want ServiceAccounts by their names", object.GetKind(), object.GetName(), subject)
				}
			}
		}
		if bindings == 0 {
			t.Error("the chart has no bindings")
		}
	}
}

// TestTokensTakeMoreRights: the controller manager may impersonate users and request tokens only where consumers authenticate with tokens. The test lists all
// permissions that this adds.
func TestTokensTakeMoreRights(t *testing.T) {
	counted := func(identity string) map[string]int {
		counts := map[string]int{}
		for _, rule := range rulesOf(t, render(t, "{discovery: {config: {clusterID: rome}}, authentication: {identity: "+identity+"}}"), "liqo-controller-manager") {
			for _, verb := range rule.verbs {
				for _, resource := range rule.resources {
					counts[strings.Join([]string{rule.where, verb, resource, strings.Join(rule.names, ",")}, " ")]++
				}
			}
		}
		return counts
	}
	got, without := counted("token"), counted("certificate")
	for right, count := range without {
		if got[right] -= count; got[right] == 0 {
			delete(got, right)
		}
	}
	want := map[string]int{
		"cluster create serviceaccounts/token ": 1, "cluster impersonate users ": 1, "cluster impersonate groups ": 1,
		"cluster get clusterroles ": 1, "cluster create clusterroles ": 1, "cluster patch clusterroles ": 1, "cluster delete clusterroles ": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights with tokens and not without (-want +got):\n%s", diff)
	}
}

// TestPoliciesHaveNoBuiltInParameterKind renders the chart with all values of testdata/samples.yaml, each that
// is a boolean by itself. An API server stops the informer of a built-in parameter
// kind with the last policy that uses it, and does not start it again. After an uninstallation, policies of that kind would deny everything until a restart.
func TestPoliciesHaveNoBuiltInParameterKind(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	base := testdata(t, "base.yaml")
	all, policies := []map[string]any{parse(t, minimal), base}, 0
	set := base
	for key, sample := range testdata(t, "samples.yaml") {
		if given, _ := sample.(map[string]any); given["in"] != nil {
			sample = given["value"]
		}
		if _, toggle := sample.(bool); toggle { // alone, because it may disable others
			all = append(all, install.Merge(base, under(key, sample)))
		} else {
			set = install.Merge(set, under(key, sample))
		}
	}
	all = append(all, set)
	for _, values := range all {
		for name, text := range templates(t, chart, values) {
			for document := range strings.SplitSeq(text, "\n---\n") {
				if !strings.Contains(document, "\nkind: ValidatingAdmissionPolicy\n") {
					continue
				}
				policies++
				if _, kind, found := strings.Cut(document, "paramKind:"); found && !strings.Contains(strings.SplitN(kind, "kind:", 2)[0], "liqo.io/") {
					t.Errorf("%s: a policy has a built-in parameter kind:%.60s", name, kind)
				}
			}
		}
	}
	if policies == 0 {
		t.Error("the chart has no policy: this test checks nothing")
	}
}
