package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
)

// fieldManager is the field manager of the objects that an installation applies outside of Helm.
const fieldManager = "liqoctl"

// Defined is the result of ApplyCRDs. Created are the definitions that did not exist. Before are the earlier contents of those that
// existed.
type Defined struct {
	Created, Before []*apiextensionsv1.CustomResourceDefinition
}

// ApplyCRDs creates the definitions or updates them to this version, with the given labels and annotations. It does not wait for their
// condition Established; they can be used once it is true. The result is valid also if an error is returned: it lists the changes made so
// far.
func ApplyCRDs(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition, labels, annotations map[string]string) (Defined, error) {
	before := make([]*apiextensionsv1.CustomResourceDefinition, len(crds))
	done := make([]bool, len(crds))
	group, ctx := errgroup.WithContext(ctx)
	for i, crd := range crds {
		group.Go(func() error {
			found := &apiextensionsv1.CustomResourceDefinition{}
			err := c.Get(ctx, client.ObjectKeyFromObject(crd), found)
			switch {
			case err == nil:
				before[i] = found
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("reading CustomResourceDefinition %s: %w", crd.Name, err)
			}
			wanted := crd.DeepCopy()
			wanted.Labels = merged(wanted.Labels, map[string]string{"app.kubernetes.io/part-of": "liqo", api.LabelManaged: api.True}, labels)
			wanted.Annotations = merged(wanted.Annotations, annotations)
			done[i] = true
			return applyCRD(ctx, c, wanted)
		})
	}
	err := group.Wait()
	var out Defined
	for i, crd := range crds {
		switch {
		case !done[i]:
		case before[i] == nil:
			out.Created = append(out.Created, crd)
		default:
			out.Before = append(out.Before, before[i])
		}
	}
	return out, err
}

// RestoreCRDs restores the labels, annotations and spec that the definitions had before ApplyCRDs.
func RestoreCRDs(ctx context.Context, c client.Client, before []*apiextensionsv1.CustomResourceDefinition) error {
	var errs []error
	for _, crd := range before {
		errs = append(errs, applyCRD(ctx, c, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Labels: crd.Labels, Annotations: crd.Annotations}, Spec: crd.Spec,
		}))
	}
	return errors.Join(errs...)
}

func applyCRD(ctx context.Context, c client.Client, wanted *apiextensionsv1.CustomResourceDefinition) error {
	wanted.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	//nolint:staticcheck // the typed apply configurations of third-party kinds would have to be generated for this one call
	if err := c.Patch(ctx, wanted, client.Apply, client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying CustomResourceDefinition %s: %w", wanted.Name, err)
	}
	return nil
}

// Lacks describes the first field, or version, that a definition lacks of the wanted one. It is empty if it has all of them. The API server removes fields that the
// definition lacks from objects, without an error.
func Lacks(have, wanted *apiextensionsv1.CustomResourceDefinition) string {
	for i := range wanted.Spec.Versions {
		version := &wanted.Spec.Versions[i]
		at := slices.IndexFunc(have.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version.Name })
		if at < 0 {
			return "version " + version.Name
		}
		if version.Schema == nil || have.Spec.Versions[at].Schema == nil {
			continue
		}
		if field := lackedField(have.Spec.Versions[at].Schema.OpenAPIV3Schema, version.Schema.OpenAPIV3Schema); field != "" {
			return fmt.Sprintf("field %s of version %s", strings.TrimPrefix(field, "."), version.Name)
		}
	}
	return ""
}

// lackedField returns the path of the first field that a schema lacks of the wanted one.
func lackedField(have, wanted *apiextensionsv1.JSONSchemaProps) string {
	if have == nil || wanted == nil || have.XPreserveUnknownFields != nil && *have.XPreserveUnknownFields {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Properties)) {
		field, exists := have.Properties[name]
		if !exists {
			return "." + name
		}
		below := wanted.Properties[name]
		if path := lackedField(&field, &below); path != "" {
			return "." + name + path
		}
	}
	if have.Items != nil && wanted.Items != nil {
		if path := lackedField(have.Items.Schema, wanted.Items.Schema); path != "" {
			return "[]" + path
		}
	}
	if have.AdditionalProperties != nil && wanted.AdditionalProperties != nil {
		if path := lackedField(have.AdditionalProperties.Schema, wanted.AdditionalProperties.Schema); path != "" {
			return "[]" + path
		}
	}
	return ""
}

func merged(layers ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, layer := range layers {
		maps.Copy(out, layer)
	}
	return out
}
