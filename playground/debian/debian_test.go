package debian

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/playground/debian/debiantest"
)

func TestParse(t *testing.T) {
	got, err := parse([]byte("'http://x/a_1%2b2_all.deb' a_1+2_all.deb 12 SHA256:ab\n'http://x/b' b_1_amd64.deb 3 SHA256:cd\n"))
	want := []Package{{"a_1+2_all.deb", "ab", 12}, {"b_1_amd64.deb", "cd", 3}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Package{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, text := range []string{"", "\n", "x", "'u' a.deb 1", "'u' a.deb x SHA256:ab", "'u' a.deb 1 MD5Sum:ab", "'u' ../a.deb 1 SHA256:ab", "'u' a.rpm 1 SHA256:ab"} {
		if got, err := parse([]byte(text)); err == nil {
			t.Errorf("%q: accepted as %v", text, got)
		}
	}
}

func TestNamesAreNoOptions(t *testing.T) {
	for _, name := range []string{"", "-o", "--yes", "a/b", "?essential", "~n.", "a b", "Ab", "ab="} {
		_, err := Store{Dir: t.TempDir()}.Resolve(t.Context(), []string{name})
		if err == nil || !strings.Contains(err.Error(), "want the name of a package") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// archive has a program that needs a library, an essential package, and one that nothing needs.
func archive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	debiantest.Archive(t, dir,
		debiantest.Package{
			Name: "server", Version: "1:2.0-1", Fields: "Depends: library\nRecommends: manual\n",
			Files: map[string]string{"usr/sbin/server": "server", "usr/share/doc/server/copyright": "text", "etc/shared": "of server"},
		},
		debiantest.Package{
			Name: "library", Version: "1", Fields: "",
			Files: map[string]string{"lib/here/library.so.1": "library", "etc/shared": "of library"}, Links: map[string]string{"lib/here/library.so": "library.so.1"},
		},
		debiantest.Package{Name: "shell", Version: "1", Fields: "Essential: yes\n", Files: map[string]string{"bin/sh": "shell"}},
		debiantest.Package{Name: "manual", Version: "1", Files: map[string]string{"usr/bin/manual": "manual"}},
	)
	return dir
}

func TestPackagesAndWhatTheyNeed(t *testing.T) {
	source := archive(t)
	var said []string
	s := Store{Dir: filepath.Join(t.TempDir(), "store"), Report: func(format string, _ ...any) { said = append(said, format) }}
	names := []string{"server"}
	packages, err := s.Resolve(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fetch(t.Context(), names, packages); err != nil {
		t.Fatal(err)
	}
	files, err := s.Unpack(t.Context(), packages, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		if f.Mode.IsDir() {
			continue
		}
		content := "-> " + f.Link
		if f.Link == "" {
			data, err := os.ReadFile(f.Source)
			if err != nil {
				t.Fatal(err)
			}
			content = string(data)
		}
		got = append(got, f.Path+" "+content)
	}
	want := []string{
		"/bin -> usr/bin", "/etc/shared of server", "/lib -> usr/lib", "/sbin -> usr/sbin", "/usr/bin/sh shell",
		"/usr/lib/here/library.so -> library.so.1", "/usr/lib/here/library.so.1 library", "/usr/sbin/server server",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(said) != 1 {
		t.Errorf("said %q, want that it fetches", said)
	}

	// Nothing is fetched again, although the archive is gone.
	if err := os.RemoveAll(source); err != nil {
		t.Fatal(err)
	}
	if err := s.Fetch(t.Context(), names, packages); err != nil || len(said) != 1 {
		t.Errorf("the second time: %v, said %q", err, said)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestDamagedPackageIsRefused(t *testing.T) {
	archive(t)
	s := Store{Dir: t.TempDir(), Report: t.Logf}
	names := []string{"shell"}
	packages, err := s.Resolve(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Fetch(t.Context(), names, packages); err != nil {
		t.Fatal(err)
	}
	file := s.file(packages[0])
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unpack(t.Context(), packages, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("unpacked: %v", err)
	}
}

func TestUnknownPackageIsNamed(t *testing.T) {
	archive(t)
	if _, err := (Store{Dir: t.TempDir()}).Resolve(t.Context(), []string{"absent"}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("resolved: %v", err)
	}
}

func TestPlace(t *testing.T) {
	for name, want := range map[string]string{
		"./": "/", "./bin/": "/usr/bin", "./lib64/ld.so": "/usr/lib64/ld.so", "./usr/bin/x": "/usr/bin/x", "./library/x": "/library/x", "../../etc/x": "/etc/x",
	} {
		if got := place(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
