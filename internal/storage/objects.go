package storage

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
)

// placeholder is the directory in the virtual volume of a provider. No pod mounts it in this cluster, because the node affinity of the volume permits only
// virtual nodes.
const placeholder = "/tmp/liqo-placeholder"

// backingName returns the name of the backing claim. In a provider, this is the name of the claim, because the copies of pods refer to that name.
func (s *State) backingName() string {
	if s.Place.Cluster == "" {
		return string(s.UID)
	}
	return s.Claim.Name
}

func (s *State) createBacking(node string) Step {
	class, err := s.backingClass()
	if err != nil {
		return refuse("%s", err)
	}
	if s.Place.Cluster != "" {
		for _, mode := range accessModes(s.Claim.Annotations[api.AnnotationRemoteAccessModes]) {
			if !slices.Contains(allAccessModes(), mode) {
				return refuse("annotation %s names access mode %s, which does not exist: name some of %v, separated by commas, or remove the annotation",
					api.AnnotationRemoteAccessModes, mode, allAccessModes())
			}
		}
	}
	return Step{Action: CreateBacking, Object: s.newBacking(class, node), Why: "the pod of the claim is scheduled on node " + node}
}

// newBacking returns the backing claim at Place. It has the volume mode and the access modes of the claim, and its size or that of the volume that is moved.
func (s *State) newBacking(class, node string) *corev1.PersistentVolumeClaim {
	in := s.Claim.DeepCopy()
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.backingName(), Namespace: s.Place.Namespace,
			Labels: map[string]string{LabelClaimNamespace: in.Namespace, LabelClaimName: labelValue(in.Name)},
			Annotations: map[string]string{
				LabelClaimName: in.Name, AnnotationClaimUID: string(s.UID),
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: in.Spec.AccessModes, Resources: requested(in), VolumeMode: in.Spec.VolumeMode, StorageClassName: &class,
		},
	}
	if s.Place.Cluster == "" || s.ahead() || in.Annotations[AnnotationMove] != "" {
		annotate(&out.ObjectMeta, AnnotationRetained, retainedCopy)
	}
	if s.Place.Cluster == "" {
		// The real driver creates the volume for the node that the scheduler selected.
		annotate(&out.ObjectMeta, AnnotationSelectedNode, node)
		annotate(&out.ObjectMeta, annotationNode, node)
		return out
	}
	out.Labels[api.LabelOrigin], out.Labels[api.LabelDestination] = s.Place.Origin, s.Place.Cluster
	if modes := accessModes(in.Annotations[api.AnnotationRemoteAccessModes]); len(modes) > 0 {
		out.Spec.AccessModes = modes
	}
	return out
}

// requested returns what a backing claim requests: what the claim does, or the size in AnnotationCapacity if that is larger.
func requested(claim *corev1.PersistentVolumeClaim) corev1.VolumeResourceRequirements {
	out := claim.Spec.Resources.DeepCopy()
	size, err := resource.ParseQuantity(claim.Annotations[AnnotationCapacity])
	if err != nil || !less(out.Requests, size) {
		return *out
	}
	out.Requests[corev1.ResourceStorage] = size
	if _, limited := out.Limits[corev1.ResourceStorage]; limited && less(out.Limits, size) {
		out.Limits[corev1.ResourceStorage] = size
	}
	return *out
}

func allAccessModes() []corev1.PersistentVolumeAccessMode {
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany, corev1.ReadOnlyMany}
}

// accessModes reads a list of access modes separated by commas.
func accessModes(text string) []corev1.PersistentVolumeAccessMode {
	var out []corev1.PersistentVolumeAccessMode
	for mode := range strings.SplitSeq(text, ",") {
		if mode = strings.TrimSpace(mode); mode != "" {
			out = append(out, corev1.PersistentVolumeAccessMode(mode))
		}
	}
	return out
}

