// Package definitions creates and updates the CRDs of this version in a cluster.
package definitions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "liqo.io/liqo/charts/liqo"
	"liqo.io/liqo/internal/kube"
)

// Apply creates the CRDs of this version in a cluster, or updates them. It replaces only their spec, so that other fields, such
// as labels set by users, stay. It continues after a failure, and its error names all failures.
func Apply(ctx context.Context, cfg *rest.Config) error {
	c, err := client.New(cfg, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	files, err := fs.ReadDir(charts.Files, charts.CRDs)
	if err != nil {
		return fmt.Errorf("reading the definitions of this version: %w", err)
	}
	var problems []error
	for _, file := range files {
		problems = append(problems, apply(ctx, c, path.Join(charts.CRDs, file.Name())))
	}
	return errors.Join(problems...)
}

func apply(ctx context.Context, c client.Client, file string) error {
	text, err := fs.ReadFile(charts.Files, file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	var wanted, found apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &wanted); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(&wanted), &found)
	if apierrors.IsNotFound(err) {
		if err := c.Create(ctx, &wanted); err != nil {
			return fmt.Errorf("creating CustomResourceDefinition %s: %w", wanted.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", wanted.Name, err)
	}
	found.Spec = wanted.Spec
	if err := c.Update(ctx, &found); err != nil {
		return fmt.Errorf("updating CustomResourceDefinition %s: %w", wanted.Name, err)
	}
	return nil
}
