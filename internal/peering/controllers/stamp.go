package controllers

import (
	"context"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stamping is a client that adds labels and annotations to each object that it creates. Values that the object already has take precedence.
type stamping struct {
	client.Client
	labels, annotations map[string]string
}

// Create creates the object with these labels and annotations.
func (s stamping) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	o.SetLabels(withDefaults(o.GetLabels(), s.labels))
	o.SetAnnotations(withDefaults(o.GetAnnotations(), s.annotations))
	return s.Client.Create(ctx, o, opts...)
}

// withDefaults returns the defaults, overridden by the present values.
func withDefaults(present, defaults map[string]string) map[string]string {
	if len(defaults) == 0 {
		return present
	}
	all := maps.Clone(defaults)
	maps.Copy(all, present)
	return all
}
