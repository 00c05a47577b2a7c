package installer

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/metrics"
	"liqo.io/liqo/internal/offload/kinds"
)

// monitored returns the kinds and names of the objects for Prometheus that the chart renders in a cluster with these kinds of the Prometheus Operator.
func monitored(t *testing.T, values string, kinds ...string) []string {
	t.Helper()
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	capabilities := *common.DefaultCapabilities
	for _, kind := range kinds {
		capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), "monitoring.coreos.com/v1/"+kind)
	}
	all, err := util.ToRenderValues(chart, parse(t, values), common.ReleaseOptions{Name: "liqo", Namespace: "liqo"}, &capabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, document := range strings.Split(rendered["liqo/templates/monitors.yaml"], "\n---\n") {
		var object struct {
			Kind     string                `json:"kind"`
			Metadata struct{ Name string } `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.Kind != "" {
			found = append(found, object.Kind+" "+object.Metadata.Name)
		}
	}
	slices.Sort(found)
	return found
}

// TestMonitorsFollowTheOperator: metrics.enabled suffices where the cluster has the kinds of the Prometheus Operator. In other clusters, the chart renders only
// Services.
func TestMonitorsFollowTheOperator(t *testing.T) {
	const on = minimal + "\nmetrics: {enabled: true"
	services := []string{"Service liqo-controller-manager-metrics", "Service liqo-fabric-metrics"}
	pods := []string{"PodMonitor liqo-fabric", "PodMonitor liqo-gateway", "PodMonitor liqo-proxy", "PodMonitor liqo-virtual-kubelet"}
	monitors := slices.Concat(pods, services, []string{"ServiceMonitor liqo-controller-manager-metrics"})
	for _, row := range []struct {
		values string
		kinds  []string
		want   []string
	}{
		{minimal, []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"}, nil},
		{on + "}", nil, services},
		{on + "}", []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"}, monitors},
		{on + "}", []string{"PodMonitor"}, slices.Concat(pods, services)},
		{on + ", prometheusOperator: {enabled: true}}", nil, monitors},
		{on + "}\nnetworking: {enabled: false}", []string{"PodMonitor"}, []string{"PodMonitor liqo-virtual-kubelet", services[0]}},
		{on + ", prometheusRule: {enabled: true}}", nil, services},
		{on + ", prometheusRule: {enabled: true}}", []string{"PrometheusRule"}, slices.Concat([]string{"PrometheusRule liqo"}, services)},
	} {
		slices.Sort(row.want)
		if got := monitored(t, row.values, row.kinds...); !slices.Equal(got, row.want) {
			t.Errorf("%s with the kinds %v: %v, want %v", row.values, row.kinds, got, row.want)
		}
	}
}

// TestMonitorsScrapeNoPodsOfPeers: a pod of a consumer can't have the labels by which a monitor selects pods in all namespaces. Otherwise its metrics would
// count as metrics of this cluster.
func TestMonitorsScrapeNoPodsOfPeers(t *testing.T) {
	everywhere := 0
	for _, object := range render(t, minimal+"\nmetrics: {enabled: true, prometheusOperator: {enabled: true}}") {
		wide, _, _ := unstructured.NestedBool(object.Object, "spec", "namespaceSelector", "any")
		if !wide {
			continue
		}
		everywhere++
		labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
		if err != nil || len(labels) == 0 {
			t.Fatalf("%s %s selects by %v: %v", object.GetKind(), object.GetName(), labels, err)
		}
		if object.GetKind() != "PodMonitor" {
			t.Errorf("%s %s selects in all namespaces: objects of consumers too", object.GetKind(), object.GetName())
		}
		left := maps.Clone(labels)
		kinds.RefusePodLabels(left, []string{"*"}, nil)
		if len(left) == len(labels) {
			t.Errorf("%s %s selects pods by %v, and the Pod of a consumer may have these labels", object.GetKind(), object.GetName(), labels)
		}
	}
	if everywhere != 2 {
		t.Errorf("%d monitors select in all namespaces, want those of gateways and virtual kubelets", everywhere)
	}
}

// TestMonitorsTrustNoLabels: a pod of a user with the labels of a gateway or a virtual kubelet is not scraped, whatever the name of its controller. A pod that is
// scraped adds metrics of Liqo and of its process only, up to a limit.
func TestMonitorsTrustNoLabels(t *testing.T) {
	type relabeling struct {
		Action, Regex string
		SourceLabels  []string
	}
	type monitor struct {
		SampleLimit         int
		NamespaceSelector   struct{ Any bool }
		PodMetricsEndpoints []struct{ Relabelings, MetricRelabelings []relabeling }
	}
	passes := func(rules []relabeling, labels map[string]string) bool {
		for _, rule := range rules {
			if rule.Action != "keep" {
				t.Errorf("the action is %s", rule.Action)
			}
			values := make([]string, len(rule.SourceLabels))
			for i, label := range rule.SourceLabels {
				values[i] = labels[label]
			}
			if !regexp.MustCompile("^(?:" + rule.Regex + ")$").MatchString(strings.Join(values, ";")) { // as Prometheus does
				return false
			}
		}
		return true
	}
	for _, object := range render(t, minimal+"\nmetrics: {enabled: true, prometheusOperator: {enabled: true, namespaces: [liqo-tenant-*, peers]}}") {
		if object.GetKind() != "PodMonitor" {
			continue
		}
		data, err := json.Marshal(object.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		var spec monitor
		if err := json.Unmarshal(data, &spec); err != nil {
			t.Fatal(err)
		}
		if !spec.NamespaceSelector.Any {
			continue // the namespace of the installation
		}
		if spec.SampleLimit == 0 {
			t.Errorf("PodMonitor %s has no limit of samples", object.GetName())
		}
		prefix := map[string]string{"liqo-gateway": "gw-", "liqo-virtual-kubelet": "vk-"}[object.GetName()]
		for _, row := range []struct {
			namespace, kind, controller string
			want                        bool
		}{
			{"liqo-tenant-milan", "ReplicaSet", prefix + "milan-5d4f", true}, {"liqo", "ReplicaSet", prefix + "milan-5d4f", true}, {"peers", "ReplicaSet", prefix + "a-5d4f", true},
			{"team", "ReplicaSet", prefix + "milan-5d4f", false}, {"liqo-team", "ReplicaSet", prefix + "milan-5d4f", false}, {"peers-b", "ReplicaSet", prefix + "a-5d4f", false},
			{"liqo-tenant-milan", "ReplicaSet", "web-5d4f", false}, {"liqo-tenant-milan", "Job", prefix + "milan-5d4f", false}, {"liqo-tenant-milan", "", "", false},
		} {
			for _, endpoint := range spec.PodMetricsEndpoints {
				got := passes(endpoint.Relabelings, map[string]string{
					"__meta_kubernetes_namespace": row.namespace, "__meta_kubernetes_pod_controller_kind": row.kind, "__meta_kubernetes_pod_controller_name": row.controller,
				})
				if got != row.want {
					t.Errorf("PodMonitor %s scrapes pods of %s %s in namespace %s: %t", object.GetName(), row.kind, row.controller, row.namespace, got)
				}
			}
		}
		for name, want := range map[string]bool{"liqo_peer_is_connected": true, "process_cpu_seconds_total": true, "go_goroutines": true, "kube_pod_info": false, "up": false} {
			for _, endpoint := range spec.PodMetricsEndpoints {
				if got := passes(endpoint.MetricRelabelings, map[string]string{"__name__": name}); got != want {
					t.Errorf("PodMonitor %s keeps metric %s: %t, want %t", object.GetName(), name, got, want)
				}
			}
		}
	}
}

// alert is a rule of the chart.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d alerts were read", len(all))
	}
	return all
}

// TestAlertsHaveRunbooks: each alert names an existing page with commands to run, and each page belongs to an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	pages := map[string]bool{}
	for _, a := range alerts(t) {
		runbook := "docs/guide/runbooks/" + a.Alert + ".md"
		if a.Annotations["runbook"] != runbook || a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.For == "" ||
			!slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) {
			t.Errorf("%s: %+v", a.Alert, a)
		}
		pages[a.Alert+".md"] = true
		text, err := os.ReadFile(filepath.Join(root, runbook))
		if err != nil {
			t.Error(err)
			continue
		}
		typed := regexp.MustCompile("(?s)```bash\n(kubectl|liqoctl) ").Match(text)
		if !strings.HasPrefix(string(text), "# "+a.Alert+"\n") || !typed ||
			!strings.Contains(string(text), "\n## Check\n") || !strings.Contains(string(text), "\n## Cure\n") {
			t.Errorf("%s does not tell what to type, to check %s and to cure it", runbook, a.Alert)
		}
	}
	found, err := os.ReadDir(filepath.Join(root, "docs", "guide", "runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guide", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range found {
		if !pages[page.Name()] || !strings.Contains(string(guide), "(runbooks/"+page.Name()+")") {
			t.Errorf("runbook %s is without an alert, or is not in the guide", page.Name())
		}
	}
}

// TestGuidesUseMetricsThatExist: the guides use only existing metrics, with labels that these metrics have.
func TestGuidesUseMetricsThatExist(t *testing.T) {
	texts := map[string]string{}
	guides, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "guide", "runbooks", "*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatalf("there are no runbooks: %v", err)
	}
	for _, guide := range append(guides, filepath.Join("..", "..", "..", "docs", "guide", "monitoring.md")) {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		texts[guide] = string(text)
	}
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!=|!~|=)\s*"`)
	for where, text := range texts {
		for _, use := range regexp.MustCompile(`\b(liqo_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(text, -1) {
			i := slices.IndexFunc(metrics.All(), func(d *metrics.Definition) bool {
				name := use[1]
				if d.Type == metrics.Histogram {
					name = strings.TrimSuffix(name, "_bucket")
				}
				return d.Name == name
			})
			if i < 0 {
				t.Errorf("%s uses %s, and no program serves it", where, use[1])
				continue
			}
			for _, matched := range label.FindAllStringSubmatch(use[2], -1) {
				if !slices.Contains(metrics.All()[i].Labels, matched[1]) {
					t.Errorf("%s: %s has no label %s", where, use[1], matched[1])
				}
			}
		}
	}
}

// TestRoundTripThreshold: the value replaces the threshold of the alert about round trips, and no other threshold.
func TestRoundTripThreshold(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	rule := func(values string) string {
		t.Helper()
		values = minimal + "\nmetrics: {enabled: true, prometheusOperator: {enabled: true}, prometheusRule: {enabled: true" + values + "}}"
		return templates(t, chart, parse(t, values))["liqo/templates/monitors.yaml"]
	}
	standard, other := rule(""), rule(", roundTripMilliseconds: 350")
	if strings.Count(standard, "> 200000 and") != 1 || strings.ReplaceAll(standard, "> 200000 and", "> 350000 and") != other {
		t.Errorf("the default is\n%s\nand with 350 ms it is\n%s", standard, other)
	}
	if !strings.Contains(standard, "{{ $labels.cluster_id }}") {
		t.Error("the placeholders of Prometheus are lost")
	}
}

// TestPrometheusRuleHoldsTheAlerts: Helm changes only the threshold in the alerts, so that tests of the file also hold for the cluster.
func TestPrometheusRuleHoldsTheAlerts(t *testing.T) {
	values := minimal + "\nmetrics: {enabled: true, prometheusOperator: {enabled: true}, prometheusRule: {enabled: true, roundTripMilliseconds: 350}}"
	rule := find(t, render(t, values), "PrometheusRule", "liqo")
	text, err := charts.Files.ReadFile("files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, strings.ReplaceAll(string(text), "> 200000 and", "> 350000 and"))
	if diff := cmp.Diff(want, rule.Object["spec"]); rule.GetAPIVersion() != "monitoring.coreos.com/v1" || diff != "" {
		t.Errorf("%s (-file +cluster):\n%s", rule.GetAPIVersion(), diff)
	}
}

// TestMatchedValuesExist: alerts and boards select values of labels that programs report. An alert with a misspelt value would never fire.
func TestMatchedValuesExist(t *testing.T) {
	known := map[string][]string{ // only labels that alerts or boards select
		"condition": {string(corev1beta1.NetworkConnectionStatus)},
		"status":    {string(corev1beta1.StatusEstablished)},
		"program":   {metrics.ControllerManager, metrics.VirtualKubelet, metrics.Gateway, metrics.Fabric, metrics.Proxy},
		"result":    {"success", "error"},
	}
	files, err := fs.Glob(charts.Files, "files/boards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range append(files, "files/alerts.yaml") {
		text, err := charts.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Boards have the quotes of expressions escaped.
		for _, m := range regexp.MustCompile(`([a-z_]+)\s*(?:!=|=)\s*\\?"([^"\\]*)\\?"`).FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(known[m[1]], m[2]) {
				t.Errorf("%s selects %s: add the value here if programs report it", file, m[0])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d values were found", found)
	}
}

