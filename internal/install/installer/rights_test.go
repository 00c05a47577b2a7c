package installer

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestConsumerRolesStayNarrow: what a peer may do here is written by hand, and this is all of it that writes.
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
					ends := resource == "tenants" && verb == "delete" // its own peering: policy liqo-tenant
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

// TestVirtualKubeletsReadNoSecrets: outside of offloaded namespaces they neither read Secrets nor act as service accounts.
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

// TestNetworkPoliciesAreAcceptedOnDemand: they can widen what this cluster's own ones leave open.
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

// TestDisruptionBudgetsAreAccepted unless the provider says otherwise: they concern the peers' own pods.
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
			ofConsumers := strings.HasPrefix(name, "liqo-copies-") || strings.HasPrefix(name, "liqo-shadowpod-") ||
				slices.Contains([]string{"liqo-replication", "liqo-tenant", "liqo-peering-user"}, name)
			if object.GetKind() != "ValidatingAdmissionPolicy" || !ofConsumers {
				continue
			}
			validations, _, err := unstructured.NestedSlice(object.Object, "spec", "validations")
			if err != nil {
				t.Fatal(err)
			}
			for _, validation := range validations {
				for _, field := range []string{"message", "messageExpression"} {
					message, _ := validation.(map[string]any)[field].(string)
					if message != "" {
						messages++
					}
					if strings.Contains(message, "this cluster") {
						t.Errorf("%s: consumers read %q: write the provider", name, message)
					}
				}
			}
		}
	}
	if messages < 100 {
		t.Errorf("only %d messages were found", messages)
	}
}

// TestPeeringUserReadsNoKeys: the tenant namespace may hold kubeconfigs of this cluster, so of its Secrets a peer sees the nonce only.
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

// TestLeaderElectionRights: the right to hold a lease exists where one is held, and for that one.
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

// TestNoRightsOnVolumesWithoutStorage: with storage.enabled=false no program and no peer has a right on volumes, claims or their classes, and virtual kubelets
// do not watch claims.
func TestNoRightsOnVolumesWithoutStorage(t *testing.T) {
	for text, enabled := range map[string]bool{minimal: true, minimal + "\nstorage: {enabled: false}": false} {
		objects, allowed := render(t, text), map[string]bool{}
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				for _, resource := range resources {
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
		if want := map[bool]int{true: 3}[enabled]; len(allowed) != want {
			t.Errorf("storage.enabled=%t: rules about %v", enabled, allowed)
		}
		template := find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default")
		workers, _, err := unstructured.NestedFloat64(template.Object, "spec", "reflectorsConfig", "persistentvolumeclaim", "workers")
		if err != nil || (workers > 0) != enabled {
			t.Errorf("storage.enabled=%t: %v workers for claims, %v", enabled, workers, err)
		}
	}
}
