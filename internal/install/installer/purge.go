package installer

import (
	"context"
	"fmt"
	"slices"

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

// ReleaseObjects removes the finalizers from all objects of Liqo's kinds and from all Secrets of the given namespaces. The controllers that
// would remove them no longer run, and the objects would block the deletion of their definitions and namespaces forever.
func ReleaseObjects(ctx context.Context, c client.Client, definitions, namespaces []client.Object) error {
	for _, definition := range definitions {
		crd, ok := definition.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: storageVersion(crd), Kind: crd.Spec.Names.Kind}
		if err := dropFinalizers(ctx, c, gvk); err != nil {
			return err
		}
	}
	for _, namespace := range namespaces {
		if err := dropFinalizers(ctx, c, corev1.SchemeGroupVersion.WithKind("Secret"), client.InNamespace(namespace.GetName())); err != nil {
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

func dropFinalizers(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, opts ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.List(ctx, list, opts...); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("listing objects of kind %s: %w", gvk.Kind, err)
	}
	for i := range list.Items {
		if len(list.Items[i].Finalizers) == 0 {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		object.SetNamespace(list.Items[i].Namespace)
		object.SetName(list.Items[i].Name)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizers of %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// Namespaces returns the existing namespaces of Liqo: the tenant namespaces, the namespace of the installation and the storage namespace. It leaves
// out a storage namespace with claims, because they hold data of users.
func Namespaces(ctx context.Context, c client.Client, installation string) ([]client.Object, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing Namespaces: %w", err)
	}
	var out []client.Object
	for i := range list.Items {
		namespace := &list.Items[i]
		switch {
		case namespace.Labels[api.LabelTenantNamespace] == api.True || namespace.Name == installation:
			out = append(out, namespace)
		case namespace.Labels[api.LabelStorageProvisioner] == api.True || namespace.Name == api.StorageNamespace:
			claims, err := HasClaims(ctx, c, namespace.Name)
			if err != nil {
				return nil, err
			}
			if !claims {
				out = append(out, namespace)
			}
		}
	}
	return out, nil
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

// HasClaims reports whether a namespace has PersistentVolumeClaims.
func HasClaims(ctx context.Context, c client.Client, namespace string) (bool, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &claims, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing the claims of namespace %s: %w", namespace, err)
	}
	return len(claims.Items) > 0, nil
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
