package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/tools/release/build"
	"liqo.io/liqo/tools/release/plan"
)

// assembled returns the folder of a release whose programs are all one small program.
func assembled(t *testing.T, work string, platforms ...plan.Platform) string {
	t.Helper()
	r := &release{
		repository: "../..", dist: t.TempDir(), work: work, version: "v1.2.3", registry: "registry.example.org/liqo", downloads: "https://example.org/v1.2.3",
		platforms: platforms, commit: build.Commit{Hash: strings.Repeat("a", 40), Date: time.Unix(1700000000, 0)},
	}
	if err := r.assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.dist
}

// programs builds the small program once, and returns a folder with it in the place of each program of a release.
func programs(t *testing.T, platforms ...plan.Platform) string {
	t.Helper()
	work := t.TempDir()
	binary := filepath.Join(work, "program")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "./testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := plan.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, p := range append(platforms, own) {
		if err := os.MkdirAll(filepath.Join(work, p.File()), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, program := range plan.Programs(p) {
			name := program.Name()
			if program == plan.Liqoctl {
				name = plan.LiqoctlFile(p)
			}
			if err := os.Link(binary, filepath.Join(work, p.File(), name)); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
	}
	return work
}

// unpacked returns the names in an archive.
func unpacked(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestTheSameProgramsGiveTheSameRelease(t *testing.T) {
	platforms := []plan.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}, {OS: "windows", Arch: "amd64"}}
	work := programs(t, platforms...)
	dist := assembled(t, work, platforms...)
	first, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(assembled(t, work, platforms...), "SHA256SUMS"))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	for _, name := range []string{
		"chart/index.yaml", "chart/liqo-1.2.3.tgz", "krew.yaml", "liqoctl.rb", "liqoctl-linux-amd64.tar.gz", "liqoctl-linux-arm64.tar.gz",
		"liqoctl-windows-amd64.zip", "liqoctl-windows-amd64", "asdf-liqoctl.tar.gz", "oci/images/index.json", "oci/chart/index.json", "sbom/fabric-linux-arm64.cdx.json", "sbom/liqoctl-windows-amd64.cdx.json",
	} {
		if !bytes.Contains(first, []byte("  "+name+"\n")) {
			t.Errorf("no checksum of %s in\n%s", name, first)
		}
	}
	want := []string{
		"LICENSE", "README.md", "completions/_liqoctl", "completions/liqoctl.bash", "completions/liqoctl.fish", "completions/liqoctl.ps1", "liqoctl",
		"man/liqoctl.1",
	}
	if got := unpacked(t, filepath.Join(dist, "liqoctl-linux-arm64.tar.gz")); !slices.Equal(got, want) {
		t.Errorf("the archive with liqoctl has %v", got)
	}
	want = []string{"bin/download", "bin/install", "bin/list-all", "lib/release.sh", "releases"}
	if got := unpacked(t, filepath.Join(dist, "asdf-liqoctl.tar.gz")); !slices.Equal(got, want) {
		t.Errorf("the plugin of asdf has %v", got)
	}
	index, err := os.ReadFile(filepath.Join(dist, imageLayout, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range plan.Images {
		if !strings.Contains(string(index), `"registry.example.org/liqo/`+image.Name+`:v1.2.3"`) {
			t.Errorf("image %s is not in the layout", image.Name)
		}
	}
}

func TestHalfAReleaseIsNotPushed(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	err := run(t.Context(), []string{"push", "--dist", dist, "--registry", "registry.example.org/liqo"})
	if err == nil || !strings.Contains(err.Error(), dist) || !strings.Contains(err.Error(), "make release") {
		t.Errorf("%v", err)
	}
}

func TestBadVersionIsRefusedBeforeAnythingIsRemoved(t *testing.T) {
	dist := t.TempDir()
	kept := filepath.Join(dist, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"build", "--repository", "../..", "--dist", dist, "--version", "1.2.3"})
	if err == nil || !strings.Contains(err.Error(), "VERSION") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
