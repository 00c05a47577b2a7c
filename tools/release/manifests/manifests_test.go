package manifests

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"liqo.io/liqo/tools/release/plan"
)

func downloads() []Download {
	var out []Download
	for _, p := range plan.Platforms {
		out = append(out, Download{p, "https://example.org/v1.2.3/" + plan.LiqoctlArchive(p), strings.Repeat("0", 60) + p.Arch[3:]})
	}
	return out
}

func TestKrewHasAllPlatforms(t *testing.T) {
	text, err := Krew("v1.2.3", downloads())
	if err != nil {
		t.Fatal(err)
	}
	var plugin struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				}
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Metadata.Name != "liqo" || plugin.Spec.Version != "v1.2.3" || len(plugin.Spec.Platforms) != 6 {
		t.Errorf("%s", text)
	}
	for i, d := range downloads() {
		p := plugin.Spec.Platforms[i]
		if p.Selector.MatchLabels["os"] != d.Platform.OS || p.Selector.MatchLabels["arch"] != d.Platform.Arch || p.URI != d.URL || p.SHA256 != d.SHA256 {
			t.Errorf("%v: %+v", d, p)
		}
		if p.Bin != plan.LiqoctlFile(d.Platform) || p.Files[0].From != p.Bin {
			t.Errorf("%v: program %s, files %v", d.Platform, p.Bin, p.Files)
		}
	}
}

func TestFormulaHasMacOSAndLinux(t *testing.T) {
	text := string(Formula("v1.2.3", downloads()))
	for _, want := range []string{
		"class Liqoctl < Formula\n", "  version \"1.2.3\"\n",
		"  on_macos do\n    on_intel do\n      url \"https://example.org/v1.2.3/liqoctl-darwin-amd64.tar.gz\"\n",
		"    on_arm do\n      url \"https://example.org/v1.2.3/liqoctl-linux-arm64.tar.gz\"\n", "assert_match \"v1.2.3\"",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "windows") {
		t.Error("Homebrew has no Windows")
	}
	if got, want := strings.Count(text, " do\n"), 7; got != want {
		t.Errorf("%d blocks, want %d", got, want)
	}
	if text := string(Formula("v1.2.3", downloads()[:1])); strings.Contains(text, "on_linux") {
		t.Errorf("a block without a download:\n%s", text)
	}
}

func TestHelmIndexNamesTheArchive(t *testing.T) {
	text, err := HelmIndex([]byte("apiVersion: v2\nname: liqo\nversion: 1.2.3\nappVersion: v1.2.3\n"), "liqo-1.2.3.tgz", "abc", time.Unix(0, 0))
	want := `apiVersion: v1
entries:
  liqo:
    - apiVersion: v2
      appVersion: v1.2.3
      created: "1970-01-01T00:00:00Z"
      digest: abc
      name: liqo
      urls:
        - liqo-1.2.3.tgz
      version: 1.2.3
generated: "1970-01-01T00:00:00Z"
`
	if err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
	if _, err := HelmIndex([]byte("version: 1.2.3\n"), "x", "y", time.Unix(0, 0)); err == nil {
		t.Error("a chart without a name is accepted")
	}
}
