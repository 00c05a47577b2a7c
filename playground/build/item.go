package build

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"liqo.io/playground/component"
)

// modules contains one pinned Go module per folder. The names of its files end in ".txt". Otherwise, go:embed would reject a folder with
// a go.mod, and Go files would become part of this module.
//
//go:embed modules
var modules embed.FS

// item is a group of programs that is built once per hash of all its inputs.
type item struct {
	name, version string
	// module is the folder inside modules in which the packages are built.
	module   string
	packages []string
	tags     string
	// values are variables that the linker sets with -X, as PACKAGE.NAME=VALUE.
	values []string
	// links are additional names (hard links) of the first package's program.
	links []string
}

const kubernetes = "kubernetes"

func items(metricsServer bool) []item {
	const (
		containerd = "github.com/containerd/containerd/v2"
		plugins    = "github.com/containernetworking/plugins/plugins/"
	)
	list := []item{
		{
			name: kubernetes, version: component.KubernetesVersion, module: kubernetes, packages: []string{"./hyper"},
			values: kubernetesVersion(),
			links:  []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
		},
		{
			name: "containerd", version: component.ContainerdVersion, module: "containerd", tags: "no_btrfs,no_zfs,no_devmapper",
			packages: []string{containerd + "/cmd/containerd", containerd + "/cmd/containerd-shim-runc-v2", containerd + "/cmd/ctr"},
			values:   []string{containerd + "/version.Version=" + component.ContainerdVersion},
		},
		{
			name: "cni", version: component.PluginsVersion, module: "cni",
			packages: []string{plugins + "main/bridge", plugins + "main/ptp", plugins + "main/loopback", plugins + "ipam/host-local", plugins + "meta/portmap"},
		},
		// CoreDNS is built in the module of Kubernetes, because that build has already compiled most of its dependencies.
		{name: "coredns", version: component.CoreDNSVersion, module: kubernetes, packages: []string{"./coredns"}},
	}
	if metricsServer {
		list = append(list, item{
			name: "metrics-server", version: component.MetricsServerVersion, module: "metrics-server",
			packages: []string{"sigs.k8s.io/metrics-server/cmd/metrics-server"},
		})
	}
	return list
}

// kubernetesVersion returns the version variables that an official Kubernetes build sets. Some clients need all fields of the server's version.
func kubernetesVersion() []string {
	version := component.KubernetesVersion
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var values []string
	for _, pkg := range []string{"k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."} {
		values = append(values, pkg+"gitVersion="+version, pkg+"gitMajor="+parts[0], pkg+"gitMinor="+parts[1], pkg+"gitTreeState=clean")
	}
	return values
}

func (i item) arguments(out string) []string {
	flags := "-s -w"
	for _, v := range i.values {
		flags += " -X " + v
	}
	args := []string{"build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", out + "/"}
	if i.tags != "" {
		args = append(args, "-tags", i.tags)
	}
	return append(args, i.packages...)
}

// key returns the name of the item's folder in the cache. It depends on all inputs of the build.
func (i item) key(compiler string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, compiler, runtime.GOARCH, i.arguments(""), i.links)
	if err := hashFiles(h, modules, path.Join("modules", i.module)); err != nil {
		return "", err
	}
	return i.name + "-" + i.version + "-" + short(h.Sum(nil)), nil
}

func short(sum []byte) string { return hex.EncodeToString(sum)[:12] }

// hashFiles writes the names, sizes and contents of all files below root to h, in a fixed order.
func hashFiles(h io.Writer, files fs.FS, root string) error {
	return fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, len(data))
		_, err = h.Write(data)
		return err
	})
}

// unpack writes all files below root to the folder dir, and removes the ".txt" at the end of their names.
func unpack(files fs.FS, root, dir string) error {
	return fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		relative := strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		target := filepath.Join(dir, strings.TrimSuffix(relative, ".txt"))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

// programs returns the names of all programs of the item, including links.
func (i item) programs() []string {
	var names []string
	for _, p := range i.packages {
		names = append(names, path.Base(p))
	}
	return slices.Concat(names, i.links)
}
