// Package image writes container images as OCI archives, without a container engine.
//
// An image is one uncompressed layer made of static files. The same Spec and the same file contents give the same bytes:
// entries are sorted, owned by root and dated at the Unix epoch. The archive can be imported with
// "ctr -n k8s.io images import FILE" or by any program that reads the OCI image layout, version 1.0.0.
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

// Spec is a whole image.
type Spec struct {
	// Name is the full reference with a tag, as pods write it: "registry.local/echo:v1".
	Name string
	// Entrypoint and Cmd are the argument vectors a pod's command and args replace.
	Entrypoint, Cmd []string
	// Env holds "NAME=value" entries. Without a PATH entry one with the usual bin folders is added.
	Env []string
	// User is "UID" or "UID:GID", or a name from /etc/passwd; empty means root.
	User string
	// Architecture is a GOARCH value; empty means that of the running program.
	Architecture string
	// Files are the contents. Parent folders, /tmp, /etc/passwd, /etc/group and /etc/nsswitch.conf come by themselves
	// and give way to entries of the same path.
	Files []File
}

// File is one entry of an image. At most one of Source, Content and Link is set; with none of them the entry is an empty file,
// or a folder if Mode says so.
type File struct {
	// Path is absolute and clean: "/bin/echo".
	Path string
	// Source is the path of a regular file on this machine. It must not change while the image is written.
	Source string
	// Content is the file's content itself.
	Content []byte
	// Mode holds the permission bits and fs.ModeDir for a folder. Zero means 0755 for Source, 0644 for Content.
	Mode fs.FileMode
	// Link is the target of a symbolic link.
	Link string
}

// epoch dates every entry, so that time does not change the bytes.
var epoch = time.Unix(0, 0).UTC()

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nameForm asks for a host, a path and a tag: without a host a container runtime would look in a public registry.
var nameForm = regexp.MustCompile(`^([a-z0-9.-]+\.[a-z0-9.-]+|localhost)(:[0-9]+)?(/[a-z0-9._-]+)+:([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})$`)

// Write writes the image to w as a tar archive holding an OCI image layout.
// It reads each Source twice, first for the digest, so that no layer is held in memory.
func Write(w io.Writer, spec Spec) error {
	match := nameForm.FindStringSubmatch(spec.Name)
	if match == nil {
		return fmt.Errorf("naming image %q: want HOST/PATH:TAG", spec.Name)
	}
	tag := match[4]
	if tag == "latest" {
		// kubelet would try to pull it at every start, and there is no registry to pull from.
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

// document is a small file of the layout.
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
		// containerd takes the whole name from its own annotation; the standard one holds only the tag.
		"io.containerd.image.name": spec.Name,
		ocispec.AnnotationRefName:  tag,
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

// blob encodes a value and names it by its digest.
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

// writeArchive writes the documents and then the layer, which it checks against its digest while it streams.
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
