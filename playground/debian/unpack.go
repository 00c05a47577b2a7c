package debian

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// File is a file, a folder or a symbolic link of a package.
type File struct {
	// Path is the path in the package: absolute and clean.
	Path string
	// Source is a file of this machine with the content of the file.
	Source string
	// Link is the target of a symbolic link.
	Link string
	// Mode has fs.ModeDir for a folder. The setuid and setgid bits are not set, because all files belong to root.
	Mode fs.FileMode
}

// merged are the folders that Debian links to the folders of the same names in /usr. Packages use both paths.
var merged = []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}

// unneeded are folders that no program in an image needs.
var unneeded = []string{
	"/usr/share/bug", "/usr/share/doc", "/usr/share/doc-base", "/usr/share/info", "/usr/share/lintian", "/usr/share/locale", "/usr/share/man",
}

// Unpack returns the files of downloaded packages, sorted by path. It writes their contents to dir, which belongs to the caller. If two packages have
// the same file, the file of the later package is used. Documentation and translations are left out.
func (s Store) Unpack(ctx context.Context, packages []Package, dir string) ([]File, error) {
	u := unpacking{dir: dir, files: map[string]File{}}
	for _, p := range packages {
		if err := u.read(ctx, s.file(p), p.SHA256); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", p.File, err)
		}
	}
	for _, name := range merged {
		if _, used := u.files["/usr/"+name]; used {
			u.files["/"+name] = File{Path: "/" + name, Link: "usr/" + name}
		}
	}
	var files []File
	for _, f := range u.files {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// unpacking is the state of Unpack.
type unpacking struct {
	dir   string
	files map[string]File
	count int
}

// read adds the files of one package. It returns an error if the checksum of the package's file is not sum.
func (u *unpacking) read(ctx context.Context, file, sum string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
		return fmt.Errorf("%s is damaged: remove it, and it is fetched again", file)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := u.add(tar.NewReader(out)); err != nil {
		stop()
		_ = cmd.Wait() // the command was killed, so Wait returns although nobody reads the rest of its output
		return fmt.Errorf("%w %s", err, strings.TrimSpace(said.String()))
	}
	_, err = io.Copy(io.Discard, out) // the padding at the end of an archive
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("running dpkg-deb: %w: %s", cmp.Or(ctx.Err(), err), strings.TrimSpace(said.String()))
	}
	return nil
}

// add adds all entries of an archive.
func (u *unpacking) add(archive *tar.Reader) error {
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := place(h.Name)
		if name == "/" || slices.ContainsFunc(unneeded, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }) {
			continue
		}
		f := File{Path: name}
		switch h.Typeflag {
		case tar.TypeDir:
			f.Mode = fs.ModeDir | h.FileInfo().Mode().Perm() | h.FileInfo().Mode()&fs.ModeSticky
		case tar.TypeSymlink:
			f.Link = h.Linkname
		case tar.TypeLink:
			other, known := u.files[place(h.Linkname)]
			if !known {
				return fmt.Errorf("%s is another name of %s, which is not there", name, h.Linkname)
			}
			f.Source, f.Mode = other.Source, other.Mode
		case tar.TypeReg:
			f.Mode = h.FileInfo().Mode().Perm()
			if f.Source, err = u.keep(archive); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file, a folder nor a link", name)
		}
		u.files[name] = f
	}
}

// keep writes a file under a generated name, so that no name in a package can lead out of the folder.
func (u *unpacking) keep(content io.Reader) (string, error) {
	u.count++
	name := filepath.Join(u.dir, strconv.Itoa(u.count))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, content)
	return name, errors.Join(err, file.Close())
}

// place returns the path of an entry on a Debian machine, where some folders are links to folders in /usr.
func place(name string) string {
	name = path.Clean("/" + name)
	first, _, _ := strings.Cut(name[1:], "/")
	if slices.Contains(merged, first) {
		return "/usr" + name
	}
	return name
}
