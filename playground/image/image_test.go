package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"liqo.io/playground/debian/debiantest"
)

func example(t *testing.T) Spec {
	t.Helper()
	source := filepath.Join(t.TempDir(), "echo")
	if err := os.WriteFile(source, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Name:         "registry.local/demo/echo:v1",
		Entrypoint:   []string{"/bin/echo"},
		Cmd:          []string{"hello"},
		Env:          []string{"COLOUR=green"},
		User:         "65532",
		Architecture: "amd64",
		Files: []File{
			{Path: "/bin/echo", Source: source},
			{Path: "/bin/say", Link: "/bin/echo"},
			{Path: "/etc/motd", Content: []byte("hi\n")},
			{Path: "/usr/share/empty", Mode: fs.ModeDir | 0o700},
		},
	}
}

func write(t *testing.T, spec Spec) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, spec); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// contents reads a tar archive into a map and a list of lines "mode kind name link".
func contents(t *testing.T, archive []byte) (map[string][]byte, []string) {
	t.Helper()
	files, lines := map[string][]byte{}, []string(nil)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, lines
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: dated %v, owned by %d:%d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		files[h.Name] = data
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%04o %c %s %s", h.Mode, h.Typeflag, h.Name, h.Linkname)))
	}
}

func TestSameInputGivesSameBytes(t *testing.T) {
	spec := example(t)
	first := write(t, spec)
	turned := spec
	turned.Files = []File{spec.Files[3], spec.Files[1], spec.Files[0], spec.Files[2]}
	if err := os.Chmod(spec.Files[0].Source, 0o755); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, write(t, turned)) {
		t.Error("the order of the files or the source's mode changed the archive")
	}
	other := spec
	other.Cmd = []string{"bye"}
	if bytes.Equal(first, write(t, other)) {
		t.Error("another command gave the same archive")
	}
}

