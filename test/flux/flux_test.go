package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"liqo.io/liqo/internal/install/installer"
)

// TestHomelab: the Kustomization of the example renders, and the chart accepts the values of its HelmRelease.
func TestHomelab(t *testing.T) {
	root := filepath.Join("..", "..")
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "examples", "homelab-gpu"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	releases, others, err := split(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(releases) != 1 || releases[0].Metadata.Namespace != "liqo-system" || releases[0].Spec.ReleaseName != "liqo" {
		t.Fatalf("%+v", releases)
	}
	for _, kind := range []string{"Namespace", "Secret", "ForeignCluster"} {
		if !strings.Contains(string(others), "\nkind: "+kind+"\n") {
			t.Errorf("the other manifests have no %s:\n%s", kind, others)
		}
	}
	if strings.Contains(string(others), "toolkit.fluxcd.io") {
		t.Errorf("the other manifests have objects of Flux:\n%s", others)
	}
	chart, err := installer.Chart(filepath.Join(root, "charts", "liqo"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		valid  bool
	}{
		"as it is":   {func(map[string]any) {}, true},
		"misspelled": {func(values map[string]any) { values["networks"] = true }, false},
	} {
		values := releases[0].Spec.Values
		c.change(values)
		_, err := util.ToRenderValues(chart, values, common.ReleaseOptions{}, nil)
		if (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
		delete(values, "networks")
	}
}

// TestUnknownParts: a HelmRelease in an example must not contain a field without effect here, or a chart from an unknown source.
func TestUnknownParts(t *testing.T) {
	const head = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: liqo}\nspec:\n"
	for name, spec := range map[string]string{
		"a field":      "  chart: {spec: {chart: liqo, sourceRef: {kind: HelmRepository, name: liqo}}}\n  dependsOn: [{name: other}]\n",
		"a repository": "  chart: {spec: {chart: liqo, sourceRef: {kind: HelmRepository, name: missing}}}\n",
	} {
		if _, _, err := split(strings.NewReader(head + spec)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
