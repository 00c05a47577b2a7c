package build

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"liqo.io/playground/component"
)

func TestModulesPinTheVersions(t *testing.T) {
	for module, wants := range map[string][]string{
		kubernetes: {
			"k8s.io/kubernetes " + component.KubernetesVersion, "go.etcd.io/etcd/server/v3 " + component.EtcdVersion,
			"github.com/coredns/coredns " + component.CoreDNSVersion,
		},
		"containerd":     {"github.com/containerd/containerd/v2 " + component.ContainerdVersion},
		"cni":            {"github.com/containernetworking/plugins " + component.PluginsVersion},
		"metrics-server": {"sigs.k8s.io/metrics-server " + component.MetricsServerVersion},
	} {
		data, err := fs.ReadFile(modules, "modules/"+module+"/go.mod.txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(data), want+"\n") {
				t.Errorf("module %s does not pin %s", module, want)
			}
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, i := range items(true) {
		for _, compiler := range []string{"go1", "go2"} {
			key, err := i.key(compiler)
			if err != nil {
				t.Fatal(err)
			}
			again, err := i.key(compiler)
			if err != nil || again != key {
				t.Errorf("%s: %s, then %s, %v", i.name, key, again, err)
			}
			if other := seen[key]; other != "" {
				t.Errorf("%s has the key of %s", i.name, other)
			}
			seen[key] = i.name + " by " + compiler
		}
	}
}

func TestUnpackGivesFilesTheirNamesBack(t *testing.T) {
	dir := t.TempDir()
	if err := unpack(modules, "modules/"+kubernetes, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", "hyper/main.go", "coredns/main.go"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestKubernetesVersionIsWhole(t *testing.T) {
	values := strings.Join(kubernetesVersion(), " ")
	for _, want := range []string{"version.gitVersion=" + component.KubernetesVersion, "version.gitMajor=1 ", "version.gitMinor=35 "} {
		if !strings.Contains(values, want) {
			t.Errorf("%s does not set %s", values, want)
		}
	}
}

func TestPlaceLeavesNothingHalfMade(t *testing.T) {
	b := Builder{Cache: t.TempDir()}
	err := b.place(filepath.Join(b.Cache, "thing"), func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			return err
		}
		return os.ErrInvalid
	})
	entries, _ := os.ReadDir(b.Cache)
	if err == nil || len(entries) != 0 {
		t.Errorf("error %v, left %v", err, entries)
	}
}
