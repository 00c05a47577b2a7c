package installer

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
)

// fieldManager owns the fields that an installation writes outside of Helm.
const fieldManager = "liqoctl"

// ApplyCRDs creates the definitions or brings them to this version, with these labels and annotations; it returns those that did not exist
// before. They are of use once their condition Established is true.
func ApplyCRDs(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition, labels, annotations map[string]string) (
	[]*apiextensionsv1.CustomResourceDefinition, error) {
	fresh := make([]bool, len(crds))
	group, ctx := errgroup.WithContext(ctx)
	for i, crd := range crds {
		group.Go(func() error {
			err := c.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("reading CustomResourceDefinition %s: %w", crd.Name, err)
			}
			fresh[i] = apierrors.IsNotFound(err)
			wanted := crd.DeepCopy()
			wanted.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			wanted.Labels = merged(wanted.Labels, map[string]string{"app.kubernetes.io/part-of": "liqo", api.LabelManaged: api.True}, labels)
			wanted.Annotations = merged(wanted.Annotations, annotations)
			//nolint:staticcheck // the typed apply configurations of third-party kinds would have to be generated for this one call
			if err := c.Patch(ctx, wanted, client.Apply, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
				return fmt.Errorf("applying CustomResourceDefinition %s: %w", crd.Name, err)
			}
			return nil
		})
	}
	err := group.Wait()
	var created []*apiextensionsv1.CustomResourceDefinition
	for i, crd := range crds {
		if fresh[i] {
			created = append(created, crd)
		}
	}
	return created, err
}

func merged(layers ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, layer := range layers {
		maps.Copy(out, layer)
	}
	return out
}
