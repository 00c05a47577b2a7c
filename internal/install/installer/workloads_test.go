package installer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestControllerManager(t *testing.T) {
	objects := render(t, everything)
	deployment := find(t, objects, "Deployment", "liqo-controller-manager")
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers %v: %v", containers, err)
	}
	container := containers[0].(map[string]any)
	if container["image"] != "example.org/cm@sha256:0000" {
		t.Errorf("image %v", container["image"])
	}
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	for _, want := range []string{
		"--cluster-id=rome", "--cluster-labels=region=europe,zone=1", "--api-server-address=https://rome.example.org:6443",
		"--api-server-ca=QUJD", "--trusted-ca", "--enable-authentication=true", "--default-resource-slice-class-enabled=false",
		"--tls-compatibility-mode", "--default-limits-enforcement=Hard", "--replicas=2", "--webhook-port=10443",
		"--metrics-address=:8082", "--global-labels=liqo.io/managed=true,team=blue", "--global-annotations=note=text", "--common", "--extra=x,y",
	} {
		if !contains(args, want) {
			t.Errorf("no argument %s in %v", want, args)
		}
	}
	if strategy, _, _ := unstructured.NestedString(deployment.Object, "spec", "strategy", "type"); strategy != "RollingUpdate" {
		t.Errorf("strategy %s with two replicas", strategy)
	}
	single := find(t, render(t, minimal), "Deployment", "liqo-controller-manager")
	if strategy, _, _ := unstructured.NestedString(single.Object, "spec", "strategy", "type"); strategy != "Recreate" {
		t.Errorf("strategy %s with one replica: two would work at the same time", strategy)
	}
}

// TestProxyHasNoRights: the proxy exists only with Liqo's network, and has neither a token nor permissions.
func TestProxyHasNoRights(t *testing.T) {
	objects := render(t, everything)
	spec, _, err := unstructured.NestedMap(find(t, objects, "Deployment", "liqo-proxy").Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	account := find(t, objects, "ServiceAccount", "liqo-proxy")
	if spec["automountServiceAccountToken"] != false || account.Object["automountServiceAccountToken"] != false || spec["hostNetwork"] != nil {
		t.Errorf("the proxy's pod has more than it needs: %v", spec)
	}
	for _, object := range objects {
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		for _, subject := range subjects {
			if subject.(map[string]any)["name"] == "liqo-proxy" {
				t.Errorf("%s %s gives the proxy rights", object.GetKind(), object.GetName())
			}
		}
	}
	container := spec["containers"].([]any)[0].(map[string]any)
	if args, _, _ := unstructured.NestedStringSlice(container, "args"); container["image"] != "example.org/proxy:v3" || !contains(args, "--listen=:9118") || !contains(args, "--grace=5s") {
		t.Errorf("image %v, arguments %v", container["image"], args)
	}
	for name, text := range map[string]string{
		"without networking": minimal + "\nnetworking: {enabled: false}", "with somebody else's network": minimal + "\nnetworking: {enabled: true, internal: false}",
		"switched off": minimal + "\nnetworking: {enabled: true}\nproxy: {enabled: false}",
	} {
		for _, object := range render(t, text) {
			if object.GetName() == "liqo-proxy" {
				t.Errorf("%s there is a %s", name, object.GetKind())
			}
		}
	}
}

// TestEveryContainerHasAMemoryLimit: the containers of the chart, and those that controllers create from its templates, have a memory limit. So a memory leak
// ends the container before its node runs out of memory.
func TestEveryContainerHasAMemoryLimit(t *testing.T) {
	limited := func(resources any) bool {
		limits, _, _ := unstructured.NestedMap(map[string]any{"resources": resources}, "resources", "limits")
		return limits["memory"] != nil
	}
	found := 0
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				containers, list := inner.([]any)
				if list && (key == "containers" || key == "initContainers") {
					for _, c := range containers {
						container, ok := c.(map[string]any)
						if !ok || container["image"] == nil { // a field of that name that is no list of containers
							continue
						}
						found++
						if !limited(container["resources"]) {
							t.Errorf("%s: container %v has no memory limit", path, container["name"])
						}
					}
				}
				walk(path+"."+key, inner)
			}
		case []any:
			for _, inner := range v {
				walk(path, inner)
			}
		}
	}
	options := 0
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
		seen[object.GetKind()+" "+object.GetName()] = true
		walk(object.GetKind()+" "+object.GetName(), object.Object)
		if object.GetKind() == "VkOptionsTemplate" {
			options++
			resources, _, _ := unstructured.NestedMap(object.Object, "spec", "resources")
			if !limited(resources) {
				t.Errorf("VkOptionsTemplate %s has no memory limit", object.GetName())
			}
		}
	}
	for _, name := range []string{
		"Deployment liqo-controller-manager", "Deployment liqo-discovery", "Deployment liqo-proxy", "DaemonSet liqo-fabric", "Job liqo-crd-upgrade",
	} {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	if found < 9 || options == 0 { // the containers above and those of both gateways
		t.Errorf("%d containers and %d VkOptionsTemplates were looked at", found, options)
	}
}
