package installer

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/offload"
)

func TestValuesThatAreRefused(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{}`: "discovery.config.clusterID is empty",
		`discovery: {config: {clusterID: Rome_1}}`:                                                                     "/discovery/config/clusterID",
		`{discovery: {config: {clusterID: rome}}, pullPolicy: Sometimes}`:                                              "/pullPolicy",
		`{discovery: {config: {clusterID: rome}}, apiServer: {address: "http://x"}}`:                                   "/apiServer/address",
		`{discovery: {config: {clusterID: rome}}, controllerManager: {replicas: "2"}}`:                                 "/controllerManager/replicas",
		`{discovery: {config: {clusterID: rome}}, offloading: {servicePolicy: {refuse: [nodeport]}}}`:                  "/offloading/servicePolicy/refuse",
		`{discovery: {config: {clusterID: rome}}, offloading: {servicePolicy: {refusedLoadBalancerPorts: [0]}}}`:       "/offloading/servicePolicy/refusedLoadBalancerPorts",
		`{discovery: {config: {clusterID: rome}}, offloading: {reflection: {secrets: {workers: 1}}}}`:                  "secrets",
		`{discovery: {config: {clusterID: rome}}, offloading: {namespacePolicy: {quota: {pods: 3}}}}`:                  "/offloading/namespacePolicy/quota",
		`{discovery: {config: {clusterID: rome}}, offloading: {reflection: {secret: {workers: -1}}}}`:                  "/offloading/reflection/secret/workers",
		`{discovery: {config: {clusterID: rome}}, metrics: {enabled: true}, virtualKubelet: {metrics: {port: 10248}}}`: "virtualKubelet.metrics.port is 10248",
	} {
		if _, err := Render(chart, "liqo", parse(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", text, err, want)
		}
	}
	// Values of other versions do no harm.
	if _, err := Render(chart, "liqo", parse(t, minimal+"\nnetworking: {internal: false}\nauth: {config: {enableAuthentication: true}}\n")); err != nil {
		t.Errorf("keys of other versions are refused: %v", err)
	}
}

// TestValuesWithoutEffect: the chart accepts values of other versions that have no effect in this one. The schema describes why, and the release notes warn
// users if such a value differs from what this version does.
func TestValuesWithoutEffect(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	told := func(text string) string {
		t.Helper()
		release, err := rendered(chart, "liqo", parse(t, minimal+"\n"+text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return strings.Join(ignored(release), "\n")
	}
	for text, want := range map[string]string{
		"nameOverride: mine":     "nameOverride: ",
		"fullnameOverride: mine": "fullnameOverride: ",
		"networking: {apiServerAccessThroughEndpointSlices: true}":                              "networking.apiServerAccessThroughEndpointSlices: ",
		"networking: {gatewayTemplates: {wireguard: {preserveClientEndpoint: false}}}":          "preserveClientEndpoint: ",
		"telemetry: {enabled: true}":                                                            "telemetry: nothing is reported",
		"networkManager: {config: {podCIDR: 10.1.0.0/16}}":                                      "networkManager: set ipam.podCIDRs",
		"networking: {gateway: {mssclamp: {value: 1300}}}":                                      "mssclamp.value: ",
		"networking: {serverResources: [{apiVersion: example.org/v1, resource: ovpnservers}]}":  "networking.serverResources: ",
		"metrics: {enabled: true, prometheusRule: {enabled: true}}":                             "metrics.prometheusRule.enabled: this cluster has no kind PrometheusRule",
		"networking: {clientResources: [{apiVersion: example.org/v1, resource: ovpngateways}]}": "networking.clientResources: ",
	} {
		if got := told(text); !strings.Contains(got, want) {
			t.Errorf("%s: told %q, want %q", text, got, want)
		}
	}
	// The defaults of other versions, and values that match what this version always does.
	defaults := `
nameOverride: ""
fullnameOverride: liqo
networking:
  denyDirectConnections: true
  apiServerAccessThroughEndpointSlices: false
  notrack: {enabled: true}
  serverResources: [{apiVersion: networking.liqo.io/v1beta1, resource: wggatewayservers}]
  clientResources: [{apiVersion: networking.liqo.io/v1beta1, resource: wggatewayclients}]
  gateway: {mssclamp: {value: 0}}
  gatewayTemplates: {nftablesMonitor: true, routeMonitor: true, wireguard: {preserveClientEndpoint: true}}
  fabric: {config: {nftablesMonitor: false, routeMonitor: true, gatewayMasqueradeBypass: true}}
telemetry: {enabled: false}
metricAgent: {enabled: false, pod: {extraArgs: []}}
`
	if got := told(defaults); got != "" {
		t.Errorf("told %q of values that ask for what happens", got)
	}
	var schema map[string]any
	if err := json.Unmarshal(chart.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	var described func(schema map[string]any, values any, path string)
	described = func(schema map[string]any, values any, path string) {
		object, ok := values.(map[string]any)
		text, _, _ := unstructured.NestedString(schema, "description")
		if strings.HasPrefix(text, "Accepted for compatibility. Without effect: ") {
			return
		}
		if !ok {
			t.Errorf("%s: the schema says %q", path, text)
		}
		for key, value := range object {
			sub, _, _ := unstructured.NestedMap(schema, "properties", key)
			described(sub, value, path+"."+key)
		}
	}
	described(schema, parse(t, defaults), "")
}

// TestValuesAreText: whatever characters a user writes into a value or a label, the rendered object contains the same text.
func TestValuesAreText(t *testing.T) {
	objects := render(t, `
tag: "sha256:`+strings.Repeat("0", 64)+`"
apiServer: {address: "https://rome.example.org:6443/a: b # c"}
discovery: {config: {clusterID: rome, clusterLabels: {note: "x: y # z"}}}
`)
	deployment := find(t, objects, "Deployment", "liqo-controller-manager")
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--api-server-address=https://rome.example.org:6443/a: b # c", "--cluster-labels=note=x: y # z"} {
		if !contains(args, want) {
			t.Errorf("no argument %q in %v", want, args)
		}
	}
	if label := deployment.GetLabels()["app.kubernetes.io/version"]; len(validation.IsValidLabelValue(label)) > 0 {
		t.Errorf("%q is no label", label)
	}
}

// TestUsualNamesAreRefusedToConsumers: by default, consumers get no namespace with a usual name of a program that other namespaces trust, also if it
// is free.
func TestUsualNamesAreRefusedToConsumers(t *testing.T) {
	manager, _ := arguments(t, render(t, minimal))
	policy := offload.NamespacePolicy{LiqoNamespace: "liqo"}
	for _, arg := range manager {
		if list, is := strings.CutPrefix(arg, "--refused-namespaces="); is {
			policy.Refused = strings.Split(list, ",")
		}
		if list, is := strings.CutPrefix(arg, "--chosen-namespaces="); is {
			policy.Chosen = strings.Split(list, ",")
		}
	}
	for name, refused := range map[string]bool{
		"vault": true, "cert-manager": true, "external-secrets": true, "argocd": true, "flux": true, "istio-system": true, "istio-gateway": true,
		"ingress-nginx": true, "monitoring": true, "openshift-config": true, "shop": false,
	} {
		if got := policy.Refuses(offload.NamespacePair{Local: name, Remote: name}, "rome"); got != refused {
			t.Errorf("%s is refused: %v, want %v", name, got, refused)
		}
	}
}
