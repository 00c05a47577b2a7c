// Package loss finds data of claims that a change of an offloading or of a peering would delete in other clusters.
package loss

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

// Error returns the error about data that would be lost, nil if there are no lines.
func Error(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("data would be lost:\n  - %s\nNothing was changed. Copy the data and delete the claims first", strings.Join(lines, "\n  - "))
}

// Volumes describes the volumes whose data is in a provider, or is being moved there, if the namespace in the provider is selected. Without a
// remote namespace there is no data. With cures, it also says how to delete the data of deleted claims, which needs the provider.
func Volumes(ctx context.Context, c client.Reader, selected func(namespace, provider string) bool, cures bool) ([]string, error) {
	var volumes corev1.PersistentVolumeList
	if err := c.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("listing PersistentVolumes: %w", err)
	}
	volumes.Items = storage.Virtual(volumes.Items)
	var maps offloadingv1beta1.NamespaceMapList
	if err := c.List(ctx, &maps); err != nil && !kube.Absent(err) {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	var lines []string
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		data := storage.DataOf(volume) // not its claim: the volume may have none, or one of another namespace
		if data.Name == "" {
			continue
		}
		there := func(provider string) bool {
			return selected(data.Namespace, provider) && offload.HasRemoteNamespace(maps.Items, provider, data.Namespace)
		}
		if provider := storage.ClusterOf(volume); storage.InProvider(volume) && there(provider) {
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
	data := storage.DataOf(volume)
	called := fmt.Sprintf("PersistentVolumeClaim %s in namespace %s, %s,", data.Name, data.Namespace, size.String())
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

// OfNamespaces describes the data that would be lost if these namespaces were not offloaded any more. If the user may not list volumes, it describes all
// bound claims of Liqo, because the claims alone do not show where their data is.
func OfNamespaces(ctx context.Context, c client.Reader, namespaces []string) ([]string, error) {
	lines, err := Volumes(ctx, c, func(namespace, _ string) bool { return slices.Contains(namespaces, namespace) }, true)
	if !apierrors.IsForbidden(err) {
		return lines, err
	}
	for _, name := range namespaces {
		var claims corev1.PersistentVolumeClaimList
		err := c.List(ctx, &claims, client.InNamespace(name))
		if apierrors.IsForbidden(err) {
			continue // the API server decides whether this user may stop the offloading
		}
		if err != nil {
			return nil, fmt.Errorf("listing PersistentVolumeClaims of namespace %s: %w", name, err)
		}
		for i := range claims.Items {
			if claim := &claims.Items[i]; storage.Provisioned(claim) && claim.Spec.VolumeName != "" {
				lines = append(lines, fmt.Sprintf("PersistentVolumeClaim %s in namespace %s has a volume of Liqo, maybe in another cluster", claim.Name, name))
			}
		}
	}
	return lines, nil
}

// LeftOut returns the providers, by namespace, whose remote namespace is deleted if the NamespaceOffloadings of the namespaces get the selector. If the user
// may not list VirtualNodes, unknown is true, and the result has all providers with a remote namespace.
func LeftOut(ctx context.Context, c client.Reader, namespaces []string, selector *corev1.NodeSelector) (out map[string][]string, unknown bool, err error) {
	var nodes offloadingv1beta1.VirtualNodeList
	err = c.List(ctx, &nodes)
	unknown = apierrors.IsForbidden(err) // the user is an administrator of a single namespace
	if err != nil && !unknown {
		return nil, false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	for i := range nodes.Items {
		var host corev1.Node
		if err := c.Get(ctx, client.ObjectKey{Name: nodes.Items[i].Name}, &host); client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("reading Node %s: %w", nodes.Items[i].Name, err)
		}
		kube.AddLabels(&nodes.Items[i], host.Labels) // as the controller manager does
	}
	selected := offload.Selected(selector, nodes.Items)
	out = map[string][]string{}
	for _, name := range namespaces {
		var object offloadingv1beta1.NamespaceOffloading
		key := client.ObjectKey{Namespace: name, Name: offloadingv1beta1.NamespaceOffloadingName}
		if err := c.Get(ctx, key, &object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, false, fmt.Errorf("reading NamespaceOffloading %s: %w", key, err)
		}
		for _, id := range slices.Sorted(maps.Keys(object.Status.RemoteNamespacesConditions)) {
			if offload.Required(object.Status.RemoteNamespacesConditions[id]) && !slices.Contains(selected, id) {
				out[name] = append(out[name], id)
			}
		}
	}
	return out, unknown, nil
}
