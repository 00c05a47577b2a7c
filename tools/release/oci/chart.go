package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"
)

const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// artifact is a manifest with one layer and a configuration that is not that of a container.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

// Chart returns a packed chart as the artifact that Helm pulls. metadata is its Chart.yaml.
func Chart(packed, metadata []byte, annotations map[string]string) (v1.Image, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(metadata, &fields); err != nil {
		return nil, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	config, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing Chart.yaml as JSON: %w", err)
	}
	configHash, configSize, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(packed, chartContent)
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: v1.Descriptor{MediaType: chartConfig, Digest: configHash, Size: configSize},
		Layers: []v1.Descriptor{*content},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&artifact{config, manifest, layer})
}

// MediaType implements partial.CompressedImageCore.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a *artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	own, err := a.layer.Digest()
	if err != nil {
		return nil, err
	}
	if digest != own {
		return nil, fmt.Errorf("looking for layer %s of a chart: it has %s only", digest, own)
	}
	return compressed{a.layer}, nil
}

// compressed hides that a layer can be read uncompressed: the content of a chart is opaque.
type compressed struct{ layer v1.Layer }

// Digest implements partial.CompressedLayer.
func (c compressed) Digest() (v1.Hash, error) { return c.layer.Digest() }

// Compressed implements partial.CompressedLayer.
func (c compressed) Compressed() (io.ReadCloser, error) { return c.layer.Compressed() }

// Size implements partial.CompressedLayer.
func (c compressed) Size() (int64, error) { return c.layer.Size() }

// MediaType implements partial.CompressedLayer.
func (c compressed) MediaType() (types.MediaType, error) { return c.layer.MediaType() }
