package installer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// arguments returns the arguments of the controller manager and of virtual kubelets.
func arguments(t *testing.T, objects []*unstructured.Unstructured) (manager, kubelets []string) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(find(t, objects, "Deployment", "liqo-controller-manager").Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range containers[0].(map[string]any)["args"].([]any) {
		manager = append(manager, fmt.Sprint(arg))
	}
	kubelets, _, err = unstructured.NestedStringSlice(find(t, objects, "VkOptionsTemplate", "virtual-kubelet-default").Object, "spec", "extraArgs")
	if err != nil {
		t.Fatal(err)
	}
	return manager, kubelets
}

// TestNetworkingOnAndOff: without Liqo's network, none of its components is installed, and addresses are not translated.
func TestNetworkingOnAndOff(t *testing.T) {
	const id = "discovery: {config: {clusterID: rome}}\nipam: {podCIDRs: [10.244.0.0/16, 'fd00:10::/56'], serviceCIDR: 10.96.0.0/12, reservedSubnets: [192.0.2.0/24], pools: [10.0.0.0/8, 172.16.0.0/12]}\nvirtualKubelet: {extra: {args: [--mine]}}\n"
	ours := func(object *unstructured.Unstructured) bool {
		return object.GetLabels()["app.kubernetes.io/component"] == "networking" && object.GetName() != "liqo-network-configmap" ||
			strings.HasPrefix(object.GetName(), "liqo-proxy") || strings.HasPrefix(object.GetAPIVersion(), "networking.liqo.io/")
	}
	on := render(t, id+"networking: {gateway: {gatewayTemplateWatchEnabled: false}, gatewayTemplates: {ping: {updateStatusInterval: 5s}}}")
	for _, object := range []struct{ kind, name string }{
		{"DaemonSet", "liqo-fabric"}, {"WgGatewayServerTemplate", "wireguard-server"}, {"WgGatewayClientTemplate", "wireguard-client"},
		{"ClusterRole", "liqo-gateway"}, {"ValidatingAdmissionPolicy", "liqo-gateway"}, {"Deployment", "liqo-proxy"}, {"Network", "pod-cidr"},
	} {
		if !ours(find(t, on, object.kind, object.name)) {
			t.Errorf("%s %s is not told apart as part of the network", object.kind, object.name)
		}
	}
	// The ranges that consumers must not use, because they belong to this cluster, whichever network connects the clusters.
	const own = "--own-cidrs=10.244.0.0/16,fd00:10::/56,10.96.0.0/12,192.0.2.0/24"
	manager, kubelets := arguments(t, on)
	for _, want := range []string{"--enable-networking=true", own, "--ipam-pools=10.0.0.0/8,172.16.0.0/12", "--watch-gateway-templates=false", "--connection-update-interval=5s"} {
		if !slices.Contains(manager, want) {
			t.Errorf("%v lack %s", manager, want)
		}
	}
	if !slices.Equal(kubelets, []string{"--mine"}) {
		t.Errorf("virtual kubelets get %v", kubelets)
	}
	for values, want := range map[string][]string{
		"networking: {enabled: false}":                     {"--translate-ips=false", "--mine"},
		"networking: {internal: false}":                    {"--translate-ips=false", "--mine"},
		"networking: {enabled: false, internal: true}":     {"--translate-ips=false", "--mine"},
		"networking: {internal: false, reflectIPs: false}": {"--reflect-ips=false", "--translate-ips=false", "--mine"},
	} {
		off := render(t, id+values)
		for _, object := range off {
			if ours(object) {
				t.Errorf("%s: the chart makes %s %s", values, object.GetKind(), object.GetName())
			}
		}
		manager, kubelets := arguments(t, off)
		if !slices.Contains(manager, "--enable-networking=false") || !slices.Contains(manager, own) || slices.ContainsFunc(manager, func(arg string) bool { return strings.HasPrefix(arg, "--ipam-pools") }) {
			t.Errorf("%s: %v", values, manager)
		}
		if !slices.Equal(kubelets, want) {
			t.Errorf("%s: virtual kubelets get %v, want %v", values, kubelets, want)
		}
	}
}
