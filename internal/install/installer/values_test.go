package installer

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/install"
)

// unused returns the values of other versions that have no effect, each with the reason.
func unused(t *testing.T) map[string]string {
	t.Helper()
	var list []struct {
		Keys   []string `json:"keys"`
		Same   []any    `json:"same"`
		Reason string   `json:"reason"`
	}
	text, err := charts.Files.ReadFile("files/without-effect.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, entry := range list {
		for _, key := range entry.Keys {
			if out[key] != "" || entry.Reason == "" {
				t.Errorf("%s is there twice, or says no reason", key)
			}
			out[key] = entry.Reason
		}
	}
	return out
}

// testdata reads a file of values.
func testdata(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// under returns a tree with the value at a path of keys.
func under(key string, value any) map[string]any {
	path := strings.Split(key, ".")
	for _, name := range slices.Backward(path[1:]) {
		value = map[string]any{name: value}
	}
	return map[string]any{path[0]: value}
}

// templates returns the rendered templates of the chart, including hooks, by name. It skips the schema, and is faster than rendering a release.
func templates(t *testing.T, chart *chartv2.Chart, values map[string]any) map[string]string {
	t.Helper()
	all, err := util.ToRenderValuesWithSchemaValidation(chart, values, common.ReleaseOptions{Name: "liqo", Namespace: "liqo"}, common.DefaultCapabilities, true)
	if err != nil {
		t.Fatal(err)
	}
	out, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	delete(out, "liqo/templates/NOTES.txt")
	return out
}

// TestEveryValueHasAnEffect: each value in values.yaml changes the rendered manifests. Each value of the v1 chart does too, or is listed as having no
// effect.
func TestEveryValueHasAnEffect(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	samples, base, without := testdata(t, "samples.yaml"), testdata(t, "base.yaml"), unused(t)
	usual, all := templates(t, chart, base), base
	for key, sample := range samples {
		before, standard, value := base, usual, sample
		if given, _ := sample.(map[string]any); given["in"] != nil {
			for other, setting := range given["in"].(map[string]any) {
				before = install.Merge(before, under(other, setting))
			}
			standard, value = templates(t, chart, before), given["value"]
		}
		all = install.Merge(all, under(key, value))
		if maps.Equal(standard, templates(t, chart, install.Merge(before, under(key, value)))) {
			t.Errorf("%s: %v changes nothing", key, value)
		}
	}
	if _, err := util.ToRenderValues(chart, all, common.ReleaseOptions{}, common.DefaultCapabilities); err != nil {
		t.Errorf("values of testdata/samples.yaml are refused: %v", err)
	}
	var walk func(path string, values map[string]any)
	walk = func(path string, values map[string]any) {
		for name, value := range values {
			key := strings.TrimPrefix(path+"."+name, ".")
			if below, _ := value.(map[string]any); samples[key] == nil && len(below) > 0 {
				walk(key, below)
			} else if samples[key] == nil {
				t.Errorf("%s is in values.yaml, but not in testdata/samples.yaml", key)
			}
		}
	}
	walk("", chart.Values)
	text, err := os.ReadFile("testdata/v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq(string(text)) {
		known := samples[key] != nil
		for _, listed := range slices.Collect(maps.Keys(without)) {
			known = known || key == listed || strings.HasPrefix(key, listed+".")
		}
		if !known {
			t.Errorf("%s of the v1 generation has neither an effect nor a reason why it has none", key)
		}
	}
}

// TestUnknownValuesAreRefused: a misspelled key is an error that names the key, at any depth.
func TestUnknownValuesAreRefused(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"replicas", "controllerManager.replica", "controllerManager.pod.resource", "controllerManager.image.tag", "networking.gateways.x",
		"networking.gatewayTemplates.ping.timeout", "offloading.reflection.secrets.workers", "discovery.config.clusterId", "ipam.podCidr",
	} {
		name := key[strings.LastIndex(key, ".")+1:]
		if strings.Contains(key, "gateways") || strings.Contains(key, "secrets") {
			name = strings.Split(key, ".")[len(strings.Split(key, "."))-2]
		}
		if _, err := Render(chart, "liqo", install.Merge(parse(t, minimal), under(key, 1))); err == nil || !strings.Contains(err.Error(), "'"+name+"'") {
			t.Errorf("%s: %v", key, err)
		}
	}
	// A chart that contains this one as a dependency passes more than its own keys to it.
	if _, err := Render(chart, "liqo", install.Merge(parse(t, minimal), parse(t, "{global: {imageRegistry: example.org}, enabled: true}"))); err != nil {
		t.Error(err)
	}
}

