package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/offload/kubelet"
)

// TestReflectionValues: each documented value of the chart about reflection has an effect.
func TestReflectionValues(t *testing.T) {
	workers := func(kind string) func(*installed) string {
		return func(o *installed) string { return fmt.Sprint(o.kubelet.workers(kind)) }
	}
	which := func(kind string) func(*installed) string {
		return func(o *installed) string { return string(o.kubelet.reflection[kind].reflectionType) }
	}
	rows := map[string]struct {
		value  any
		effect func(*installed) string
		want   string
	}{
		"skip.labels":         {[]any{"team"}, func(o *installed) string { return fmt.Sprint(o.kubelet.labelsNotReflected) }, "[team]"},
		"include.labels":      {[]any{"example.org/a", "b/*"}, func(o *installed) string { return fmt.Sprint(o.kubelet.labelsReflected) }, "[example.org/a b/*]"},
		"include.annotations": {[]any{"example.org/c"}, func(o *installed) string { return fmt.Sprint(o.kubelet.annotationsReflected) }, "[example.org/c]"},
		"skip.annotations":    {[]any{"note*"}, func(o *installed) string { return o.kubelet.annotationsNotReflected[0] }, "note*"},
		"service.loadBalancerClasses": {
			[]any{map[string]any{"name": "a"}, map[string]any{"name": "b/c", "default": true}},
			func(o *installed) string { return fmt.Sprint(o.manager.LoadBalancerClasses) }, fmt.Sprint([]authv1beta1.LoadBalancerType{{LoadBalancerClassName: "a"}, {LoadBalancerClassName: "b/c", Default: true}}),
		},
		"ingress.ingressClasses": {
			[]any{map[string]any{"name": "nginx", "default": true}},
			func(o *installed) string { return fmt.Sprint(o.manager.IngressClasses) }, fmt.Sprint([]authv1beta1.IngressType{{IngressClassName: "nginx", Default: true}}),
		},
	}
	for _, kind := range []string{"pod", "service", "endpointslice", "ingress", "configmap", "secret", "serviceaccount", "persistentvolumeclaim", "event", "networkpolicy", "poddisruptionbudget"} {
		rows[kind+".workers"] = struct {
			value  any
			effect func(*installed) string
			want   string
		}{17, workers(kind), "17"}
	}
	for _, kind := range []string{"service", "ingress", "configmap", "secret", "event", "networkpolicy", "poddisruptionbudget"} {
		rows[kind+".type"] = struct {
			value  any
			effect func(*installed) string
			want   string
		}{"AllowList", which(kind), "AllowList"}
	}
	loaded, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	offloading, _ := loaded.Values["offloading"].(map[string]any)
	documented, _ := offloading["reflection"].(map[string]any)
	var keys []string
	for kind, values := range documented {
		for key := range values.(map[string]any) {
			keys = append(keys, kind+"."+key)
		}
	}
	slices.Sort(keys)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(rows)), keys); diff != "" {
		t.Fatalf("values (-tried +documented):\n%s", diff)
	}
	set := map[string]any{}
	for path, row := range rows {
		kind, key, _ := strings.Cut(path, ".")
		values, _ := set[kind].(map[string]any)
		if values == nil {
			values = map[string]any{}
			set[kind] = values
		}
		values[key] = row.value
	}
	before, after := install(t, map[string]any{}), install(t, map[string]any{"reflection": set})
	for path, row := range rows {
		if before, after := row.effect(before), row.effect(after); before == row.want || after != row.want {
			t.Errorf("%s: %s by default, %s with %v, want %s", path, before, after, row.value, row.want)
		}
	}
}

// installed holds the flags and objects by which an installation configures the programs.
type installed struct {
	manager *ControllerManagerOptions
	kubelet *virtualKubeletOptions
}

// install renders the chart with these values about offloading, and parses the resulting flags.
func install(t *testing.T, offloading map[string]any) *installed {
	t.Helper()
	return installWith(t, map[string]any{"offloading": offloading})
}

func installWith(t *testing.T, values map[string]any) *installed {
	t.Helper()
	values["discovery"] = map[string]any{"config": map[string]any{"clusterID": "rome"}}
	loaded, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := installer.Render(loaded, "liqo", values)
	if err != nil {
		t.Fatal(err)
	}
	out := &installed{}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		switch {
		case strings.Contains(document, "kind: VkOptionsTemplate"):
			template := &offloadingv1beta1.VkOptionsTemplate{}
			if err := yaml.Unmarshal([]byte(document), template); err != nil {
				t.Fatal(err)
			}
			node := &offloadingv1beta1.VirtualNode{}
			node.Name, node.Namespace, node.Spec.ClusterID = "milan", "liqo-tenant-milan", "milan"
			node.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "x"}
			pod := kubelet.Deployment(node, kubelet.Facts{ClusterID: "rome", Options: &template.Spec}).Spec.Template.Spec
			if out.kubelet, err = parseVirtualKubelet(pod.Containers[0].Args); err != nil {
				t.Fatal(err)
			}
		case strings.Contains(document, "kind: Deployment") && strings.Contains(document, "name: liqo-controller-manager\n"):
			deployment := &appsv1.Deployment{}
			if err := yaml.Unmarshal([]byte(document), deployment); err != nil {
				t.Fatal(err)
			}
			if out.manager, err = parse(deployment.Spec.Template.Spec.Containers[0].Args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out.manager == nil || out.kubelet == nil {
		t.Fatal("the chart renders no controller manager, or no VkOptionsTemplate")
	}
	return out
}
