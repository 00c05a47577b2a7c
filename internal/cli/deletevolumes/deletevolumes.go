package deletevolumes

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// AddFlag registers --delete-volumes with a command that deletes remote namespaces, and with them all claims there.
func AddFlag(a *session.Session, flags *pflag.FlagSet) {
	flags.BoolVar(&a.DeleteVolumes, "delete-volumes", false, "Also delete the volumes of Liqo in the remote cluster, with their data")
}

// Check fails if data in a provider would be lost, unless the user gave --delete-volumes. lost reports whether the data of a namespace in a
// provider would be lost. The error names all claims.
func Check(ctx context.Context, c *session.Cluster, lost func(namespace, provider string) bool) error {
	if c.DeleteVolumes {
		return nil
	}
	lines, err := loss.Volumes(ctx, c, lost, true)
	if err != nil {
		return err
	}
	return lossOf(lines)
}

// CheckNamespaces fails if data of claims in these namespaces would be lost, unless the user gave --delete-volumes.
func CheckNamespaces(ctx context.Context, c *session.Cluster, namespaces []string) error {
	if c.DeleteVolumes {
		return nil
	}
	lines, err := loss.OfNamespaces(ctx, c, namespaces)
	if err != nil {
		return err
	}
	return lossOf(lines)
}

// CheckConsumer fails if a consumer has data in this cluster, unless the user gave --delete-volumes. The data would be lost with the consumer's Tenant.
func CheckConsumer(ctx context.Context, c *session.Cluster, tenantNamespace string) error {
	if c.DeleteVolumes || tenantNamespace == "" {
		return nil
	}
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	var lines []string
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if owner, _, _ := strings.Cut(offloadingv1beta1.NamespaceMapOf(&namespaces.Items[i]), "/"); owner != tenantNamespace {
			continue
		}
		var claims corev1.PersistentVolumeClaimList
		if err := c.List(ctx, &claims, client.InNamespace(name)); err != nil {
			return fmt.Errorf("listing PersistentVolumeClaims of namespace %s: %w", name, err)
		}
		held := kube.HeldClaims(claims.Items)
		for j := range held {
			size := held[j].Spec.Resources.Requests[corev1.ResourceStorage]
			lines = append(lines, fmt.Sprintf("PersistentVolumeClaim %s in namespace %s, %s, of the other cluster", held[j].Name, name, size.String()))
		}
	}
	return lossOf(lines)
}

// Allow annotates objects so that their deletion may delete data of volumes in a provider, if the user gave --delete-volumes. It leaves out
// objects that do not exist.
func Allow(ctx context.Context, c *session.Cluster, objects ...client.Object) error {
	for _, object := range objects {
		if !c.DeleteVolumes || object.GetAnnotations()[api.AnnotationDeleteVolumes] == api.True {
			continue
		}
		before, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("abandoning volumes: %T is not an object", object)
		}
		kube.AddAnnotations(object, map[string]string{api.AnnotationDeleteVolumes: api.True})
		if err := c.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return c.Err(fmt.Errorf("abandoning the volumes of %s: %w", c.Name(object), err))
		}
	}
	return nil
}

// AllowOfNodes is Allow for all VirtualNodes of a provider.
func AllowOfNodes(ctx context.Context, c *session.Cluster, provider, namespace string) error {
	if !c.DeleteVolumes {
		return nil
	}
	var nodes offloadingv1beta1.VirtualNodeList
	if err := session.ListOfPeer(ctx, c, &nodes, namespace, provider); err != nil {
		return err
	}
	for i := range nodes.Items {
		if err := Allow(ctx, c, &nodes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// lossOf returns the error about data that would be lost, nil if there are no lines. It adds the option of liqoctl.
func lossOf(lines []string) error {
	if err := loss.Error(lines); err != nil {
		return fmt.Errorf("%w, or abandon the data with --delete-volumes", err)
	}
	return nil
}
