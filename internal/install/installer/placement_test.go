package installer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// pods returns the pod specs of all Deployments and DaemonSets of the chart, by name.
func pods(t *testing.T, values string) map[string]corev1.PodSpec {
	t.Helper()
	out := map[string]corev1.PodSpec{}
	for _, object := range render(t, values) {
		if kind := object.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		var workload appsv1.Deployment // a DaemonSet has the same field spec.template
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &workload); err != nil {
			t.Fatal(err)
		}
		out[object.GetName()] = workload.Spec.Template.Spec
	}
	for kind, name := range map[string]string{"WgGatewayServerTemplate": "wireguard-server", "WgGatewayClientTemplate": "wireguard-client"} {
		pod, _ := gatewayPod(t, kind, name, values)
		out[name] = pod.Spec
	}
	return out
}

// TestPlacement: pods run where the values say, and never on virtual nodes, whatever the values say.
func TestPlacement(t *testing.T) {
	const common = `
imagePullSecrets: [{name: pull}]
common:
  nodeSelector: {zone: a}
  tolerations: [{key: common, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}, {matchFields: [{key: metadata.name, operator: In, values: [x]}]}]}}}
`
	own := minimal + common
	for _, block := range []string{"controllerManager: {pod: ", "proxy: {pod: ", "networking: {gatewayTemplates: {pod: "} {
		own += "\n" + block + "{nodeSelector: {zone: b}, tolerations: [{key: own, operator: Exists}], priorityClassName: high, affinity: {podAffinity: {}}}" + strings.Repeat("}", strings.Count(block, "{"))
	}
	for name, text := range map[string]string{"defaults": minimal, "common": minimal + common, "own": own} {
		for component, pod := range pods(t, text) {
			var terms []corev1.NodeSelectorTerm
			if a := pod.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				terms = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			}
			if len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
				return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
					return r.Key == "liqo.io/type" && r.Operator == corev1.NodeSelectorOpNotIn && slices.Equal(r.Values, []string{"virtual-node"})
				})
			}) {
				t.Errorf("%s: %s may run on a virtual node: %+v", name, component, terms)
			}
			if pod.NodeSelector["kubernetes.io/os"] != "linux" {
				t.Errorf("%s: %s may run on nodes of another operating system", name, component)
			}
			if name == "defaults" {
				continue
			}
			tolerates := func(key string) bool {
				return slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.Key == key })
			}
			fabric, zone := component == "liqo-fabric", "a"
			if name == "own" && !fabric {
				zone = "b"
			}
			if pod.NodeSelector["zone"] != zone || !tolerates("common") || len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "pull" {
				t.Errorf("%s: %s has selector %v, tolerations %v, pull secrets %v", name, component, pod.NodeSelector, pod.Tolerations, pod.ImagePullSecrets)
			}
			if want := 2; name == "common" && !fabric && len(terms) != want {
				t.Errorf("%s has node affinity %+v, want %d terms", component, terms, want)
			}
			if name == "own" && !fabric && (!tolerates("own") || pod.PriorityClassName != "high" || pod.Affinity.PodAffinity == nil) {
				t.Errorf("%s: %s has priority class %q, tolerations %v, affinity %+v", name, component, pod.PriorityClassName, pod.Tolerations, pod.Affinity)
			}
		}
	}
}

// TestReplicasAreSpreadAndKept: replicas run on different nodes, and a disruption budget prevents the eviction of all of them at the same time.
func TestReplicasAreSpreadAndKept(t *testing.T) {
	for text, several := range map[string]bool{minimal: false, minimal + "\ncontrollerManager: {replicas: 2}\nproxy: {replicas: 3}": true} {
		kept := map[string]bool{}
		for _, object := range render(t, text) {
			if object.GetKind() == "PodDisruptionBudget" {
				kept[object.GetName()] = true
				unavailable, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "maxUnavailable")
				if name, _, _ := unstructured.NestedString(object.Object, "spec", "selector", "matchLabels", "app.kubernetes.io/name"); fmt.Sprint(unavailable) != "1" || "liqo-"+name != object.GetName() {
					t.Errorf("%s: %v", object.GetName(), object.Object["spec"])
				}
			}
		}
		all := pods(t, text)
		for _, component := range []string{"liqo-controller-manager", "liqo-proxy"} {
			apart := map[string]int32{}
			if a := all[component].Affinity; a != nil && a.PodAntiAffinity != nil {
				for _, term := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					if "liqo-"+term.PodAffinityTerm.LabelSelector.MatchLabels["app.kubernetes.io/name"] == component {
						apart[term.PodAffinityTerm.TopologyKey] = term.Weight
					}
				}
			}
			// Topology constraints are not used: where nodes have no zones, a scheduler with constraints for nodes and zones ignores the one for
			// nodes.
			spread := len(all[component].TopologySpreadConstraints) == 0 && apart[corev1.LabelHostname] > apart[corev1.LabelTopologyZone] && apart[corev1.LabelTopologyZone] > 0
			if spread != several || kept[component] != several {
				t.Errorf("%s with several replicas (%t): spread %t, kept %t", component, several, spread, kept[component])
			}
		}
	}
}

