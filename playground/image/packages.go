package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"liqo.io/playground/debian"
)

// form is part of Inputs. Increase it when the same packages and files must result in another archive, so that existing archives are written again.
const form = 1

// fromPackages writes an image of packages and of the files of spec. A file of spec replaces a file of a package at the same path. fromPackages does
// nothing if the archive is up to date.
func fromPackages(ctx context.Context, store debian.Store, names []string, output string, spec Spec) error {
	if spec.Architecture != "" && spec.Architecture != runtime.GOARCH {
		return fmt.Errorf("building image %s for %s: packages are for this machine's architecture, %s", spec.Name, spec.Architecture, runtime.GOARCH)
	}
	packages, err := store.Resolve(ctx, names)
	if err != nil {
		return err
	}
	if spec.Inputs, err = inputs(packages, spec); err != nil {
		return err
	}
	if written(output) == spec.Inputs {
		store.Report("%s is up to date", output)
		return nil
	}
	if err := store.Fetch(ctx, names, packages); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(store.Dir, ".unpacked-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store.Report("building %s of %d packages of Debian ...", spec.Name, len(packages))
	files, err := store.Unpack(ctx, packages, dir)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, f := range spec.Files {
		given[f.Path] = true
	}
	for _, f := range files {
		if !given[f.Path] {
			spec.Files = append(spec.Files, File{Path: f.Path, Source: f.Source, Link: f.Link, Mode: f.Mode})
		}
	}
	return WriteFile(output, spec)
}

// inputs returns a text that identifies everything that the image is made of.
func inputs(packages []debian.Package, spec Spec) (string, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode([]any{form, packages, spec}); err != nil {
		return "", err
	}
	for _, f := range spec.Files {
		if f.Source == "" {
			continue
		}
		file, err := os.Open(f.Source)
		if err != nil {
			return "", err
		}
		size, err := io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("reading %s: %w", f.Source, err)
		}
		fmt.Fprintln(sum, size)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// written returns the Inputs of an existing archive; "" if there is no archive or it has no Inputs. An archive is placed atomically, so it is never
// incomplete.
func written(name string) string {
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for archive := tar.NewReader(file); ; {
		h, err := archive.Next()
		if err != nil {
			return ""
		}
		if h.Name != ocispec.ImageIndexFile {
			continue
		}
		var index ocispec.Index
		if err := json.NewDecoder(archive).Decode(&index); err != nil || len(index.Manifests) != 1 {
			return ""
		}
		return index.Manifests[0].Annotations[annotationInputs]
	}
}
