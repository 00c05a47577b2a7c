package move

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// noRoom returns why the target in this cluster has no room for the two volumes of a move: one for the data, and one for the encrypted copy. It plans their
// backing claims as Liqo creates them later. It returns nothing for a target in a provider, because nothing shows what storage a provider has.
func (m *move) noRoom(target *corev1.Node) (out []error) {
	if storage.ProviderOf(target) != "" {
		return nil
	}
	data := m.original()
	metav1.SetMetaDataAnnotation(&data.ObjectMeta, storage.AnnotationMove, m.source.Name)
	m.size(&data.ObjectMeta)
	available, total, largest, class := slices.Clone(m.Available), resource.Quantity{}, resource.Quantity{}, ""
	for _, volume := range []struct {
		purpose string
		claim   *corev1.PersistentVolumeClaim
	}{{"the data", data}, {"an encrypted copy of the data", m.repository()}} {
		s, why := m.planned(volume.claim, target)
		if why != "" { // for the other one as well
			return append(out, fmt.Errorf("--target-node %s: Liqo would create no volume for the data: %s", m.Node, why))
		}
		size := s.Backing.Spec.Resources.Requests[corev1.ResourceStorage]
		if total.Add(size); largest.Cmp(size) < 0 {
			largest = size
		}
		if class = *s.Backing.Spec.StorageClassName; !s.NeedsVolumes() {
			continue
		}
		s.Volumes = available
		if step := storage.Next(s); step.Action == storage.ReserveVolume {
			available = slices.DeleteFunc(available, func(v corev1.PersistentVolume) bool { return v.Name == step.Object.GetName() })
		} else {
			out = append(out, m.unavailable(volume.purpose, &s))
		}
	}
	return append(out, m.overCapacity(target, class, total, largest)...)
}

// planned returns the state of a new claim on the target, with the backing claim that Liqo creates for it. why is the reason if Liqo does not create it.
func (m *move) planned(claim *corev1.PersistentVolumeClaim, target *corev1.Node) (s storage.State, why string) {
	claim.UID = "planned"
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnotationSelectedNode, target.Name)
	s = storage.State{UID: claim.UID, Claim: claim, Classes: m.Classes, Node: target, Place: storage.Place{
		Namespace: m.StorageNamespace, RealClass: m.RealClass, NamespaceClass: m.Home.Annotations[api.AnnotationRealStorageClass],
	}}
	step := storage.Next(s)
	backing, ok := step.Object.(*corev1.PersistentVolumeClaim)
	if !ok || step.Action != storage.CreateBacking {
		return s, step.Why
	}
	s.Backing = backing
	return s, ""
}

// sizes describes, for messages, how large the data is.
func (m *move) sizes() string {
	has, requested := m.source.Spec.Capacity[corev1.ResourceStorage], m.record.Spec.Resources.Requests[corev1.ResourceStorage]
	return fmt.Sprintf("PersistentVolume %s has %s, PersistentVolumeClaim %s requests %s", m.source.Name, has.String(), m.Name, requested.String())
}

// otherClass is the cure of a class without room.
func (m *move) otherClass() string {
	return fmt.Sprintf("name another class in annotation %s of namespace %s", api.AnnotationRealStorageClass, m.Namespace)
}

// unavailable returns the error about a class without a driver that has no volume for a planned backing claim.
func (m *move) unavailable(purpose string, s *storage.State) error {
	size, class := s.Backing.Spec.Resources.Requests[corev1.ResourceStorage], storage.ClassOf(s.Backing, s.Classes)
	var largest *corev1.PersistentVolume
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Spec.StorageClassName == class.Name && v.Spec.ClaimRef == nil && storage.Permits(v, s.Node) && (largest == nil || v.Spec.Capacity.Storage().Cmp(*largest.Spec.Capacity.Storage()) > 0) {
			largest = v
		}
	}
	there := "None of its PersistentVolumes is Available on that node"
	if largest != nil {
		there = fmt.Sprintf("The largest that is Available on that node, PersistentVolume %s, has %s (spec.capacity.storage), accessModes %v and volumeMode %s", largest.Name,
			largest.Spec.Capacity.Storage(), largest.Spec.AccessModes, modeOf(largest.Spec.VolumeMode))
	}
	return fmt.Errorf("--target-node %s: there is no volume of %s for %s (%s). StorageClass %s has no driver (provisioner %s), so an administrator must create its volumes. Needed is an "+
		"Available PersistentVolume that permits node %s, with at least %s (spec.capacity.storage), accessModes %v and volumeMode %s. %s. Create one, or %s, and run the command again", m.Node, size.String(), purpose,
		m.sizes(), class.Name, class.Provisioner, m.Node, size.String(), s.Backing.Spec.AccessModes, modeOf(s.Backing.Spec.VolumeMode), there, m.otherClass())
}

// overCapacity returns the error about a driver that reports, for the target, less storage than both volumes need together, or smaller volumes than the larger one.
// A driver that reports nothing may have room.
func (m *move) overCapacity(target *corev1.Node, class string, total, largest resource.Quantity) []error {
	var most *storagev1.CSIStorageCapacity
	for i := range m.Capacities {
		c := &m.Capacities[i]
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if c.StorageClassName != class || err != nil || !selector.Matches(labels.Set(target.Labels)) || c.Capacity == nil {
			continue
		}
		if c.Capacity.Cmp(total) >= 0 && (c.MaximumVolumeSize == nil || c.MaximumVolumeSize.Cmp(largest) >= 0) {
			return nil
		}
		if most == nil || most.Capacity.Cmp(*c.Capacity) < 0 {
			most = c
		}
	}
	if most == nil {
		return nil
	}
	limit := fmt.Sprintf("capacity %s", most.Capacity)
	if most.MaximumVolumeSize != nil {
		limit += fmt.Sprintf(", maximumVolumeSize %s", most.MaximumVolumeSize)
	}
	return []error{fmt.Errorf("--target-node %s: StorageClass %s has no room there for the data (%s) and an encrypted copy of it: they need %s, the larger volume %s, and CSIStorageCapacity %s in namespace %s "+
		"has %s. Free or add storage on the node, or %s, and run the command again", m.Node, class, m.sizes(), total.String(), largest.String(), most.Name, most.Namespace, limit, m.otherClass())}
}

// full returns the error about a driver that refused the target after the move began. Only its Events name what it has.
func (m *move) full() error {
	return fmt.Errorf("--target-node %s: no volume of %s, the size of the old one, can be created there (%s): its driver refused the node. Events of PersistentVolumeClaim %s name the cause: "+
		"kubectl describe pvc %[4]s --namespace %[5]s. Make room there and run the command again, or cancel the move by moving the claim to the node that has the data", m.record.Node, m.capacity(),
		m.sizes(), m.copyUID(), m.StorageNamespace)
}