// TestOpenShift: on OpenShift, pods run as users that the cluster chooses. Only pods that need more may use other security context constraints.
func TestOpenShift(t *testing.T) {
	for text, openshift := range map[string]bool{minimal: false, minimal + "\nopenshiftConfig: {enabled: true}": true} {
		used := map[string]string{}
		for _, object := range render(t, text) {
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			for _, rule := range rules {
				if groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups"); slices.Contains(groups, "security.openshift.io") {
					names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
					used[object.GetName()] = strings.Join(names, ",")
				}
			}
		}
		if openshift != (len(used) == 3) || openshift && (used["liqo-fabric"] != "privileged" || used["liqo-gateway"] != "privileged" || used["liqo-virtual-kubelet-local"] != "nonroot-v2") {
			t.Errorf("on OpenShift (%t) these may use: %v", openshift, used)
		}
		for _, component := range []string{"liqo-controller-manager", "liqo-proxy"} {
			if s := pods(t, text)[component].SecurityContext; (s.RunAsUser == nil) != openshift || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
				t.Errorf("on OpenShift (%t) %s runs as %+v", openshift, component, s)
			}
		}
	}
}

// TestImagesAreOfOneVersion: every image has a fixed version.
func TestImagesAreOfOneVersion(t *testing.T) {
	for component, pod := range pods(t, minimal) {
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if _, tag, ok := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":"); !ok || tag == "" || tag == "latest" {
				t.Errorf("%s: container %s runs image %s", component, c.Name, c.Image)
			}
		}
	}
}

// TestOneValueChoosesTheRegistry: value registry applies to the images of all containers, and keeps their names and tags.
func TestOneValueChoosesTheRegistry(t *testing.T) {
	const registry = "registry.example.org:5000/team/liqo"
	there := pods(t, minimal+"\nregistry: "+registry)
	for component, pod := range pods(t, minimal) {
		for i, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			got := slices.Concat(there[component].InitContainers, there[component].Containers)[i].Image
			if want := registry + c.Image[strings.LastIndex(c.Image, "/"):]; got != want {
				t.Errorf("%s: container %s runs image %s, want %s", component, c.Name, got, want)
			}
		}
	}
}

// TestUpgradeJob: the hook that updates the custom resource definitions exists only if it is enabled, and may write only Liqo's definitions.
func TestUpgradeJob(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(chart)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{minimal: 0, minimal + "\nliqo-crds: {crdUpgrade: {enabled: true}}": 4} {
		release, err := rendered(chart, "liqo", parse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if len(release.Hooks) != want {
			t.Errorf("%d hooks, want %d", len(release.Hooks), want)
		}
		for _, hook := range release.Hooks {
			object := &unstructured.Unstructured{Object: parse(t, hook.Manifest)}
			if object.GetAnnotations()["helm.sh/hook"] != "pre-upgrade" {
				t.Errorf("%s %s is hook %v", object.GetKind(), object.GetName(), object.GetAnnotations())
			}
			if object.GetKind() != "ClusterRole" {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
			names, _, _ := unstructured.NestedStringSlice(rules[1].(map[string]any), "resourceNames")
			if len(rules) != 2 || len(names) != len(crds) {
				t.Errorf("it may write %v, want the %d definitions of the chart", names, len(crds))
			}
			for _, crd := range crds {
				if !slices.Contains(names, crd.Name) {
					t.Errorf("it may not write %s", crd.Name)
				}
			}
		}
	}
}
