// Package debiantest creates Debian archives for tests, so that these need no network.
package debiantest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Package describes a package for all architectures.
type Package struct {
	Name, Version string
	// Fields are additional lines of the package's control file, such as "Depends: other\n".
	Fields string
	// Files are contents by path, Links targets by path. A path is relative to /.
	Files, Links map[string]string
}

// Script is the maintainer script of all packages. It fails, so that a test notices if it runs.
const Script = "#!/bin/sh\necho a maintainer script ran >&2\nexit 1\n"

// Archive creates an archive of packages in dir. For the rest of the test, it is the only archive that apt uses.
func Archive(t *testing.T, dir string, packages ...Package) {
	t.Helper()
	var index bytes.Buffer
	for _, p := range packages {
		description := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\n%sDescription: for a test\n", p.Name, p.Version, p.Fields)
		tree := t.TempDir()
		put(t, tree, "DEBIAN/control", description, 0o644)
		put(t, tree, "DEBIAN/postinst", Script, 0o755)
		for name, content := range p.Files {
			put(t, tree, name, content, 0o755)
		}
		for name, target := range p.Links {
			if err := os.MkdirAll(filepath.Join(tree, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
				t.Fatal(err)
			}
		}
		file := p.Name + ".deb"
		run(t, "dpkg-deb", "--root-owner-group", "--build", tree, filepath.Join(dir, file))
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", description, file, len(data), sha256.Sum256(data))
	}
	put(t, dir, "Packages", index.String(), 0o644)
	put(t, dir, "sources.list", "deb [trusted=yes] copy:"+dir+" ./\n", 0o644)
	put(t, dir, "status", "", 0o644)
	for _, folder := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "apt.conf", fmt.Sprintf(`Dir::Etc::SourceList "%[1]s/sources.list";
Dir::Etc::SourceParts "%[1]s/none";
Dir::State::Lists "%[1]s/lists";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s";
Acquire::Languages "none";
APT::Sandbox::User "root";
`, dir), 0o644)
	t.Setenv("APT_CONFIG", filepath.Join(dir, "apt.conf"))
	run(t, "apt-get", "update", "--quiet=2")
}

func put(t *testing.T, dir, name, content string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
