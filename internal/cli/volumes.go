package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

// addDeleteVolumes registers --delete-volumes with a command that deletes remote namespaces, and with them all claims there.
func addDeleteVolumes(a *session.Session, flags *pflag.FlagSet) {
	flags.BoolVar(&a.DeleteVolumes, "delete-volumes", false, "Also delete the volumes of Liqo in the remote cluster, with their data")
}

// checkVolumes fails if data in a provider would be lost, unless the user gave --delete-volumes. lost reports whether the data of a namespace in a
// provider would be lost. The error names all claims.
func checkVolumes(ctx context.Context, c *session.Cluster, lost func(namespace, provider string) bool) error {
	if c.DeleteVolumes {
		return nil
	}
	lines, err := volumesThere(ctx, c, lost, true)
	if err != nil {
		return err
	}
	return lossOf(lines)
}

// volumesThere describes the volumes whose data is in a provider, or is being moved there, if the namespace in the provider is selected. Without a
// remote namespace there is no data. With cures, it also says how to delete the data of deleted claims, which needs the provider.
func volumesThere(ctx context.Context, c *session.Cluster, selected func(namespace, provider string) bool, cures bool) ([]string, error) {
	var volumes corev1.PersistentVolumeList
	if err := c.List(ctx, &volumes, client.MatchingLabels{storage.LabelVirtual: api.True}); err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes of Liqo: %w", err)
	}
	var maps offloadingv1beta1.NamespaceMapList
	if err := c.List(ctx, &maps); err != nil && !kube.Absent(err) {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	var lines []string
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		ref := volume.Spec.ClaimRef
		if ref == nil {
			continue
		}
		there := func(provider string) bool {
			return selected(ref.Namespace, provider) && offload.HasRemoteNamespace(maps.Items, provider, ref.Namespace)
		}
		if provider := volume.Labels[api.LabelRemoteClusterID]; storage.InProvider(volume) && there(provider) {
			line := storage.Describe(volume, volumes.Items) + " in cluster " + provider
			if cures && storage.Retained(volume, volumes.Items) {
				line += ": copy the data, and delete it with " + storage.Discard(volume)
			}
			lines = append(lines, line)
		}
		lines = append(lines, movedThere(volume, maps.Items, there)...)
	}
	return lines, nil
}

// movedThere describes the copy of a volume's data that an unfinished move has created, if the copy may be in the given cluster.
func movedThere(volume *corev1.PersistentVolume, maps []offloadingv1beta1.NamespaceMap, there func(provider string) bool) []string {
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	called := fmt.Sprintf("PersistentVolumeClaim %s in namespace %s, %s,", volume.Spec.ClaimRef.Name, volume.Spec.ClaimRef.Namespace, size.String())
	target, err := move.TargetOf(volume)
	switch {
	case err != nil:
		for i := range maps {
			if there(maps[i].Name) {
				return []string{fmt.Sprintf("%s may be moving to cluster %s: %v", called, maps[i].Name, err)}
			}
		}
	case target != "" && there(target):
		return []string{fmt.Sprintf("%s is being moved to cluster %s: finish the move, or cancel it by moving the claim to the node that has the data",
			called, target)}
	}
	return nil
}

// checkVolumesOf fails if data of claims in these namespaces would be lost. If the user may not list volumes, the error names all bound claims of
// Liqo, because the claims alone do not show where their data is.
func checkVolumesOf(ctx context.Context, c *session.Cluster, namespaces []string) error {
	offloaded := map[string]bool{}
	for _, name := range namespaces {
		offloaded[name] = true
	}
	err := checkVolumes(ctx, c, func(namespace, _ string) bool { return offloaded[namespace] })
	if !apierrors.IsForbidden(err) {
		return err
	}
	var lines []string
	for _, name := range namespaces {
		var claims corev1.PersistentVolumeClaimList
		err := c.List(ctx, &claims, client.InNamespace(name))
		if apierrors.IsForbidden(err) {
			continue // the API server decides whether this user may stop the offloading
		}
		if err != nil {
			return fmt.Errorf("listing PersistentVolumeClaims of namespace %s: %w", name, err)
		}
		for i := range claims.Items {
			if claim := &claims.Items[i]; storage.Provisioned(claim) && claim.Spec.VolumeName != "" {
				lines = append(lines, fmt.Sprintf("PersistentVolumeClaim %s in namespace %s has a volume of Liqo, maybe in another cluster", claim.Name, name))
			}
		}
	}
	return lossOf(lines)
}

// checkClaimsOf fails if a consumer has data in this cluster, unless the user gave --delete-volumes. The data would be lost with the consumer's Tenant.
func checkClaimsOf(ctx context.Context, c *session.Cluster, tenantNamespace string) error {
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
		if owner, _, _ := strings.Cut(namespaces.Items[i].Annotations[offloadingv1beta1.AnnotationManagedByNamespaceMap], "/"); owner != tenantNamespace {
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

// giveUp annotates objects so that their deletion may delete data of volumes in a provider, if the user gave --delete-volumes. It leaves out
// objects that do not exist.
func giveUp(ctx context.Context, c *session.Cluster, objects ...client.Object) error {
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

// giveUpNodes is giveUp for all VirtualNodes of a provider.
func giveUpNodes(ctx context.Context, c *session.Cluster, provider, namespace string) error {
	if !c.DeleteVolumes {
		return nil
	}
	var nodes offloadingv1beta1.VirtualNodeList
	if err := session.ListOfPeer(ctx, c, &nodes, namespace, provider); err != nil {
		return err
	}
	for i := range nodes.Items {
		if err := giveUp(ctx, c, &nodes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// lossOf returns the error about data that would be lost, nil if there are no lines.
func lossOf(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("data would be lost:\n  - %s\nNothing was changed. Copy the data and delete the claims first, or abandon the data with --delete-volumes",
		strings.Join(lines, "\n  - "))
}
