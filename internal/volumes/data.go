package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/storage/move"
)

// InProviders returns Liqo's volumes with data in a provider, or whose data is being moved there.
func InProviders(ctx context.Context, c client.Reader) ([]offload.Volume, error) {
	var list corev1.PersistentVolumeList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	list.Items = storage.Virtual(list.Items)
	var out []offload.Volume
	for i := range list.Items {
		out = append(out, among(&list.Items[i], list.Items)...)
	}
	return out, nil
}

// Of returns the data of a volume of Liqo in providers, for callers that only need its clusters and its claim.
func Of(volume *corev1.PersistentVolume) []offload.Volume { return among(volume, nil) }

// among returns the data of a volume of Liqo in providers. all are all volumes of Liqo. Until a move of the volume has ended, this includes the copy, which
// must not be deleted. If the record of the move can't be read, the copy may be in any cluster.
func among(volume *corev1.PersistentVolume, all []corev1.PersistentVolume) []offload.Volume {
	data := storage.DataOf(volume)
	if data.Name == "" || storage.VolumeUID(volume) == "" {
		return nil
	}
	var out []offload.Volume
	one := offload.Volume{Name: volume.Name, Namespace: data.Namespace, Claim: data.Name, Size: volume.Spec.Capacity.Storage().String()}
	if target, err := move.TargetOf(volume); target != "" || err != nil {
		copied := one
		copied.Cluster, copied.Retain = target, true
		if err != nil {
			copied.Problem = err.Error()
		}
		out = append(out, copied)
	}
	if !storage.InProvider(volume) {
		return out
	}
	one.Cluster = storage.ClusterOf(volume)
	// These volumes keep their data when a claim or its namespace is deleted: a volume without a claim, until Kubernetes has released it; a volume that a claim
	// of another name uses; and a recovered volume, which holds the remote namespace for others too, see storage.RecoveredLimit.
	waits := storage.Unclaimed(volume) && volume.Status.Phase != corev1.VolumeReleased
	one.Retain = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain || waits || storage.ReservedFor(volume) != data ||
		storage.IsRecovered(volume)
	one.Released = storage.Unclaimed(volume) && !storage.InMove(volume, all)
	return append(out, one)
}
