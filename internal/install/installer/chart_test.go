package installer

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
)

// everything sets every value that makes the chart write something else.
const everything = `
tag: v9.9.9
pullPolicy: Always
imagePullSecrets: [{name: pull}]
metrics: {enabled: true, prometheusOperator: {enabled: true}, prometheusRule: {enabled: true}}
apiServer: {address: "https://rome.example.org:6443", ca: QUJD, trustedCA: true}
authentication: {tlsCompatibilityMode: true, defaultResourceSliceClassEnabled: false}
offloading:
  createNode: false
  disableNetworkCheck: true
  defaultNodeResources: {cpu: 2, memory: 1Gi}
  reflection: {skip: {labels: [a], annotations: [b]}, pod: {workers: 3}, service: {workers: 2, type: AllowList}}
common:
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{operator: Exists}]
  affinity: {podAntiAffinity: {}}
  extraArgs: [--common]
  globalLabels: {team: blue}
  globalAnnotations: {note: text}
controllerManager:
  replicas: 2
  pod: {annotations: {a: b}, labels: {c: d}, extraArgs: ["--extra=x,y"], priorityClassName: high, resources: {limits: {memory: 1Gi}}}
  image: {name: example.org/cm, version: "sha256:0000"}
  config: {enableResourceEnforcement: false, defaultLimitsEnforcement: hard}
  metrics: {serviceMonitor: {enabled: true, interval: 30s, scrapeTimeout: 10s}}
webhook: {port: 10443, failurePolicy: Ignore}
networking: {enabled: true}
proxy:
  replicas: 2
  pod: {annotations: {a: b}, labels: {c: d}, extraArgs: ["--grace=5s"], priorityClassName: high, resources: {limits: {memory: 64Mi}}}
  image: {name: example.org/proxy, version: v3}
  service: {type: NodePort, annotations: {e: f}}
  config: {listeningPort: 9118}
discovery: {config: {clusterID: rome, clusterLabels: {region: europe, zone: 1}}}
virtualKubelet:
  replicas: 2
  image: {name: example.org/vk, version: v2}
  extra: {annotations: {a: b}, labels: {c: d}, args: [--x], tolerations: [{operator: Exists}], resources: {}}
  virtualNode: {extra: {annotations: {e: f}, labels: {g: h}}}
  metrics: {port: 9090, podMonitor: {enabled: true, interval: 30s, scrapeTimeout: 10s}}
`

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func render(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := Render(chart, "liqo", parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, document := range strings.Split(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
	return out
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("the chart renders no %s %s", kind, name)
	return nil
}

// TestLint runs what "helm lint" runs, on the files as they are embedded.
func TestLint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "liqo")
	if err := os.CopyFS(dir, charts.Files); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"minimal": minimal, "everything": everything} {
		result := lint.RunAll(dir, parse(t, text), "liqo")
		for _, message := range result.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s values: %v", name, message)
			}
		}
	}
}

const minimal = `discovery: {config: {clusterID: rome}}`

// TestEveryObjectCarriesItsLabels: what is ours can be recognised, and carries the user's labels.
func TestEveryObjectCarriesItsLabels(t *testing.T) {
	for _, object := range render(t, everything) {
		labels := object.GetLabels()
		for key, want := range map[string]string{
			"app.kubernetes.io/part-of": "liqo", "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "v9.9.9",
			"liqo.io/managed": "true", "team": "blue",
		} {
			if labels[key] != want {
				t.Errorf("%s %s: label %s is %q, want %q", object.GetKind(), object.GetName(), key, labels[key], want)
			}
		}
		for _, key := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"} {
			if labels[key] == "" {
				t.Errorf("%s %s: no label %s", object.GetKind(), object.GetName(), key)
			}
		}
		if object.GetAnnotations()["note"] != "text" {
			t.Errorf("%s %s: no global annotation", object.GetKind(), object.GetName())
		}
		if _, hook := object.GetAnnotations()["helm.sh/hook"]; hook {
			t.Errorf("%s %s is a Helm hook", object.GetKind(), object.GetName())
		}
		if object.GetKind() == "Namespace" && object.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("the release has namespace %s, and deletes everything in it when it is removed", object.GetName())
		}
	}
}

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

// TestProxyHasNoRights: it is there with our network only, holds no token and can do nothing in the cluster.
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

