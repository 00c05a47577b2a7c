package asdf

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/tools/release/archive"
)

// own is the name of the archive for this machine.
const own = "liqoctl-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"

// published serves releases on a loopback address: 1.2.2 without an archive for this machine, 1.2.3, and 1.3.0 whose archive has another checksum.
func published(t *testing.T) string {
	t.Helper()
	packed, err := archive.TarGz([]archive.File{
		{Name: "liqoctl", Mode: 0o755, Data: []byte("#!/bin/sh\necho liqoctl \"$@\"\n")}, {Name: "LICENSE", Mode: 0o644},
		{Name: "completions/liqoctl.bash", Mode: 0o644}, {Name: "man/liqoctl.1", Mode: 0o644},
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, data := range map[string]string{
		"versions.txt":         "1.2.2\n1.2.3\n1.3.0\n",
		"v1.2.2/SHA256SUMS":    "00  liqoctl-plan9-386.tar.gz\n",
		"v1.2.3/SHA256SUMS":    fmt.Sprintf("00  liqoctl-plan9-386.tar.gz\n%x  %s\n", sha256.Sum256(packed), own),
		"v1.2.3/" + own:        string(packed),
		"v1.3.0/SHA256SUMS":    strings.Repeat("0", 64) + "  " + own + "\n",
		"v1.3.0/" + own:        string(packed),
		"v1.4.0-rc.1/anything": "",
	} {
		write(t, folder, name, data, 0o600)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return server.URL
}

func write(t *testing.T, folder, name, data string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(folder, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(data), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAsdfInstallsARelease runs the plugin as asdf does: it lists the versions, downloads one, and installs it.
func TestAsdfInstallsARelease(t *testing.T) {
	plugin := t.TempDir()
	files, err := Plugin(published(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		write(t, plugin, f.Name, string(f.Data), f.Mode)
	}
	for name, row := range map[string]struct {
		version, kind string
		// says is a part of the error.
		says string
	}{
		"a version":                        {version: "1.2.3", kind: "version"},
		"a version with a leading v":       {version: "v1.2.3", kind: "version"},
		"a version that does not exist":    {version: "1.2.4", kind: "version", says: "/v1.2.4/SHA256SUMS failed"},
		"a version without this platform":  {version: "1.2.2", kind: "version", says: "release v1.2.2 has no file " + own},
		"an archive with another checksum": {version: "1.3.0", kind: "version", says: "want " + strings.Repeat("0", 64)},
		"a commit":                         {version: "main", kind: "ref", says: "asdf install liqoctl <version>"},
	} {
		t.Run(name, func(t *testing.T) {
			download, installed := filepath.Join(t.TempDir(), "download"), filepath.Join(t.TempDir(), "install")
			run := func(script string) (string, error) {
				command := exec.CommandContext(t.Context(), filepath.Join(plugin, "bin", script))
				command.Env = append(os.Environ(), "ASDF_INSTALL_TYPE="+row.kind, "ASDF_INSTALL_VERSION="+row.version, "ASDF_DOWNLOAD_PATH="+download, "ASDF_INSTALL_PATH="+installed)
				out, err := command.CombinedOutput()
				return string(out), err
			}
			if out, err := run("list-all"); err != nil || strings.TrimSpace(out) != "1.2.2 1.2.3 1.3.0" {
				t.Errorf("the versions are %q: %v", out, err)
			}
			out, err := run("download")
			if row.says != "" {
				if err == nil || !strings.Contains(out, row.says) {
					t.Errorf("%v: %s: no %q", err, out, row.says)
				}
				if _, err := os.Stat(download); !os.IsNotExist(err) {
					t.Errorf("a failed download leaves files: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("download: %v: %s", err, out)
			}
			if out, err = run("install"); err != nil {
				t.Fatalf("install: %v: %s", err, out)
			}
			text, err := exec.CommandContext(t.Context(), filepath.Join(installed, "bin", "liqoctl"), "version").CombinedOutput()
			if err != nil || string(text) != "liqoctl version\n" {
				t.Errorf("%v: %s", err, text)
			}
			for _, name := range []string{"completions/liqoctl.bash", "man/liqoctl.1"} {
				if _, err := os.Stat(filepath.Join(installed, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestReleasesAreBesideEachOther: the plugin finds each version in a folder of its name.
func TestReleasesAreBesideEachOther(t *testing.T) {
	if got, err := Releases("https://example.org/releases/v1.2.3", "v1.2.3"); err != nil || got != "https://example.org/releases" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Releases("https://example.org/files", "v1.2.3"); err == nil || !strings.Contains(err.Error(), "DOWNLOADS") {
		t.Errorf("%v", err)
	}
}
