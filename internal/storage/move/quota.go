package move

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/internal/storage"
)

// overQuota returns one error for each limit of a ResourceQuota in the storage namespace that the two backing claims of a move to this cluster would exceed
// together. A dry run can't find that, because Liqo creates these claims, and because the API server checks each object on its own. A
// provider counts both in its quotas, because it is asked about one of them after the other exists, see prepareFirst.
func (m *move) overQuota(target *corev1.Node) (out []error) {
	if storage.ProviderOf(target) != "" || len(m.Quotas) == 0 {
		return nil
	}
	volume, repository := m.Claim.Spec.Resources.Requests[corev1.ResourceStorage], m.repository().Spec.Resources.Requests[corev1.ResourceStorage]
	if has := m.source.Spec.Capacity[corev1.ResourceStorage]; volume.Cmp(has) < 0 {
		volume = has
	}
	size, claims := volume.DeepCopy(), *resource.NewQuantity(2, resource.DecimalSI)
	size.Add(repository)
	limits := []struct {
		name corev1.ResourceName
		need resource.Quantity
	}{{corev1.ResourceRequestsStorage, size}, {corev1.ResourcePersistentVolumeClaims, claims}, {"count/persistentvolumeclaims", claims}}
	// Without a class, no backing claim is created, so none counts in a limit of a class. Function noRoom reports that.
	if class, err := storage.ClassHere(m.Home, m.RealClass, m.Classes); err == nil {
		for _, limit := range limits[:2] {
			limit.name = corev1.ResourceName(class) + ".storageclass.storage.k8s.io/" + limit.name
			limits = append(limits, limit)
		}
	}
	for i := range m.Quotas {
		quota := &m.Quotas[i]
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil { // for pods, or for claims with a VolumeAttributesClass
			continue
		}
		for _, limit := range limits {
			hard, limited := quota.Status.Hard[limit.name]
			used := quota.Status.Used[limit.name]
			sum := used.DeepCopy()
			if sum.Add(limit.need); limited && sum.Cmp(hard) > 0 {
				out = append(out, fmt.Errorf("--target-node %s: ResourceQuota %s in namespace %s has no room for a new volume of %s and an encrypted copy of %s: %s needs %s, and %s of %s are used. "+
					"Raise spec.hard of the ResourceQuota until the move has ended", m.Node, quota.Name, quota.Namespace, volume.String(), repository.String(), limit.name, limit.need.String(),
					used.String(), hard.String()))
			}
		}
	}
	return out
}
