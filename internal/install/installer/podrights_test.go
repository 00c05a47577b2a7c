package installer

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"liqo.io/liqo/test/podtest"
)

// podRights are the rights of the pods of the chart, with their reasons.
var podRights = map[string]map[string]string{
	"Deployment liqo-controller-manager": {"token": "it works for objects of the API server"},
	"Deployment liqo-discovery":          {"token": "it writes ForeignClusters", "host network": "multicast DNS packets of the local network reach no pod"},
	"Deployment liqo-proxy":              {},
	"Job liqo-crd-upgrade":               {"token": "it writes the custom resource definitions"},
	"DaemonSet liqo-fabric": {
		"token": "it reads the objects of the network", "host network": "it sets the routes of the node",
		"fabric may be root": "a process has NET_ADMIN only as root, because its program has no file capabilities", "fabric adds NET_ADMIN": "it sets the routes of the node",
	},
	"WgGatewayServerTemplate wireguard-server": gatewayRights,
	"WgGatewayClientTemplate wireguard-client": gatewayRights,
}

// gatewayRights are the rights of the pod of a gateway.
var gatewayRights = map[string]string{
	"host path":           "the device /dev/net/tun, for a tunnel in user space",
	"prepare may be root": "it writes settings of the network namespace of the pod, which only root may", "prepare is privileged": "the settings are in /proc/sys, which is read-only otherwise",
	"prepare may gain privileges": "a privileged container always may", "prepare keeps capabilities": "a privileged container has all",
	"wireguard may be root": "a process has NET_ADMIN only as root, because its program has no file capabilities", "wireguard adds NET_ADMIN": "it creates the tunnel",
	"gateway may be root": "a process has NET_ADMIN only as root, because its program has no file capabilities", "gateway adds NET_ADMIN": "it sets the routes and the address translation of the pod",
}

// TestPodsOfTheChartHaveFewRights: each pod in any object of the chart and of its hooks has no token, no root, no capabilities, a seccomp profile and a memory limit,
// except for what podRights lists with its reason.
func TestPodsOfTheChartHaveFewRights(t *testing.T) {
	const all = `{discovery: {config: {clusterID: rome, enableDiscovery: true}}, liqo-crds: {crdUpgrade: {enabled: true}}}`
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	release, err := rendered(chart, "liqo", parse(t, all))
	if err != nil {
		t.Fatal(err)
	}
	objects := render(t, all)
	for _, hook := range release.Hooks {
		objects = append(objects, &unstructured.Unstructured{Object: parse(t, hook.Manifest)})
	}
	seen := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		name := object.GetKind() + " " + object.GetName()
		for _, pod := range podsIn(t, object.Object) {
			seen[name] = true
			allowed, listed := podRights[name]
			if !listed {
				t.Errorf("%s has a pod, and podRights has no entry for it", name)
			}
			podtest.Check(t, name, pod, allowed)
		}
	}
	for name := range podRights {
		if !seen[name] {
			t.Errorf("%s has no pod any more: remove it from podRights", name)
		}
	}
}

// podsIn returns the pods in an object, wherever they are: in a Pod, in a template, or in a field without a schema. It reads only the fields that podtest checks, because
// fields of the templates of gateways hold text that is replaced later.
func podsIn(t *testing.T, value any) (out []*corev1.PodSpec) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		list, _ := v["containers"].([]any)
		if slices.ContainsFunc(list, func(c any) bool { container, is := c.(map[string]any); return is && container["image"] != nil }) {
			return append(out, podOf(t, v))
		}
		for _, inner := range v {
			out = append(out, podsIn(t, inner)...)
		}
	case []any:
		for _, inner := range v {
			out = append(out, podsIn(t, inner)...)
		}
	}
	return out
}

func podOf(t *testing.T, spec map[string]any) *corev1.PodSpec {
	t.Helper()
	pick := func(from map[string]any, fields ...string) map[string]any {
		to := map[string]any{}
		for _, field := range fields {
			if from[field] != nil {
				to[field] = from[field]
			}
		}
		return to
	}
	picked := pick(spec, "automountServiceAccountToken", "hostNetwork", "hostPID", "hostIPC", "securityContext", "volumes")
	for _, field := range []string{"initContainers", "containers"} {
		list, _ := spec[field].([]any)
		containers := []any{}
		for _, c := range list {
			containers = append(containers, pick(c.(map[string]any), "name", "securityContext", "resources"))
		}
		picked[field] = containers
	}
	data, err := json.Marshal(picked)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.PodSpec{}
	if err := json.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