// TestNullRemovesAValue: --set accepts null for a key of a map, also where the chart has no default for it, and for a whole list or map. The removed value does
// not appear in the manifest.
func TestNullRemovesAValue(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]string{
		"keys of maps": {
			"common.globalLabels.team", "common.globalAnnotations.note", "common.nodeSelector.disk", "controllerManager.pod.labels.team",
			"controllerManager.pod.annotations.note", "controllerManager.pod.resources.limits.memory", "discovery.config.clusterLabels.region",
			"offloading.defaultNodeResources.cpu", "tag",
		},
		"lists and maps": {"common.globalLabels", "controllerManager.pod.extraArgs", "discovery.config.clusterLabels", "imagePullSecrets"},
	} {
		set, installed := []string{"discovery.config.clusterID=rome"}, map[string]any{}
		for _, key := range keys {
			set, installed = append(set, key+"=null"), install.Merge(installed, under(key, "text"))
		}
		given, err := UserValues(nil, set, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range []map[string]any{nil, installed} {
			manifest, err := Render(chart, "liqo", install.DropNulls(install.Merge(before, given), chart.Values))
			if err != nil || strings.Contains(manifest, ": null\n") {
				t.Errorf("null for %s, after %v: %v, or a null in the manifest", name, before, err)
			}
		}
	}
}

// TestNullForASection: a map of values.yaml may be set to null if it has no keys of its own, such as labels. A section, whose keys the templates
// need, is refused by its name. No map leads to an error of a template.
func TestNullForASection(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	var walk func(path string, values map[string]any)
	walk = func(path string, values map[string]any) {
		for name, value := range values {
			below, isMap := value.(map[string]any)
			if !isMap {
				continue
			}
			key := strings.TrimPrefix(path+"."+name, ".")
			given, err := UserValues(nil, []string{"discovery.config.clusterID=rome", key + "=null"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Render(chart, "liqo", install.DropNulls(given, chart.Values))
			above := "at '" + strings.ReplaceAll("."+path, ".", "/") + "'"
			if path == "" {
				above = "at ''"
			}
			if err != nil && (!strings.Contains(err.Error(), above) || !strings.Contains(err.Error(), "'"+name+"'")) {
				t.Errorf("%s=null: %v, want one that names it", key, err)
			}
			if err != nil {
				refused++
			}
			walk(key, below)
		}
	}
	walk("", chart.Values)
	if refused < 50 {
		t.Errorf("only %d sections are refused", refused)
	}
}

// TestSchemaHoldsTheDefaults: each value accepts its default, rejects another type with an error that names the value, and has a description.
func TestSchemaHoldsTheDefaults(t *testing.T) {
	chart, err := Chart("")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Ref         string            `json:"$ref"`
		Type        any               `json:"type"`
		Description string            `json:"description"`
		Properties  map[string]schema `json:"properties"`
		Additional  any               `json:"additionalProperties"`
		Defs        map[string]schema `json:"$defs"`
	}
	var root schema
	if err := json.Unmarshal(chart.Schema, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s schema)
	walk = func(path string, s schema) {
		resolved := s
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			resolved = root.Defs[name]
		}
		if resolved.Properties == nil {
			if s.Description == "" && resolved.Description == "" {
				t.Errorf("%s: no description", path)
			}
			if resolved.Type == nil {
				return // the schema allows any type, or one of several
			}
			var wrong any = "text"
			if reflect.DeepEqual(resolved.Type, "string") {
				wrong = true
			}
			_, err := Render(chart, "liqo", install.Merge(parse(t, minimal), under(path, wrong)))
			if pointer := "/" + strings.ReplaceAll(path, ".", "/"); err == nil || !strings.Contains(err.Error(), pointer) {
				t.Errorf("%s: %v is not refused by that name: %v", path, wrong, err)
			}
			return
		}
		if resolved.Additional != false {
			t.Errorf("%s takes any key", path)
		}
		for name, sub := range resolved.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), sub)
		}
	}
	walk("", root)
}