func TestValuesThatAreRefused(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{}`: "discovery.config.clusterID is empty",
		`discovery: {config: {clusterID: Rome_1}}`:                                                               "/discovery/config/clusterID",
		`{discovery: {config: {clusterID: rome}}, pullPolicy: Sometimes}`:                                        "/pullPolicy",
		`{discovery: {config: {clusterID: rome}}, apiServer: {address: "http://x"}}`:                             "/apiServer/address",
		`{discovery: {config: {clusterID: rome}}, controllerManager: {replicas: "2"}}`:                           "/controllerManager/replicas",
		`{discovery: {config: {clusterID: rome}}, offloading: {servicePolicy: {refuse: [nodeport]}}}`:            "/offloading/servicePolicy/refuse",
		`{discovery: {config: {clusterID: rome}}, offloading: {servicePolicy: {refusedLoadBalancerPorts: [0]}}}`: "/offloading/servicePolicy/refusedLoadBalancerPorts",
		`{discovery: {config: {clusterID: rome}}, offloading: {reflection: {secrets: {workers: 1}}}}`:            "secrets",
		`{discovery: {config: {clusterID: rome}}, offloading: {namespacePolicy: {quota: {pods: 3}}}}`:            "/offloading/namespacePolicy/quota",
		`{discovery: {config: {clusterID: rome}}, offloading: {reflection: {secret: {workers: -1}}}}`:            "/offloading/reflection/secret/workers",
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

// TestValuesWithoutEffect: what other versions know and this one has no use for is taken, the schema says why, and who asks for something else than what
// happens is told.
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
		"networking: {clientResources: [{apiVersion: example.org/v1, resource: ovpngateways}]}": "networking.clientResources: ",
	} {
		if got := told(text); !strings.Contains(got, want) {
			t.Errorf("%s: told %q, want %q", text, got, want)
		}
	}
	// The defaults of other versions, and what happens anyway.
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

func TestCRDsAreEmbedded(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs(chart)
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.ReadDir(charts.Files, charts.CRDs)
	if err != nil || len(crds) != len(files) || len(crds) < 11 {
		t.Errorf("%d definitions of %d files: %v", len(crds), len(files), err)
	}
}

func contains(list []string, want string) bool {
	for _, item := range list {
		if item == want {
			return true
		}
	}
	return false
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

// TestValuesAreText: what a user writes into a value stays a value, and a label stays a label, whatever is in it.
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

// TestAddressRanges: what the installation was told can be looked up without reading the release.
func TestAddressRanges(t *testing.T) {
	for text, want := range map[string]map[string]string{
		minimal: {"POD_CIDRS": "", "SERVICE_CIDR": "", "EXTERNAL_CIDR": "10.70.0.0/16", "INTERNAL_CIDR": "10.80.0.0/16"},
		minimal + "\nnetworking: {enabled: false}": {"POD_CIDRS": "", "SERVICE_CIDR": "", "EXTERNAL_CIDR": "", "INTERNAL_CIDR": ""},
		minimal + "\nipam: {podCIDRs: [10.1.0.0/16, 10.2.0.0/16], serviceCIDR: 10.3.0.0/16, externalCIDR: 10.4.0.0/16, internalCIDR: 10.5.0.0/16}": {
			"POD_CIDRS": "10.1.0.0/16,10.2.0.0/16", "SERVICE_CIDR": "10.3.0.0/16", "EXTERNAL_CIDR": "10.4.0.0/16", "INTERNAL_CIDR": "10.5.0.0/16",
		},
		minimal + "\nnetworking: {internal: false}\nipam: {podCIDR: 10.1.0.0/16}": {"POD_CIDRS": "10.1.0.0/16", "SERVICE_CIDR": "", "EXTERNAL_CIDR": "", "INTERNAL_CIDR": ""},
	} {
		got, _, _ := unstructured.NestedStringMap(find(t, render(t, text), "ConfigMap", "liqo-network-configmap").Object, "data")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestEveryContainerHasAMemoryLimit: those of the chart, and those that controllers make of its templates. One that leaks memory ends before its node is short of it.
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
						if !ok || container["image"] == nil { // no container but a field of that name
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
	for _, object := range render(t, `{discovery: {config: {clusterID: rome}}}`) {
		walk(object.GetKind()+" "+object.GetName(), object.Object)
		if object.GetKind() == "VkOptionsTemplate" {
			options++
			resources, _, _ := unstructured.NestedMap(object.Object, "spec", "resources")
			if !limited(resources) {
				t.Errorf("VkOptionsTemplate %s has no memory limit", object.GetName())
			}
		}
	}
	if found < 5 || options == 0 {
		t.Errorf("%d containers and %d VkOptionsTemplates were looked at", found, options)
	}
}
