// Package debian extracts the files of Debian packages without installing them.
//
// apt selects and downloads the packages, according to this machine's sources.list and keys, and dpkg-deb reads them. Nothing on this machine
// changes, and no maintainer script runs. So a program gets the content of its packages, and not what their scripts would create: the caller has to
// provide users, alternatives and caches.
package debian

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// essential selects the packages that any other package may use without depending on them. apt is one of them only because upgrades need it, and
// nothing is upgraded here.
const essential = "?and(?essential,?not(?exact-name(apt)))"

// requested matches the name of a package, with its version if the user gave one. It rejects options and patterns of apt.
var requested = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`)

// Store is a folder of this machine that keeps fetched packages.
type Store struct {
	// Dir is created if it is missing. It may be removed while no program uses it.
	Dir string
	// Report is called before each step that takes long.
	Report func(format string, args ...any)
}

// Package is one version of a package.
type Package struct {
	// File is the name of its file, which contains the name, the version and the architecture.
	File string
	// SHA256 is the checksum of that file, in hexadecimal digits, as in the signed index of the archive.
	SHA256 string

	size int64
}

// Resolve returns the named packages, their dependencies, and the essential packages, in the order in which apt would install them on an empty
// machine. It leaves out recommended packages. It reads apt's index on this machine, and uses no network.
func (s Store) Resolve(ctx context.Context, names []string) ([]Package, error) {
	out, err := s.apt(ctx, names, filepath.Join(s.Dir, "none"), "--print-uris", "-o", "Acquire::ForceHash=SHA256")
	if err != nil {
		return nil, fmt.Errorf("choosing packages of Debian: %w", err)
	}
	return parse(out)
}

// parse reads the output of apt-get --print-uris: 'URL' FILE SIZE SHA256:SUM.
func parse(out []byte) ([]Package, error) {
	var packages []Package
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 4 || !strings.HasSuffix(fields[1], ".deb") || filepath.Base(fields[1]) != fields[1] {
			return nil, fmt.Errorf("reading what apt-get says: %q is no package", lines.Text())
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		sum, known := strings.CutPrefix(fields[3], "SHA256:")
		if err != nil || !known {
			return nil, fmt.Errorf("reading what apt-get says: %q has no size or no SHA-256 sum", lines.Text())
		}
		packages = append(packages, Package{File: fields[1], SHA256: sum, size: size})
	}
	if len(packages) == 0 {
		return nil, errors.New("reading what apt-get says: it names no package")
	}
	return packages, nil
}

// Fetch downloads the packages that the store does not contain. names are the names that Resolve was given.
func (s Store) Fetch(ctx context.Context, names []string, packages []Package) error {
	var missing []Package
	var size int64
	for _, p := range packages {
		if info, err := os.Stat(s.file(p)); err != nil || info.Size() != p.size {
			missing, size = append(missing, p), size+p.size
		}
	}
	if len(missing) == 0 {
		return nil
	}
	s.Report("fetching %d packages of Debian, %d MB ...", len(missing), size>>20)
	// Download to a folder of this call, so that commands don't wait for each other, and a killed command leaves no incomplete package in the store.
	dir, err := os.MkdirTemp(s.Dir, ".fetching-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(filepath.Join(dir, "partial"), 0o755); err != nil {
		return err
	}
	for _, p := range packages {
		if slices.Contains(missing, p) {
			continue
		}
		if err := os.Link(s.file(p), filepath.Join(dir, p.File)); err != nil {
			return err
		}
	}
	if _, err := s.apt(ctx, names, dir, "--download-only"); err != nil {
		return fmt.Errorf("fetching packages of Debian (does apt-get update help?): %w", err)
	}
	for _, p := range missing {
		if err := os.Rename(filepath.Join(dir, p.File), s.file(p)); err != nil {
			return fmt.Errorf("keeping a package of Debian: %w", err)
		}
	}
	return nil
}

func (s Store) file(p Package) string { return filepath.Join(s.Dir, p.File) }

// apt runs apt-get install for a machine without any packages.
func (s Store) apt(ctx context.Context, names []string, archives string, more ...string) ([]byte, error) {
	for _, name := range names {
		if !requested.MatchString(name) {
			return nil, fmt.Errorf("%q: want the name of a package, or NAME=VERSION", name)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	status := filepath.Join(s.Dir, "status")
	if file, err := os.OpenFile(status, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	} else if err := file.Close(); err != nil {
		return nil, err
	}
	args := []string{"install", "--quiet=2", "--yes", "--no-install-recommends"}
	for _, option := range []string{
		"Dir::State::status=" + status, "Dir::Cache::archives=" + archives,
		"Dir::Cache::pkgcache=" + filepath.Join(s.Dir, "pkgcache.bin"), "Dir::Cache::srcpkgcache=" + filepath.Join(s.Dir, "srcpkgcache.bin"),
		// Nothing on this machine changes, so apt needs no lock. apt's own user could not write to our folder.
		"Debug::NoLocking=true", "APT::Sandbox::User=root",
	} {
		args = append(args, "-o", option)
	}
	args = append(append(append(args, more...), names...), essential)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running apt-get: %w: %s", cmp.Or(ctx.Err(), err), strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}