// newVolume returns the virtual volume with the claim in its claimRef.
func (s *State) newVolume() *corev1.PersistentVolume {
	in := s.Claim.DeepCopy()
	out := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: VolumeName(s.UID), Finalizers: []string{Finalizer},
			Annotations: map[string]string{annotationProvisionedBy: Provisioner, annotationDataOf: in.Namespace + "/" + in.Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: *in.Spec.StorageClassName,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: in.Namespace, Name: in.Name, UID: in.UID,
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		},
	}
	if class := ClassOf(in, s.Classes); class != nil && class.ReclaimPolicy != nil {
		out.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if s.ahead() {
		// No claim has this UID, so Kubernetes considers the volume released. Policy Delete would delete it.
		out.Spec.ClaimRef.UID, out.Spec.PersistentVolumeReclaimPolicy = s.UID, corev1.PersistentVolumeReclaimRetain
	}
	setLabels(out, labelsOf(s.Place.Cluster, s.Place.Tenant))
	if s.Place.Cluster == "" {
		s.mirror(out)
		return out
	}
	if s.backedByPod() {
		annotate(&out.ObjectMeta, annotationEphemeral, api.True)
	}
	out.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: in.Spec.Resources.Requests[corev1.ResourceStorage]}
	if s.Backing != nil && less(out.Spec.Capacity, s.size()) { // a pod has used the backing claim before, so its size is known
		out.Spec.Capacity[corev1.ResourceStorage] = s.size()
	}
	out.Spec.AccessModes, out.Spec.VolumeMode = in.Spec.AccessModes, in.Spec.VolumeMode
	out.Spec.HostPath = &corev1.HostPathVolumeSource{Path: placeholder}
	out.Spec.NodeAffinity = NodesOf(s.Place.Cluster)
	return out
}

// NodesOf returns the node affinity of the virtual volumes whose data is in a provider. ClusterOf reads it.
func NodesOf(cluster string) *corev1.VolumeNodeAffinity {
	return restricted(nil, corev1.NodeSelectorRequirement{Key: api.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{cluster}})
}

// labelsOf returns the labels of a virtual volume whose data is in a cluster. A label with an empty value must not exist. tenant is the tenant namespace of that provider.
func labelsOf(cluster, tenant string) map[string]string {
	return map[string]string{LabelVirtual: api.True, api.LabelRemoteClusterID: cluster, LabelTenant: tenant}
}

// setLabels sets the labels that labelsOf has returned.
func setLabels(volume *corev1.PersistentVolume, labels map[string]string) {
	for key, value := range labels {
		if value == "" {
			delete(volume.Labels, key)
			continue
		}
		metav1.SetMetaDataLabel(&volume.ObjectMeta, key, value)
	}
}

// labels returns the labels of an existing virtual volume.
func (s *State) labels(volume *corev1.PersistentVolume) map[string]string {
	cluster := ClusterOf(volume)
	if cluster == "" {
		return labelsOf("", "")
	}
	return labelsOf(cluster, cmp.Or(volume.Labels[LabelTenant], s.Tenant))
}

// labelled reports whether a virtual volume has its labels, and the annotation of its provisioner.
func (s *State) labelled(volume *corev1.PersistentVolume) bool {
	for key, value := range s.labels(volume) {
		if volume.Labels[key] != value {
			return false
		}
	}
	return volume.Annotations[annotationProvisionedBy] == Provisioner
}

// label restores the labels of a virtual volume, and the annotation of its provisioner. Virtual kubelets do not know a volume without them, and may not write them.
func (s *State) label(volume *corev1.PersistentVolume) Step {
	labelled := volume.DeepCopy()
	setLabels(labelled, s.labels(volume))
	annotate(&labelled.ObjectMeta, annotationProvisionedBy, Provisioner)
	return Step{Action: PatchVolume, Object: labelled, Old: volume, Why: "its labels were removed or changed", Confirm: true}
}

// mirror copies from the backing volume to the virtual volume everything that pods and the scheduler need.
func (s *State) mirror(out *corev1.PersistentVolume) {
	in := s.BackingVolume.DeepCopy()
	out.Spec.PersistentVolumeSource = in.Spec.PersistentVolumeSource
	out.Spec.Capacity, out.Spec.AccessModes, out.Spec.VolumeMode = in.Spec.Capacity, in.Spec.AccessModes, in.Spec.VolumeMode
	out.Spec.MountOptions = in.Spec.MountOptions
	// The scheduler also respects labels with the zone and the region of a volume.
	for key, value := range in.Labels {
		if prefix, _, _ := strings.Cut(key, "/"); prefix == "topology.kubernetes.io" || prefix == "failure-domain.beta.kubernetes.io" {
			out.Labels[key] = value
		}
	}
	out.Spec.NodeAffinity = restricted(in.Spec.NodeAffinity, corev1.NodeSelectorRequirement{Key: api.LabelType, Operator: corev1.NodeSelectorOpDoesNotExist})
}

