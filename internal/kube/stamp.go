package kube

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
)

// Stamping is a client that adds labels and annotations to each object that it creates. Values that the object already has take precedence.
type Stamping struct {
	client.Client
	Labels, Annotations map[string]string
}

// Create creates the object with these labels and annotations.
func (s Stamping) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	o.SetLabels(api.Layered(s.Labels, o.GetLabels()))
	o.SetAnnotations(api.Layered(s.Annotations, o.GetAnnotations()))
	return s.Client.Create(ctx, o, opts...)
}
