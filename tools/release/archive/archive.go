// Package archive writes archives whose bytes depend on names, modes and contents only.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// File is an entry of an archive. A folder has fs.ModeDir in its mode and no data.
type File struct {
	Name string
	Mode fs.FileMode
	Data []byte
}

// sorted returns the files in the order of their names, and refuses a name that is there twice.
func sorted(files []File) ([]File, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(files); i++ {
		if files[i].Name == files[i-1].Name {
			return nil, fmt.Errorf("adding %q to an archive: the name is there twice", files[i].Name)
		}
	}
	return files, nil
}

// TarGz returns a compressed tar archive. All entries belong to root and have the given date.
func TarGz(files []File, date time.Time) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{
			Name: file.Name, Mode: tarMode(file.Mode), Size: int64(len(file.Data)), ModTime: date.UTC(), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if file.Mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, file.Name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding %q to an archive: %w", file.Name, err)
		}
		if _, err := w.Write(file.Data); err != nil {
			return nil, fmt.Errorf("adding %q to an archive: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// tarMode returns the mode bits of Unix, including the one that lets only owners delete files of a shared folder.
func tarMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// Zip returns a zip archive. All entries have the given date.
func Zip(files []File, date time.Time) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: date.UTC()}
		header.SetMode(file.Mode)
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(file.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("adding %q to an archive: %w", file.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
