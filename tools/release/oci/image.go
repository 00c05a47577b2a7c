// Package oci makes container images and the artifact of the chart, keeps them in an OCI image layout, and pushes them to registries.
package oci

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"liqo.io/liqo/tools/release/archive"
)

// Spec describes an image for one architecture of Linux.
type Spec struct {
	Architecture string
	Entrypoint   string
	User         string
	Labels       map[string]string
	Files        []archive.File
	Date         time.Time
}

// base are the files that programs expect in any image: users and groups, the configuration of name lookups, and a folder for temporary files.
var base = []archive.File{
	{Name: "etc", Mode: fs.ModeDir | 0o755},
	{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnobody:x:65534:\n")},
	{Name: "etc/nsswitch.conf", Mode: 0o644, Data: []byte("hosts: files dns\n")},
	{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
	{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
}

// Image returns the image of a Spec. It has one layer.
func Image(spec Spec) (v1.Image, error) {
	layer, err := archive.TarGz(append(base[:len(base):len(base)], spec.Files...), spec.Date)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }
	read, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("creating a layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: read, History: v1.History{Created: v1.Time{Time: spec.Date.UTC()}}})
	if err != nil {
		return nil, fmt.Errorf("adding a layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of an image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", spec.Architecture, v1.Time{Time: spec.Date.UTC()}
	config.Config = v1.Config{
		User: spec.User, Entrypoint: []string{spec.Entrypoint}, Labels: spec.Labels, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	return mutate.ConfigFile(image, config)
}

// Index returns one index with the images of all architectures, so that each node pulls its own by the same name.
func Index(images map[string]v1.Image, architectures []string, annotations map[string]string) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[architecture],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex) //nolint:forcetypeassert // an index stays one
}
