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
	"liqo.io/liqo/internal/offload"
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
	lines, err := claimsOf(ctx, c, tenantNamespace, "the other cluster", func(*corev1.Namespace) bool { return true })
	if err != nil {
		return err
	}
	return lossOf(lines)
}

// CheckUnreleased fails if a provider has data of a consumer in namespaces that the NamespaceMap m of the consumer does not release at the end of the peering, unless the
// user gave --delete-volumes. Their data would be lost with the Tenant, and Check does not find it: the consumer has no volumes for it. m is empty if the consumer has
// no NamespaceMap.
func CheckUnreleased(ctx context.Context, provider *session.Cluster, consumer, tenantNamespace string, m *offloadingv1beta1.NamespaceMap) error {
	if provider.DeleteVolumes {
		return nil
	}
	lines, err := claimsOf(ctx, provider, tenantNamespace, "cluster "+consumer, func(namespace *corev1.Namespace) bool {
		local := namespace.Annotations[offloadingv1beta1.AnnotationOriginalName]
		requested := m.Spec.DesiredMapping[local] == namespace.Name || m.Spec.ReleasedMapping[local] == namespace.Name
		return !requested || offload.GrantedByAnother(m, &namespace.ObjectMeta)
	})
	if err != nil || len(lines) == 0 {
		return err
	}
	return fmt.Errorf("cluster %[1]s has data of cluster %[2]s that cluster %[2]s does not release, and would keep the Tenant until this data is deleted:\n  - %[3]s\n"+
		"Nothing was changed. Offload these namespaces in cluster %[2]s, if they are not (liqoctl offload namespace NAME), then decide about their data there. Or copy the data and delete "+
		"the claims in cluster %[1]s, or abandon the data with --delete-volumes", provider.ID, consumer, strings.Join(lines, "\n  - "))
}

// claimsOf describes the claims in those remote namespaces of a consumer for which affected returns true.
func claimsOf(ctx context.Context, c *session.Cluster, tenantNamespace, consumer string, affected func(*corev1.Namespace) bool) ([]string, error) {
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var lines []string
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		if owner, _, _ := strings.Cut(offloadingv1beta1.NamespaceMapOf(namespace), "/"); owner != tenantNamespace || !affected(namespace) {
			continue
		}
		var claims corev1.PersistentVolumeClaimList
		if err := c.List(ctx, &claims, client.InNamespace(namespace.Name)); err != nil {
			return nil, fmt.Errorf("listing PersistentVolumeClaims of namespace %s: %w", namespace.Name, err)
		}
		held := kube.HeldClaims(claims.Items)
		for j := range held {
			size := held[j].Spec.Resources.Requests[corev1.ResourceStorage]
			line := fmt.Sprintf("PersistentVolumeClaim %s in namespace %s, %s, of %s", held[j].Name, namespace.Name, size.String(), consumer)
			if local := namespace.Annotations[offloadingv1beta1.AnnotationOriginalName]; local != "" {
				line += " (namespace " + local + ")"
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
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
