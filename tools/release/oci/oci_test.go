package oci

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"liqo.io/liqo/tools/release/archive"
)

var date = time.Unix(1700000000, 0)

const chartYAML = "apiVersion: v2\nname: liqo\nversion: 1.2.3\n"

// write makes a layout with an image of two architectures and a chart.
func write(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	l, err := NewLayout(folder, "registry.example.org/liqo")
	if err != nil {
		t.Fatal(err)
	}
	images, architectures := map[string]v1.Image{}, []string{"amd64", "arm64"}
	for _, architecture := range architectures {
		images[architecture], err = Image(Spec{
			Architecture: architecture, Entrypoint: "/fabric", User: "65532:65532", Date: date, Labels: map[string]string{"a": "b"},
			Files: []archive.File{{Name: "fabric", Mode: 0o755, Data: []byte("program for " + architecture)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AddIndex("fabric:v1.2.3", Index(images, architectures, map[string]string{"c": "d"})); err != nil {
		t.Fatal(err)
	}
	chart, err := Chart([]byte("packed"), []byte(chartYAML), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AddArtifact("charts/liqo:1.2.3", chart); err != nil {
		t.Fatal(err)
	}
	return folder
}

// contents returns the files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(folder, path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheSameImagesGiveTheSameLayout(t *testing.T) {
	first, second := contents(t, write(t)), contents(t, write(t))
	if len(first) != 12 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, data := range first {
		if second[name] != data {
			t.Errorf("%s differs", name)
		}
	}
	if !strings.Contains(first["index.json"], `"io.containerd.image.name": "registry.example.org/liqo/fabric:v1.2.3"`) {
		t.Errorf("containerd finds no name in %s", first["index.json"])
	}
}

func TestPushedImagesAndChartCanBePulled(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/team/liqo"
	pushed := map[string]v1.Hash{}
	err := Push(t.Context(), write(t), target, func(reference string, digest v1.Hash) { pushed[reference] = digest })
	if err != nil || len(pushed) != 2 {
		t.Fatalf("%v, %v", pushed, err)
	}
	tag, err := name.NewTag(target + "/fabric:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != architecture || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/fabric" {
			t.Errorf("%+v, %v", config, err)
		}
	}
	byDigest, err := name.NewDigest(target + "/fabric@" + pushed[tag.String()].String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Index(byDigest); err != nil {
		t.Errorf("pulling by the digest that push reported: %v", err)
	}
}

func TestPushedChartIsWhatHelmPulls(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/team/liqo"
	if err := Push(t.Context(), write(t), target, func(string, v1.Hash) {}); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(target + "/charts/liqo:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := chart.Manifest()
	if err != nil || manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Fatalf("%+v, %v", manifest, err)
	}
	config, err := chart.RawConfigFile()
	if err != nil || string(config) != `{"apiVersion":"v2","name":"liqo","version":"1.2.3"}` {
		t.Errorf("%s, %v", config, err)
	}
	layers, err := chart.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if data, err := io.ReadAll(content); err != nil || !bytes.Equal(data, []byte("packed")) {
		t.Errorf("%q, %v", data, err)
	}
}

func TestPushNamesWhatIsWrong(t *testing.T) {
	report := func(string, v1.Hash) {}
	if err := Push(t.Context(), t.TempDir(), "example.org/liqo", report); err == nil || !strings.Contains(err.Error(), "make release") {
		t.Errorf("%v", err)
	}
	if err := Push(t.Context(), write(t), "Example/Liqo", report); err == nil || !strings.Contains(err.Error(), "REGISTRY") {
		t.Errorf("%v", err)
	}
}
