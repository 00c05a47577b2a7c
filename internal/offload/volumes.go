package offload

import (
	"fmt"
	"slices"
	"strings"

	"liqo.io/liqo/api"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Volume is a volume whose data is in a provider. The data is lost with the remote namespace of its claim.
type Volume struct {
	// Name is the name of the PersistentVolume, Namespace and Claim identify its claim.
	Name, Namespace, Claim string
	// Cluster is the ID of the provider, Size the size of the volume.
	Cluster, Size string
	// Problem, if not empty, explains why it is unknown whether the data is in Cluster, with the cure. Cluster may be empty then.
	Problem string
	// Retain means that the data outlives the claim, Released that the claim was deleted.
	Retain, Released bool
	// Ending means that the namespace of the claim is being deleted, and all claims with it.
	Ending bool
}

// keeps reports whether the data has not been deleted yet. A user who deletes a claim, or its namespace, deletes the data, unless the volume is
// retained.
func (v *Volume) keeps() bool { return v.Retain || !v.Released && !v.Ending }

func (v *Volume) String() string {
	if v.Released {
		return fmt.Sprintf("PersistentVolume %s of deleted claim %s/%s (%s, cluster %s)", v.Name, v.Namespace, v.Claim, v.Size, v.Cluster)
	}
	if v.Problem != "" {
		return fmt.Sprintf("PersistentVolumeClaim %s/%s (%s, maybe cluster %s: %s)", v.Namespace, v.Claim, v.Size, v.Cluster, v.Problem)
	}
	return fmt.Sprintf("PersistentVolumeClaim %s/%s (%s, cluster %s)", v.Namespace, v.Claim, v.Size, v.Cluster)
}

// Located returns the volumes that have a remote namespace. A volume that may be in any cluster counts in each cluster with a remote namespace for
// it. maps are all NamespaceMaps.
func Located(volumes []Volume, maps []offloadingv1beta1.NamespaceMap) []Volume {
	var out []Volume
	for _, v := range volumes {
		if v.Cluster != "" {
			if HasRemoteNamespace(maps, v.Cluster, v.Namespace) {
				out = append(out, v)
			}
			continue
		}
		for i := range maps {
			if v.Cluster = maps[i].Name; HasRemoteNamespace(maps[i:i+1], v.Cluster, v.Namespace) {
				out = append(out, v)
			}
		}
	}
	return out
}

// KeptVolumes returns the volumes whose data would be lost if the namespace of a NamespaceOffloading was no longer offloaded to a cluster. It returns none if
// an annotation allows the deletion of the data.
func KeptVolumes(o *offloadingv1beta1.NamespaceOffloading, volumes []Volume, cluster string) []Volume {
	if o.Annotations[api.AnnotationDeleteVolumes] == api.True {
		return nil
	}
	return keeping(volumes, func(v *Volume) bool { return v.Cluster == cluster && v.Namespace == o.Namespace })
}

// AbandonmentUsed reports whether the annotation that allows the deletion of data has served its purpose, so that later changes must not delete data because of
// it. That is so if a cluster that is no longer selected has released the remote namespace since the status before, and no cluster that is not selected has one
// or is asked for one. As long as every cluster stays selected, the annotation is meant for the next change. o has the present status, see Compile; maps are
// all NamespaceMaps.
func AbandonmentUsed(o *offloadingv1beta1.NamespaceOffloading, before offloadingv1beta1.NamespaceOffloadingStatus, maps []offloadingv1beta1.NamespaceMap) bool {
	if o.Annotations[api.AnnotationDeleteVolumes] != api.True || !o.DeletionTimestamp.IsZero() {
		return false
	}
	for i := range maps {
		m, wanted := &maps[i], ""
		if Required(o.Status.RemoteNamespacesConditions[m.Name]) {
			wanted = o.Status.RemoteNamespaceName
		}
		asked, requested := m.Spec.DesiredMapping[o.Namespace]
		current, held := m.Status.CurrentMapping[o.Namespace]
		if m.Labels[api.LabelReplicated] != api.True && (requested && asked != wanted || held && current.RemoteNamespace != wanted) {
			return false
		}
	}
	has := func(conditions []offloadingv1beta1.RemoteNamespaceCondition) bool {
		return slices.ContainsFunc(conditions, func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
			return c.Type == offloadingv1beta1.RemoteNamespaceReady
		})
	}
	for id, conditions := range before.RemoteNamespacesConditions {
		if has(conditions) && (!Required(conditions) || !has(o.Status.RemoteNamespacesConditions[id])) {
			return true
		}
	}
	return false
}

