// Package manifests writes what package managers read about a release: krew, Homebrew and Helm. It does no I/O.
package manifests

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"liqo.io/liqo/tools/release/plan"
)

const (
	homepage    = "https://liqo.io"
	description = "Peer Kubernetes clusters and offload namespaces to them"
)

// Download is an archive with liqoctl.
type Download struct {
	Platform plan.Platform
	URL      string
	SHA256   string
}

// Krew returns the manifest of the kubectl plugin "liqo".
func Krew(version string, downloads []Download) ([]byte, error) {
	type fields = map[string]any
	var platforms []fields
	for _, d := range downloads {
		platforms = append(platforms, fields{
			"selector": fields{"matchLabels": fields{"os": d.Platform.OS, "arch": d.Platform.Arch}},
			"uri":      d.URL,
			"sha256":   d.SHA256,
			"bin":      plan.LiqoctlFile(d.Platform),
			"files":    []fields{{"from": plan.LiqoctlFile(d.Platform), "to": "."}, {"from": "LICENSE", "to": "."}},
		})
	}
	return encode(fields{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   fields{"name": "liqo"},
		"spec": fields{
			"version":          version,
			"homepage":         homepage,
			"shortDescription": description,
			"description":      "liqoctl as a plugin: installs Liqo, peers clusters, offloads namespaces, and explains what it finds.\n",
			"platforms":        platforms,
		},
	})
}

// formulaNames are the words of Homebrew for operating systems and architectures.
var formulaNames = map[string]string{"darwin": "macos", "linux": "linux", "amd64": "intel", "arm64": "arm"}

// Formula returns the formula of Homebrew for liqoctl. It has the downloads for macOS and Linux.
func Formula(version string, downloads []Download) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "class Liqoctl < Formula\n  desc %q\n  homepage %q\n", description, homepage)
	fmt.Fprintf(&b, "  version %q\n  license \"Apache-2.0\"\n", strings.TrimPrefix(version, "v"))
	for _, system := range []string{"darwin", "linux"} {
		var blocks strings.Builder
		for _, d := range downloads {
			if d.Platform.OS == system {
				fmt.Fprintf(&blocks, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", formulaNames[d.Platform.Arch], d.URL, d.SHA256)
			}
		}
		if blocks.Len() > 0 {
			fmt.Fprintf(&b, "\n  on_%s do\n%s  end\n", formulaNames[system], blocks.String())
		}
	}
	fmt.Fprintf(&b, `
  def install
    bin.install "liqoctl"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/liqoctl.bash" => "liqoctl"
    zsh_completion.install "completions/_liqoctl"
    fish_completion.install "completions/liqoctl.fish"
  end

  test do
    assert_match %q, shell_output("#{bin}/liqoctl version --client")
  end
end
`, version)
	return []byte(b.String())
}

// HelmIndex returns the index of a chart server that has one archive of the chart. chart is the content of its Chart.yaml.
func HelmIndex(chart []byte, archive, sha256 string, date time.Time) ([]byte, error) {
	entry := map[string]any{}
	if err := yaml.Unmarshal(chart, &entry); err != nil {
		return nil, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	name, isName := entry["name"].(string)
	if !isName {
		return nil, fmt.Errorf("reading Chart.yaml: name is %v: want the name of the chart", entry["name"])
	}
	when := date.UTC().Format(time.RFC3339)
	maps.Copy(entry, map[string]any{"created": when, "digest": sha256, "urls": []string{archive}})
	return encode(map[string]any{"apiVersion": "v1", "entries": map[string]any{name: []any{entry}}, "generated": when})
}

// encode returns the value as YAML, with sorted keys.
func encode(value any) ([]byte, error) {
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}