// restricted returns a node affinity with a further requirement in each of its terms, because terms are alternatives.
func restricted(affinity *corev1.VolumeNodeAffinity, further corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
	var terms []corev1.NodeSelectorTerm
	if affinity != nil && affinity.Required != nil {
		terms = affinity.Required.NodeSelectorTerms
	}
	if len(terms) == 0 {
		terms = []corev1.NodeSelectorTerm{{}}
	}
	out := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	for _, term := range terms {
		term = *term.DeepCopy()
		term.MatchExpressions = append(term.MatchExpressions, further)
		out.Required.NodeSelectorTerms = append(out.Required.NodeSelectorTerms, term)
	}
	return out
}

// grow enlarges the backing claim if the claim requests more than the backing claim has. Then it writes the actual size of the backing claim, which may be more
// than requested, to the claim and its volume. If an expansion does not succeed, users lower the request of the claim, and grow lowers that of the backing
// claim (KEP-1790). The request stays above the size that the backing claim has.
func (s *State) grow(volume *corev1.PersistentVolume) Step {
	wanted := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if s.lowers(wanted) {
		lower := s.Backing.DeepCopy()
		lower.Spec.Resources.Requests[corev1.ResourceStorage] = wanted.DeepCopy()
		return Step{Action: PatchBacking, Object: lower, Old: s.Backing, Why: "the claim requests only " + wanted.String() + ", and the expansion is not done", Confirm: true}
	}
	size := s.size()
	if requested := s.Backing.Spec.Resources.Requests[corev1.ResourceStorage]; requested.Cmp(wanted) < 0 && size.Cmp(wanted) < 0 {
		if class := ClassOf(s.Backing, s.Classes); s.Place.Cluster == "" && (class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion) {
			return refuse("spec.resources.requests.storage %s is more than the volume has, and StorageClass %s behind it does not allow expansion: "+
				"set allowVolumeExpansion there if its driver can, or copy the data to a larger claim", wanted.String(), *s.Backing.Spec.StorageClassName)
		}
		larger := s.Backing.DeepCopy()
		larger.Spec.Resources.Requests[corev1.ResourceStorage] = wanted.DeepCopy()
		return Step{Action: PatchBacking, Object: larger, Old: s.Backing, Why: "the claim requests " + wanted.String()}
	}
	if less(volume.Spec.Capacity, size) {
		larger := volume.DeepCopy()
		larger.Spec.Capacity[corev1.ResourceStorage] = size
		return Step{Action: PatchVolume, Object: larger, Old: volume, Why: "the volume behind it has " + size.String()}
	}
	// If the backing claim's status shows the old size, a kubelet still has to enlarge the file system.
	usable := s.Backing.Status.Capacity[corev1.ResourceStorage]
	shown := s.Claim.Status.Capacity
	// A virtual kubelet may not write the capacity of a claim whose volume was created before it, by a live move.
	writable := s.Place.Cluster == "" || s.UID == s.Claim.UID || less(shown, wanted)
	if s.Claim.Status.Phase == corev1.ClaimBound && writable && less(shown, usable) && !less(volume.Spec.Capacity, usable) {
		larger := s.Claim.DeepCopy()
		if larger.Status.Capacity == nil {
			larger.Status.Capacity = corev1.ResourceList{}
		}
		larger.Status.Capacity[corev1.ResourceStorage] = usable.DeepCopy()
		return Step{Action: PatchClaimStatus, Object: larger, Old: s.Claim, Why: "the backing claim has " + usable.String()}
	}
	return Step{Why: "the claim has its volume"}
}

// lowers reports whether the backing claim waits for an expansion to more than wanted, which Kubernetes lets it give up.
func (s *State) lowers(wanted resource.Quantity) bool {
	requested, has := s.Backing.Spec.Resources.Requests[corev1.ResourceStorage], s.Backing.Status.Capacity[corev1.ResourceStorage]
	return s.Backing.Status.Phase == corev1.ClaimBound && !has.IsZero() && requested.Cmp(wanted) > 0 && has.Cmp(requested) < 0 && has.Cmp(wanted) <= 0
}

// size returns the size of the backing volume. If the volume is unknown, it returns the size in the status of the backing claim.
func (s *State) size() resource.Quantity {
	if s.BackingVolume != nil && s.BackingVolume.Name == s.Backing.Spec.VolumeName {
		return s.BackingVolume.Spec.Capacity[corev1.ResourceStorage].DeepCopy()
	}
	return s.Backing.Status.Capacity[corev1.ResourceStorage].DeepCopy()
}

// less reports whether the storage in a list is less than size.
func less(list corev1.ResourceList, size resource.Quantity) bool {
	have := list[corev1.ResourceStorage]
	return have.Cmp(size) < 0
}