// NodeVolumes returns the volumes whose data would be lost with a VirtualNode: the volumes of its cluster, unless another VirtualNode of the cluster remains.
// It returns none if an annotation of the VirtualNode, which is being deleted, allows the deletion of the data, or if the cluster is declared permanently
// unreachable. foreign is the ForeignCluster, nil if there is none.
func NodeVolumes(
	node *offloadingv1beta1.VirtualNode, nodes []offloadingv1beta1.VirtualNode, volumes []Volume, foreign *corev1beta1.ForeignCluster,
) []Volume {
	stays := slices.ContainsFunc(nodes, func(n offloadingv1beta1.VirtualNode) bool {
		return n.Spec.ClusterID == node.Spec.ClusterID && n.UID != node.UID && n.DeletionTimestamp.IsZero()
	})
	if stays || abandoned(node) || foreign != nil && Gone(foreign) {
		return nil
	}
	return keeping(volumes, func(v *Volume) bool { return v.Cluster == node.Spec.ClusterID })
}

// MapVolumes returns the volumes whose data would be lost with the NamespaceMap of a cluster that has no VirtualNode left. nodes are the VirtualNodes of the
// cluster whose deletion is almost complete. It returns none if the annotation of one of them allows the deletion of the data, or if the cluster is declared
// permanently unreachable.
func MapVolumes(cluster string, nodes []offloadingv1beta1.VirtualNode, volumes []Volume, foreign *corev1beta1.ForeignCluster) []Volume {
	if slices.ContainsFunc(nodes, func(n offloadingv1beta1.VirtualNode) bool { return abandoned(&n) }) || foreign != nil && Gone(foreign) {
		return nil
	}
	return keeping(volumes, func(v *Volume) bool { return v.Cluster == cluster })
}

func abandoned(node *offloadingv1beta1.VirtualNode) bool {
	return node.Annotations[api.AnnotationDeleteVolumes] == api.True && !node.DeletionTimestamp.IsZero()
}

// HasRemoteNamespace reports whether a provider has the remote namespace of a namespace of this cluster, or is asked for it. maps are all
// NamespaceMaps.
func HasRemoteNamespace(maps []offloadingv1beta1.NamespaceMap, cluster, namespace string) bool {
	return slices.ContainsFunc(maps, func(m offloadingv1beta1.NamespaceMap) bool {
		_, asked := m.Spec.DesiredMapping[namespace]
		_, held := m.Status.CurrentMapping[namespace]
		return m.Name == cluster && m.Labels[api.LabelReplicated] != api.True && (asked || held)
	})
}

func keeping(volumes []Volume, selected func(*Volume) bool) []Volume {
	var out []Volume
	for i := range volumes {
		if v := &volumes[i]; v.keeps() && selected(v) {
			out = append(out, *v)
		}
	}
	slices.SortFunc(out, func(a, b Volume) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// volumesShown is the maximum number of volumes that a message lists.
const volumesShown = 20

// VolumesMessage lists the volumes that block the deletion of an object, and the cure. kind, namespace and name identify the object for kubectl.
func VolumesMessage(kept []Volume, kind, namespace, name string) string {
	var list []string
	for i := range kept[:min(len(kept), volumesShown)] {
		list = append(list, kept[i].String())
	}
	if more := len(kept) - volumesShown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	cure := "copy the data and delete the claims"
	if slices.ContainsFunc(kept, func(v Volume) bool { return v.Released }) {
		cure += " (of deleted claims: set spec.persistentVolumeReclaimPolicy of the PersistentVolume to Delete, and delete the PersistentVolume)"
	}
	return fmt.Sprintf("data would be lost: %s; %s, or abandon the data: kubectl annotate %s %s --namespace %s %s=%s",
		strings.Join(list, ", "), cure, kind, name, namespace, api.AnnotationDeleteVolumes, api.True)
}
