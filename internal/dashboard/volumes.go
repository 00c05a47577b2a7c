package dashboard

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	"liqo.io/liqo/internal/storage"
)

// claimDocument describes a claim with a volume of Liqo. In a remote namespace, it describes the claim of the provider that has the data.
type claimDocument struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Place is the cluster that has the data. It is empty while there is no volume. Node is the node that has the data, if only one node can access it.
	Place string `json:"place,omitempty"`
	Node  string `json:"node,omitempty"`
	// Size is the size of the volume in bytes, which may be more than Requested. It is 0 while there is no volume.
	Size      float64 `json:"size,omitempty"`
	Requested float64 `json:"requested"`
	// State is the phase of the claim, with the reason if it is Pending. It is "Terminating" if the claim is being deleted, and "Moving" if its data is being
	// moved.
	State  string `json:"state"`
	Health Health `json:"health"`
}

// volumesDocument counts the claims of a namespace with volumes of Liqo.
type volumesDocument struct {
	// Ready counts the claims that are Bound, and whose data is not being moved.
	Ready int `json:"ready"`
	Total int `json:"total"`
	// Health is the worst health of the claims.
	Health Health `json:"health"`
}

// add counts a claim.
func (d *volumesDocument) add(claim *claimDocument) *volumesDocument {
	if d == nil {
		d = &volumesDocument{Health: None}
	}
	d.Total++
	if claim.Health == Good {
		d.Ready++
	}
	d.Health = worse(d.Health, claim.Health)
	return d
}

// claimsOf describes the claims in the selected namespaces that have a volume or a class of Liqo. A claim that an unfinished move has deleted is one of them: its data exists.
func claimsOf(c *Cluster, selected func(namespace string) bool) []claimDocument {
	volumes, moved := map[string]*corev1.PersistentVolume{}, map[types.NamespacedName]*corev1.PersistentVolume{}
	for _, volume := range byAge(c.Volumes) {
		if storage.VolumeUID(volume) == "" {
			continue
		}
		volumes[volume.Name] = volume
		if _, moves := storage.MoveTarget(volume); moves && moved[storage.ReservedFor(volume)] == nil {
			moved[storage.ReservedFor(volume)] = volume
		}
	}
	events := claimEvents(c)
	var out []claimDocument
	for i := range c.Claims {
		claim := &c.Claims[i]
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		volume, source := volumes[claim.Spec.VolumeName], moved[key]
		backing := storage.BackingUID(claim) != ""
		if !selected(claim.Namespace) || volume == nil && source == nil && !backing && !storage.Provisioned(claim) && !storage.Concerns(claim, c.Classes) {
			continue
		}
		delete(moved, key)
		document := claimDocument{
			Cluster: c.ID, Namespace: claim.Namespace, Name: claim.Name, Requested: storageIn(claim.Spec.Resources.Requests),
			State: string(cmp.Or(claim.Status.Phase, corev1.ClaimPending)), Health: Warning,
		}
		switch {
		case claim.DeletionTimestamp != nil:
			document.State = "Terminating"
		case claim.Status.Phase == corev1.ClaimBound:
			document.Health = Good
		case claim.Status.Phase == corev1.ClaimLost:
			document.Health = Bad
		default:
			document.wait(claim, events[key], c.Classes)
		}
		if backing && claim.Status.Phase == corev1.ClaimBound {
			document.Place, document.Size = c.ID, storageIn(claim.Status.Capacity)
		}
		document.stored(c, volume)
		document.move(c, source)
		out = append(out, document)
	}
	for key, source := range moved {
		if selected(key.Namespace) {
			document := claimDocument{Cluster: c.ID, Namespace: key.Namespace, Name: key.Name, Requested: storageIn(source.Spec.Capacity)}
			document.move(c, source)
			out = append(out, document)
		}
	}
	return out
}

// wait sets the state of a claim that has no volume. event is the Event about it that counts, nil if there is none.
func (d *claimDocument) wait(claim *corev1.PersistentVolumeClaim, event *corev1.Event, classes []storagev1.StorageClass) {
	const unused = string(storagev1.VolumeBindingWaitForFirstConsumer) // Kubernetes also uses it as the reason of an Event
	class, reason := storage.ClassOf(claim, classes), ""
	switch {
	case event != nil && !timeOf(event).Before(claim.CreationTimestamp.Time): // an older Event is about a former claim of the same name
		reason = event.Reason
	case claim.Annotations[storage.AnnotationSelectedNode] == "" && class != nil && class.VolumeBindingMode != nil:
		if *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
			reason = unused
		}
	}
	if reason != "" {
		d.State += ": " + reason
	}
	if reason == unused {
		d.Health = None
	}
}

// stored sets where the data in a virtual volume is, and its size.
func (d *claimDocument) stored(c *Cluster, volume *corev1.PersistentVolume) {
	if volume == nil {
		return
	}
	d.Place, d.Node, d.Size = cmp.Or(volume.Labels[api.LabelRemoteClusterID], c.ID), onlyNode(volume), storageIn(volume.Spec.Capacity)
}

// move sets the state of a claim whose data is being moved. source is the volume that has the data, nil if there is no such move.
func (d *claimDocument) move(c *Cluster, source *corev1.PersistentVolume) {
	if source == nil {
		return
	}
	d.stored(c, source)
	d.State, d.Health = "Moving", Warning
	if node, _ := storage.MoveTarget(source); node != "" {
		d.State += " to " + node
	}
}

// onlyNode returns the node to which the node affinity of a volume restricts it. It is empty if several nodes can access the volume.
func onlyNode(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, requirement := range affinity.Required.NodeSelectorTerms[0].MatchExpressions {
		if requirement.Key == corev1.LabelHostname && requirement.Operator == corev1.NodeSelectorOpIn && len(requirement.Values) == 1 {
			return requirement.Values[0]
		}
	}
	return ""
}

// claimEvents returns the Event about each claim that counts: the newest Warning, or the newest Event if there is no Warning.
func claimEvents(c *Cluster) map[types.NamespacedName]*corev1.Event {
	var all []*corev1.Event
	for i := range c.Events {
		if c.Events[i].InvolvedObject.Kind == "PersistentVolumeClaim" {
			all = append(all, &c.Events[i])
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Event) int {
		return cmp.Or(cmp.Compare(rankOf(a.Type), rankOf(b.Type)), timeOf(b).Compare(timeOf(a)), cmp.Compare(a.Name, b.Name))
	})
	out := map[types.NamespacedName]*corev1.Event{}
	for _, event := range slices.Backward(all) {
		out[types.NamespacedName{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}] = event
	}
	return out
}

// storageIn returns the storage in a list of resources, in bytes.
func storageIn(resources corev1.ResourceList) float64 {
	size := resources[corev1.ResourceStorage]
	return size.AsApproximateFloat64()
}
