package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/install"
	"liqo.io/liqo/internal/kube"
)

// Definitions returns Liqo's custom resource definitions in the cluster, whichever version created them.
func Definitions(ctx context.Context, c client.Client) ([]client.Object, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	var out []client.Object
	for i := range list.Items {
		if slices.Contains(install.ResourceGroups[:], list.Items[i].Spec.Group) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// ReleaseObjects removes the finalizers from all objects of Liqo's kinds, and Liqo's finalizers from the Secrets of the given namespaces. The controllers that
// would remove them no longer run, and the objects would block the deletion of their definitions and namespaces forever.
func ReleaseObjects(ctx context.Context, c client.Client, definitions, namespaces []client.Object) error {
	for _, definition := range definitions {
		crd, ok := definition.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: storageVersion(crd), Kind: crd.Spec.Names.Kind}
		if err := dropFinalizers(ctx, c, gvk, func(string) bool { return true }); err != nil {
			return err
		}
	}
	for _, namespace := range namespaces {
		err := dropFinalizers(ctx, c, corev1.SchemeGroupVersion.WithKind("Secret"), ofLiqo, client.InNamespace(namespace.GetName()))
		if err != nil {
			return err
		}
	}
	return nil
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

// ofLiqo reports whether a finalizer is one of Liqo's.
func ofLiqo(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	return domain == "liqo.io" || strings.HasSuffix(domain, ".liqo.io")
}

// dropFinalizers removes the selected finalizers of all objects of a kind.
func dropFinalizers(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, selected func(string) bool, opts ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.List(ctx, list, opts...); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("listing objects of kind %s: %w", gvk.Kind, err)
	}
	for i := range list.Items {
		finalizers := list.Items[i].Finalizers
		stay := slices.DeleteFunc(slices.Clone(finalizers), selected)
		if len(stay) == len(finalizers) {
			continue
		}
		if len(stay) == 0 {
			stay = nil // in the patch, null
		}
		content, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": stay}})
		if err != nil {
			return fmt.Errorf("removing the finalizers of %s %s: %w", gvk.Kind, list.Items[i].Name, err)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		object.SetNamespace(list.Items[i].Namespace)
		object.SetName(list.Items[i].Name)
		if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, content)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizers of %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// Namespaces returns the existing namespaces of Liqo: the tenant namespaces, the namespace of the installation and the storage namespace. kept holds, by name,
// why some of them must not be deleted.
func Namespaces(ctx context.Context, c client.Client, installation string) (all []client.Object, kept map[string]string, err error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	kept = map[string]string{}
	for i := range list.Items {
		namespace := &list.Items[i]
		if namespace.Labels[api.LabelTenantNamespace] != api.True && namespace.Labels[api.LabelStorageProvisioner] != api.True &&
			namespace.Name != installation && namespace.Name != api.StorageNamespace {
			continue
		}
		why, err := WhyKept(ctx, c, namespace.Name)
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			kept[namespace.Name] = why
		}
		all = append(all, namespace)
	}
	return all, kept, nil
}

// KeptNamespaces returns the namespaces that belong to the release in namespace installation, according to the annotations of Helm, and that Helm keeps
// when it uninstalls the release.
func KeptNamespaces(ctx context.Context, c client.Client, installation string) ([]*corev1.Namespace, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	var out []*corev1.Namespace
	for i := range list.Items {
		annotations := list.Items[i].Annotations
		if annotations["meta.helm.sh/release-name"] == install.Release && annotations["meta.helm.sh/release-namespace"] == installation &&
			annotations[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// Leftovers returns the cluster-scoped objects that an installation created at run time and that are not part of the chart.
func Leftovers(ctx context.Context, c client.Client) ([]client.Object, error) {
	var out []client.Object
	// Virtual nodes remain only if Liqo was uninstalled while a peering existed. No controller deletes them and their pods then.
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.MatchingLabels{api.LabelType: api.TypeVirtualNode}); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		out = append(out, &nodes.Items[i])
	}
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.ClusterRoleList{}, &certificatesv1.CertificateSigningRequestList{},
		&admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, &nodev1.RuntimeClassList{},
	} {
		for _, selector := range []client.MatchingLabels{
			{api.LabelManaged: api.True}, {"app.kubernetes.io/managed-by": "liqo"}, {"app.kubernetes.io/part-of": "liqo"},
		} {
			if err := c.List(ctx, list, selector); err != nil {
				return nil, fmt.Errorf("listing %s: %w", kube.KindsOf(list), err)
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", kube.KindsOf(list), err)
			}
			for _, item := range items {
				object, ok := item.(client.Object)
				if ok && !slices.ContainsFunc(out, func(o client.Object) bool { return o.GetUID() == object.GetUID() }) {
					out = append(out, object)
				}
			}
		}
	}
	return out, nil
}

// Remove requests the deletion of all objects. It ignores objects that do not exist.
func Remove(ctx context.Context, c client.Client, objects []client.Object) error {
	for _, object := range objects {
		if err := kube.Delete(ctx, c, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
	}
	return nil
}