// TestBoardsAreFoundByTheSidecar: the value adds one ConfigMap for each board, with the label that the sidecar of Grafana looks for. It holds the board
// unchanged, with Grafana's own placeholders.
func TestBoardsAreFoundByTheSidecar(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	render := func(values string) string {
		return strings.TrimSpace(templates(t, chart, parse(t, minimal+"\nmetrics: "+values))["liqo/templates/boards.yaml"])
	}
	for _, values := range []string{"{enabled: true}", "{enabled: false, grafanaDashboards: {enabled: true}}"} {
		if text := render(values); text != "" {
			t.Errorf("with %s there is\n%s", values, text)
		}
	}
	found := map[string]string{}
	for _, document := range strings.Split("\n"+render("{enabled: true, grafanaDashboards: {enabled: true}}"), "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.Kind == "" {
			continue
		}
		if object.Kind != "ConfigMap" || object.Metadata.Labels["grafana_dashboard"] != "1" || len(object.Data) != 1 {
			t.Errorf("%s %s with labels %v has %d files", object.Kind, object.Metadata.Name, object.Metadata.Labels, len(object.Data))
		}
		maps.Copy(found, object.Data)
	}
	files, err := fs.Glob(charts.Files, "files/boards/*.json")
	if err != nil || len(files) != len(found) || len(files) < 3 {
		t.Fatalf("the chart has the boards %v, and installs %d: %v", files, len(found), err)
	}
	for _, file := range files {
		want, err := charts.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := found["liqo-"+path.Base(file)]; got != strings.TrimSpace(string(want)) {
			t.Errorf("%s is installed as\n%s", file, got)
		}
	}
}
