package installer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
)

// everything contains every value that changes the rendered objects.
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

// TestEveryObjectCarriesItsLabels: every object has Liqo's labels, by which it can be recognized, and the labels of the user.
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

// TestAddressRanges: the address ranges of the installation are in objects of the cluster, so that users need not read the Helm release.
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
