package installer

import (
	"fmt"
	"io"
	"io/fs"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/version"
)

// Chart loads the chart at path. If path is empty, it loads the chart embedded in this program, with the version of this program.
func Chart(path string) (*chartv2.Chart, error) {
	if path != "" {
		chart, err := loader.Load(path)
		if err != nil {
			return nil, fmt.Errorf("loading chart %s: %w", path, err)
		}
		return chart, nil
	}
	var files []*archive.BufferedFile
	err := fs.WalkDir(charts.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.Files, name)
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: name, Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the embedded chart: %w", err)
	}
	chart, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded chart: %w", err)
	}
	chart.Metadata.Version = version.Version
	chart.Metadata.AppVersion = version.Version
	return chart, nil
}

// placeholder is the version of the chart in the repository. No images exist for it.
const placeholder = "0.0.0-dev"

// SetVersion sets the version of a chart that was loaded from a path. The version becomes the tag of the images and appears in the labels.
// If the user did not ask for a version, SetVersion only fills an empty version and replaces the placeholder of the repository.
func SetVersion(chart *chartv2.Chart, version string, asked bool) {
	if asked || chart.Metadata.AppVersion == "" || chart.Metadata.AppVersion == placeholder {
		chart.Metadata.AppVersion = version
	}
}

// CRDs returns the custom resource definitions of a chart.
func CRDs(chart *chartv2.Chart) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, object := range chart.CRDObjects() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(object.File.Data, crd); err != nil {
			return nil, fmt.Errorf("reading %s of the chart: %w", object.Filename, err)
		}
		out = append(out, crd)
	}
	return out, nil
}

// UserValues merges the values of the flags --values, --set and --set-string, in this order. A later flag overrides an earlier one.
func UserValues(files, set, setString []string) (map[string]any, error) {
	options := values.Options{ValueFiles: files, Values: set, StringValues: setString}
	out, err := options.MergeValues(getter.Providers{})
	if err != nil {
		return nil, fmt.Errorf("reading the values given by --values, --set and --set-string: %w", err)
	}
	return out, nil
}

// Render returns the manifests of the chart with the given values, as "helm template" prints them. It contacts no cluster.
func Render(chart *chartv2.Chart, namespace string, vals map[string]any) (string, error) {
	release, err := rendered(chart, namespace, vals)
	if err != nil {
		return "", err
	}
	return release.Manifest, nil
}

// withoutEffect is the prefix of the lines in the release notes that name values without any effect.
const withoutEffect = "No effect: "

// ignored returns the lines with prefix withoutEffect, without that prefix: the key of each value and the reason.
func ignored(release *releasev1.Release) []string {
	var out []string
	for line := range strings.Lines(release.Info.Notes) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), withoutEffect); ok {
			out = append(out, text)
		}
	}
	return out
}

func rendered(chart *chartv2.Chart, namespace string, vals map[string]any) (*releasev1.Release, error) {
	config := action.NewConfiguration()
	config.SetHookOutputFunc(func(_, _, _ string) io.Writer { return io.Discard })
	run := action.NewInstall(config)
	run.DryRunStrategy = action.DryRunClient
	run.ReleaseName = install.Release
	run.Namespace = namespace
	run.KubeVersion = &common.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	result, err := run.Run(chart, vals)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	release, ok := result.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("rendering the chart: unexpected release type %T", result)
	}
	return release, nil
}
