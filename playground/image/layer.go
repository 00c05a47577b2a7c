package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// base returns the entries that programs and container runtimes expect in any image: users and groups, the name lookup configuration,
// a folder for temporary files, and mount points.
func base() []File {
	return []File{
		{Path: "/dev", Mode: fs.ModeDir | 0o755},
		{Path: "/proc", Mode: fs.ModeDir | 0o755},
		{Path: "/run", Mode: fs.ModeDir | 0o755},
		{Path: "/sys", Mode: fs.ModeDir | 0o755},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "/var", Mode: fs.ModeDir | 0o755},
		{Path: "/etc/passwd", Content: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		{Path: "/etc/group", Content: []byte("root:x:0:\nnobody:x:65534:\n")},
		{Path: "/etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
	}
}

// layout adds the base entries and all parent folders to the files, sets each entry's mode, and sorts the entries by path.
func layout(files []File) ([]File, error) {
	all := map[string]File{}
	for _, f := range files {
		complete, err := normal(f)
		if err != nil {
			return nil, fmt.Errorf("adding %q: %w", f.Path, err)
		}
		if _, twice := all[f.Path]; twice {
			return nil, fmt.Errorf("adding %q: the path is given twice", f.Path)
		}
		all[f.Path] = complete
	}
	for _, f := range base() {
		if _, given := all[f.Path]; given {
			continue
		}
		complete, err := normal(f)
		if err != nil {
			return nil, fmt.Errorf("adding %q: %w", f.Path, err)
		}
		all[f.Path] = complete
	}
	var entries []File
	for _, f := range all {
		entries = append(entries, f)
	}
	for _, f := range entries {
		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			parent, known := all[dir]
			if !known {
				parent = File{Path: dir, Mode: fs.ModeDir | 0o755}
				all[dir] = parent
				entries = append(entries, parent)
			}
			if !parent.Mode.IsDir() {
				return nil, fmt.Errorf("adding %q: %q is not a folder", f.Path, dir)
			}
		}
	}
	slices.SortFunc(entries, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

// normal validates one entry and sets its mode.
func normal(f File) (File, error) {
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
		return f, errors.New("want a clean absolute path")
	}
	kinds := 0
	for _, set := range []bool{f.Source != "", f.Content != nil, f.Link != "", f.Mode.IsDir()} {
		if set {
			kinds++
		}
	}
	if kinds > 1 {
		return f, errors.New("want only one of source, content, link and folder")
	}
	switch {
	case f.Link != "":
		f.Mode = fs.ModeSymlink | 0o777
	case f.Mode != 0:
	case f.Source != "":
		f.Mode = 0o755
	default:
		f.Mode = 0o644
	}
	if other := f.Mode &^ (fs.ModePerm | fs.ModeDir | fs.ModeSymlink | fs.ModeSticky | fs.ModeSetuid | fs.ModeSetgid); other != 0 {
		return f, fmt.Errorf("mode %v is not possible in an image", other)
	}
	return f, nil
}

// digestLayer returns the descriptor of the layer that writeLayer produces from the entries.
func digestLayer(entries []File) (ocispec.Descriptor, error) {
	digester := digest.Canonical.Digester()
	size := &counter{}
	if err := writeLayer(io.MultiWriter(digester.Hash(), size), entries); err != nil {
		return ocispec.Descriptor{}, err
	}
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digester.Digest(), Size: size.bytes}, nil
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// writeLayer writes the entries as the tar archive of a layer.
func writeLayer(w io.Writer, entries []File) error {
	layer := tar.NewWriter(w)
	for _, f := range entries {
		if err := writeEntry(layer, f); err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
	}
	return layer.Close()
}

func writeEntry(layer *tar.Writer, f File) error {
	name := strings.TrimPrefix(f.Path, "/")
	mode := tarMode(f.Mode)
	switch {
	case f.Mode.IsDir():
		return layer.WriteHeader(header(name+"/", tar.TypeDir, mode, 0))
	case f.Link != "":
		h := header(name, tar.TypeSymlink, mode, 0)
		h.Linkname = f.Link
		return layer.WriteHeader(h)
	case f.Source != "":
		return writeSource(layer, name, mode, f.Source)
	}
	if err := layer.WriteHeader(header(name, tar.TypeReg, mode, int64(len(f.Content)))); err != nil {
		return err
	}
	_, err := io.Copy(layer, bytes.NewReader(f.Content))
	return err
}

func writeSource(layer *tar.Writer, name string, mode int64, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file was only read, so an error has no effect
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("reading %s: not a regular file", source)
	}
	if err := layer.WriteHeader(header(name, tar.TypeReg, mode, info.Size())); err != nil {
		return err
	}
	_, err = io.CopyN(layer, file, info.Size())
	return err
}

func header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: epoch, Format: tar.FormatPAX}
}

// tarMode converts mode bits of package fs to those of the tar format, which are the Unix mode bits.
func tarMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}
