// Package image writes container images as OCI archives, without a container engine.
//
// An image has one uncompressed layer with the given files. The same Spec and the same file contents always give the same bytes:
// entries are sorted, owned by root and dated at the Unix epoch. "ctr -n k8s.io images import FILE" can import the archive, and so can
// any program that reads the OCI image layout, version 1.0.0.
package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"runtime"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Spec describes a complete image.
type Spec struct {
	// Name is the full image reference with a tag, as in a pod's spec: "registry.local/echo:v1".
	Name string
	// Entrypoint and Cmd are the argument vectors that a pod's command and args override.
	Entrypoint, Cmd []string
	// Env contains "NAME=value" entries. If there is no PATH entry, one with the usual bin folders is added.
	Env []string
	// User is "UID" or "UID:GID", or a name from /etc/passwd; empty means root.
	User string
	// Architecture is a GOARCH value; empty means the architecture of the running program.
	Architecture string
	// Files are the files of the image. Parent folders and the usual folders and files, such as /tmp, /etc/passwd, /etc/group and
	// /etc/nsswitch.conf, are added automatically. An entry of the same path replaces them.
	Files []File
	// Inputs, if it is not empty, identifies everything that the image is made of. The archive contains it, so that a later call can skip an archive
	// that is up to date.
	Inputs string
}

// File is one entry of an image. At most one of Source, Content and Link is set. If none is set, the entry is a folder if Mode has
// fs.ModeDir, otherwise an empty file.
type File struct {
	// Path is an absolute, clean path, such as "/bin/echo".
	Path string
	// Source is the path of a regular file on this machine. It must not change while the image is written.
	Source string
	// Content is the content of the file.
	Content []byte
	// Mode contains the permission bits, and fs.ModeDir for a folder. Zero means 0755 with Source, otherwise 0644. Links ignore it.
	Mode fs.FileMode
	// Link is the target of a symbolic link.
	Link string
}

// epoch is the modification time of every entry, so that the bytes do not depend on the time of the build.
var epoch = time.Unix(0, 0).UTC()

// annotationInputs has Spec.Inputs, in the index of the archive.
const annotationInputs = "io.liqo.playground.inputs"

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nameForm requires a host, a path and a tag. Without a host, a container runtime would assume a public registry.
var nameForm = regexp.MustCompile(`^([a-z0-9.-]+\.[a-z0-9.-]+|localhost)(:[0-9]+)?(/[a-z0-9._-]+)+:([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$`)

// Write writes the image to w as a tar archive in OCI image layout.
// It reads each Source twice, the first time for the digest, so that it never holds a layer in memory.
func Write(w io.Writer, spec Spec) error {
	match := nameForm.FindStringSubmatch(spec.Name)
	if match == nil {
		return fmt.Errorf("naming image %q: want HOST/PATH:TAG", spec.Name)
	}
	tag := match[4]
	if tag == "latest" {
		// By default, kubelet would try to pull this tag at every container start, and there is no registry.
		return fmt.Errorf("naming image %q: a tag other than latest is needed", spec.Name)
	}
	entries, err := layout(spec.Files)
	if err != nil {
		return fmt.Errorf("laying out image %s: %w", spec.Name, err)
	}
	layer, err := digestLayer(entries)
	if err != nil {
		return fmt.Errorf("reading the files of image %s: %w", spec.Name, err)
	}
	documents, err := describe(spec, tag, layer)
	if err != nil {
		return fmt.Errorf("describing image %s: %w", spec.Name, err)
	}
	if err := writeArchive(w, documents, layer, entries); err != nil {
		return fmt.Errorf("writing image %s: %w", spec.Name, err)
	}
	return nil
}

// document is a small file of the OCI image layout.
type document struct {
	name string
	data []byte
}

// describe returns the layout file, the index, the configuration and the manifest, in this order.
func describe(spec Spec, tag string, layer ocispec.Descriptor) ([]document, error) {
	platform := ocispec.Platform{Architecture: spec.Architecture, OS: "linux"}
	if platform.Architecture == "" {
		platform.Architecture = runtime.GOARCH
	}
	config, configBlob, err := blob(ocispec.MediaTypeImageConfig, ocispec.Image{
		Created:  &epoch,
		Platform: platform,
		Config: ocispec.ImageConfig{
			User:       spec.User,
			Env:        withPath(spec.Env),
			Entrypoint: spec.Entrypoint,
			Cmd:        spec.Cmd,
			WorkingDir: "/",
		},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
	})
	if err != nil {
		return nil, err
	}
	manifest, manifestBlob, err := blob(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    config,
		Layers:    []ocispec.Descriptor{layer},
	})
	if err != nil {
		return nil, err
	}
	manifest.Platform = &platform
	manifest.Annotations = map[string]string{
		// containerd reads the full name from its own annotation; the standard annotation contains only the tag.
		"io.containerd.image.name": spec.Name,
		ocispec.AnnotationRefName:  tag,
	}
	if spec.Inputs != "" {
		manifest.Annotations[annotationInputs] = spec.Inputs
	}
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{manifest},
	})
	if err != nil {
		return nil, err
	}
	version, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return nil, err
	}
	return []document{
		{ocispec.ImageLayoutFile, version},
		{ocispec.ImageIndexFile, index},
		configBlob,
		manifestBlob,
	}, nil
}

// blob encodes a value as JSON and returns it as a document named by its digest.
func blob(mediaType string, value any) (ocispec.Descriptor, document, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return ocispec.Descriptor{}, document{}, err
	}
	sum := digest.FromBytes(data)
	return ocispec.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(data))}, document{blobPath(sum), data}, nil
}

func blobPath(sum digest.Digest) string {
	return ocispec.ImageBlobsDir + "/" + sum.Algorithm().String() + "/" + sum.Encoded()
}

func withPath(env []string) []string {
	for _, entry := range env {
		if len(entry) >= 5 && entry[:5] == "PATH=" {
			return env
		}
	}
	return append([]string{defaultPath}, env...)
}

// writeArchive writes the documents and then the layer. It verifies the layer's digest while it writes.
func writeArchive(w io.Writer, documents []document, layer ocispec.Descriptor, entries []File) error {
	archive := tar.NewWriter(w)
	for _, d := range documents {
		if err := archive.WriteHeader(header(d.name, tar.TypeReg, 0o644, int64(len(d.data)))); err != nil {
			return err
		}
		if _, err := io.Copy(archive, bytes.NewReader(d.data)); err != nil {
			return err
		}
	}
	if err := archive.WriteHeader(header(blobPath(layer.Digest), tar.TypeReg, 0o644, layer.Size)); err != nil {
		return err
	}
	verifier := layer.Digest.Verifier()
	if err := writeLayer(io.MultiWriter(archive, verifier), entries); err != nil {
		return err
	}
	if !verifier.Verified() {
		return fmt.Errorf("checking layer %s: a source file changed while it was read", layer.Digest)
	}
	return archive.Close()
}
