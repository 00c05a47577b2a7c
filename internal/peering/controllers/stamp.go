package controllers

import (
	"context"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stamping puts labels and annotations on everything that is created through it. Those that an object has already stay.
type stamping struct {
	client.Client
	labels, annotations map[string]string
}

// Create creates the object with the stamp on it.
func (s stamping) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	o.SetLabels(under(o.GetLabels(), s.labels))
	o.SetAnnotations(under(o.GetAnnotations(), s.annotations))
	return s.Client.Create(ctx, o, opts...)
}

// under is the defaults overridden by what is there.
func under(present, defaults map[string]string) map[string]string {
	if len(defaults) == 0 {
		return present
	}
	all := maps.Clone(defaults)
	maps.Copy(all, present)
	return all
}