func TestLayoutIsValid(t *testing.T) {
	spec := example(t)
	files, _ := contents(t, write(t, spec))
	for name, data := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest.FromBytes(data).Encoded() != sum {
			t.Errorf("blob %s holds other bytes", name)
		}
	}
	follow := func(d ocispec.Descriptor, into any) []byte {
		t.Helper()
		data, ok := files[blobPath(d.Digest)]
		if !ok || int64(len(data)) != d.Size {
			t.Fatalf("descriptor %v: blob has %d bytes", d, len(data))
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	var version ocispec.ImageLayout
	var index ocispec.Index
	var manifest ocispec.Manifest
	var config ocispec.Image
	if err := json.Unmarshal(files["oci-layout"], &version); err != nil || version.Version != "1.0.0" {
		t.Errorf("oci-layout: %v, %v", version, err)
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index: %v, %v", index, err)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != spec.Name {
		t.Errorf("name %q", got)
	}
	if got := index.Manifests[0].Annotations[ocispec.AnnotationRefName]; got != "v1" {
		t.Errorf("tag %q", got)
	}
	follow(index.Manifests[0], &manifest)
	follow(manifest.Config, &config)
	if len(files) != 5 || len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("%d files, manifest %v, root %v", len(files), manifest, config.RootFS)
	}
	want := ocispec.ImageConfig{User: "65532", Env: []string{defaultPath, "COLOUR=green"}, Entrypoint: []string{"/bin/echo"}, Cmd: []string{"hello"}, WorkingDir: "/"}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Error(diff)
	}

	layer, lines := contents(t, follow(manifest.Layers[0], nil))
	wantLines := []string{
		"0755 5 bin/", "0755 0 bin/echo", "0777 2 bin/say /bin/echo", "0755 5 dev/", "0755 5 etc/", "0644 0 etc/group", "0644 0 etc/motd",
		"0644 0 etc/nsswitch.conf", "0644 0 etc/passwd", "0755 5 proc/", "0755 5 run/", "0755 5 sys/", "1777 5 tmp/",
		"0755 5 usr/", "0755 5 usr/share/", "0700 5 usr/share/empty/", "0755 5 var/",
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"bin/echo": "program", "etc/motd": "hi\n", "etc/group": "root:x:0:\nnobody:x:65534:\n"} {
		if string(layer[name]) != want {
			t.Errorf("%s: %q", name, layer[name])
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"a name without tag":          func(s *Spec) { s.Name = "registry.local/echo" },
		"a name without host":         func(s *Spec) { s.Name = "echo:v1" },
		"the tag latest":              func(s *Spec) { s.Name = "registry.local/echo:latest" },
		"a relative path":             func(s *Spec) { s.Files[0].Path = "bin/echo" },
		"a path that climbs":          func(s *Spec) { s.Files[0].Path = "/bin/../../echo" },
		"the same path twice":         func(s *Spec) { s.Files[1].Path = s.Files[0].Path },
		"a file inside a file":        func(s *Spec) { s.Files[1].Path = "/bin/echo/say" },
		"two kinds of content":        func(s *Spec) { s.Files[0].Content = []byte("x") },
		"a source that is missing":    func(s *Spec) { s.Files[0].Source += ".missing" },
		"a source that is a folder":   func(s *Spec) { s.Files[0].Source = filepath.Dir(s.Files[0].Source) },
		"a mode that is not a file's": func(s *Spec) { s.Files[2].Mode = fs.ModeDevice | 0o600 },
	} {
		t.Run(name, func(t *testing.T) {
			spec := example(t)
			change(&spec)
			if err := Write(io.Discard, spec); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestParseFile(t *testing.T) {
	for arg, want := range map[string]File{
		"bin/x:/x":                  {Source: "bin/x", Path: "/x"},
		"conf:/etc/conf:640":        {Source: "conf", Path: "/etc/conf", Mode: 0o640},
		"link=/bin/sh:/bin/busybox": {Path: "/bin/sh", Link: "/bin/busybox"},
	} {
		got, err := parseFile(arg)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", arg, err, diff)
		}
	}
	for _, arg := range []string{"x", ":/x", "a:b:c:d", "x:/x:9", "x:/x:0", "link=/bin/sh"} {
		if got, err := parseFile(arg); err == nil {
			t.Errorf("%s: accepted as %v", arg, got)
		}
	}
}

func TestCommandWritesTheArchive(t *testing.T) {
	spec := example(t)
	output := filepath.Join(t.TempDir(), "echo.tar")
	cmd := Command(nil, nil)
	cmd.SetArgs([]string{"--name", spec.Name, "-o", output, "--entrypoint", "/bin/echo", "--cmd", "hello", "--env", "COLOUR=green", "--user", "65532",
		"--architecture", "amd64", spec.Files[0].Source + ":/bin/echo", "link=/bin/say:/bin/echo"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	spec.Files = spec.Files[:2]
	if !bytes.Equal(got, write(t, spec)) {
		t.Error("the command's archive differs from Write's")
	}
	left, err := os.ReadDir(filepath.Dir(output))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestPackagesBecomeAnImageOnce(t *testing.T) {
	source := t.TempDir()
	debiantest.Archive(t, source,
		debiantest.Package{Name: "server", Version: "1", Files: map[string]string{"usr/bin/server": "server", "etc/server.conf": "default"}},
		debiantest.Package{Name: "shell", Version: "1", Fields: "Essential: yes\n", Files: map[string]string{"bin/sh": "shell"}})
	cache, conf := t.TempDir(), filepath.Join(t.TempDir(), "conf")
	build := func(output, content string) (archive []byte, said string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := Command(func() (string, error) { return cache, nil }, func(format string, args ...any) { said += fmt.Sprintf(format+"\n", args...) })
		cmd.SetArgs([]string{"--name", "registry.local/server:1", "-o", output, "--package", "server", "--user", "999", conf + ":/etc/server.conf:644"})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		return archive, said
	}
	output := filepath.Join(t.TempDir(), "server.tar")
	first, said := build(output, "mine")
	if !strings.Contains(said, "fetching 2 packages") {
		t.Errorf("said %q", said)
	}
	files, _ := contents(t, first)
	var layer map[string][]byte
	for name, data := range files {
		if strings.HasPrefix(name, "blobs/") && bytes.Contains(data, []byte("usr/bin/server")) {
			layer, _ = contents(t, data)
		}
	}
	for name, want := range map[string]string{"usr/bin/server": "server", "usr/bin/sh": "shell", "etc/server.conf": "mine", "etc/group": "root:x:0:\nnobody:x:65534:\n"} {
		if string(layer[name]) != want {
			t.Errorf("%s: %q, want %q", name, layer[name], want)
		}
	}
	if second, said := build(output, "mine"); !strings.Contains(said, "up to date") || !bytes.Equal(first, second) {
		t.Errorf("the second time: said %q", said)
	}
	if elsewhere, said := build(output+".2", "mine"); strings.Contains(said, "fetching") || !bytes.Equal(first, elsewhere) {
		t.Errorf("into another file: said %q, or other bytes", said)
	}
	if other, said := build(output, "other"); strings.Contains(said, "up to date") || bytes.Equal(first, other) {
		t.Errorf("with another file: said %q, or the same bytes", said)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "debian", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
