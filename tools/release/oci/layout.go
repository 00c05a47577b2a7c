package oci

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	// refName holds the path and tag below the registry.
	refName = "org.opencontainers.image.ref.name"
	// containerdName holds the name under which containerd imports an image.
	containerdName = "io.containerd.image.name"
)

// Layout is an OCI image layout in a folder. Its index names everything in it by path and tag below a registry.
type Layout struct {
	path layout.Path
	// registry is where the images are pulled from unless users say otherwise.
	registry string
}

// NewLayout makes an empty layout in a folder.
func NewLayout(folder, registry string) (*Layout, error) {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("creating an OCI layout in %s: %w", folder, err)
	}
	return &Layout{path, registry}, nil
}

// AddIndex adds an image of several architectures.
func (l *Layout) AddIndex(reference string, index v1.ImageIndex) error {
	names := map[string]string{refName: reference, containerdName: l.registry + "/" + reference}
	if err := l.path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("adding %s to the OCI layout: %w", reference, err)
	}
	return nil
}

// AddArtifact adds what is no container image.
func (l *Layout) AddArtifact(reference string, image v1.Image) error {
	if err := l.path.AppendImage(image, layout.WithAnnotations(map[string]string{refName: reference})); err != nil {
		return fmt.Errorf("adding %s to the OCI layout: %w", reference, err)
	}
	return nil
}

// Push copies everything in a layout to a registry, given as HOST/PATH. It reports each reference and its digest, which a registry does not change.
func Push(ctx context.Context, folder, registry string, report func(reference string, digest v1.Hash)) error {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return fmt.Errorf("reading the OCI layout in %s: %w: run make release first", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the OCI layout in %s: %w", folder, err)
	}
	for _, entry := range manifest.Manifests {
		target, err := name.NewTag(registry+"/"+entry.Annotations[refName], name.StrictValidation)
		if err != nil {
			return fmt.Errorf("REGISTRY is %q: give HOST/PATH: %w", registry, err)
		}
		options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
		if entry.MediaType.IsIndex() {
			var images v1.ImageIndex
			if images, err = index.ImageIndex(entry.Digest); err == nil {
				err = remote.WriteIndex(target, images, options...)
			}
		} else {
			var image v1.Image
			if image, err = index.Image(entry.Digest); err == nil {
				err = remote.Write(target, image, options...)
			}
		}
		if err != nil {
			return fmt.Errorf("pushing %s: %w", target, err)
		}
		report(target.String(), entry.Digest)
	}
	return nil
}
