package offload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// DesiredMapping returns what the NamespaceMap towards one provider has to ask for: the remote name of every local namespace whose
// NamespaceOffloading lives and picks one of the provider's virtual nodes. nodes are the VirtualNodes of that provider only; of lost see Picked.
// The namespaces in protected are left out, see ProtectedNamespaces.
func DesiredMapping(offloadings []offloadingv1beta1.NamespaceOffloading, nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string],
	protected map[string]string, consumer string) map[string]string {
	desired := map[string]string{}
	for i := range offloadings {
		o := &offloadings[i]
		if o.Name != offloadingv1beta1.NamespaceOffloadingName || !o.DeletionTimestamp.IsZero() {
			continue
		}
		if protected[o.Namespace] == "" && len(Picked(o, nodes, lost)) > 0 {
			desired[o.Namespace] = RemoteNamespace(&o.Spec, o.Namespace, consumer)
		}
	}
	return desired
}

// Twin is one namespace of a consumer as it should exist in the provider.
type Twin struct {
	// Local is its name in the consumer, Remote its name here.
	Local, Remote string
}

// Enforcement is what a provider has to do for one NamespaceMap.
type Enforcement struct {
	// Present lists the twins to be made, or kept as they should be: the namespace, and the consumer's rights in it.
	Present []Twin
	// Gone lists the namespaces to be deleted, by name.
	Gone []string
	// Left lists the namespaces of this map that still exist and should not: Gone, and those on their way out.
	Left []string
	// Status is the current mapping, with every twin of Present taken as made. Report puts in what could not be made.
	Status map[string]offloadingv1beta1.RemoteNamespaceStatus
}

// MapKey is the value that marks the namespaces of a NamespaceMap as its own.
func MapKey(m *offloadingv1beta1.NamespaceMap) string { return m.Namespace + "/" + m.Name }

// Enforce plans what a provider does for a NamespaceMap (the replicated copy), given the metadata of the namespaces that exist. A namespace
// that this map did not make for that very local namespace is never touched: its phase is CreationLoopBackOff until it is gone. Of two
// local namespaces that ask for one remote name, the one that has it keeps it, else the first by name gets it. What the policy refuses is not
// made; what there is stays. A map that is being deleted desires nothing.
func Enforce(m *offloadingv1beta1.NamespaceMap, existing map[string]metav1.ObjectMeta, policy NamespacePolicy) Enforcement {
	plan := Enforcement{Status: map[string]offloadingv1beta1.RemoteNamespaceStatus{}}
	desired := m.Spec.DesiredMapping
	if !m.DeletionTimestamp.IsZero() {
		desired = nil
	}
	key := MapKey(m)
	holder := map[string]string{} // remote namespaces of this map that exist: the local one they were made for
	for name := range existing {
		meta := existing[name]
		if meta.Annotations[offloadingv1beta1.AnnotationManagedByNamespaceMap] == key {
			holder[name] = meta.Annotations[offloadingv1beta1.AnnotationOriginalName]
		}
	}
	for _, remote := range slices.Sorted(maps.Keys(holder)) {
		local := holder[remote]
		if desired[local] == remote {
			continue
		}
		meta := existing[remote]
		if meta.DeletionTimestamp.IsZero() {
			plan.Gone = append(plan.Gone, remote)
		}
		plan.Left = append(plan.Left, remote)
		plan.Status[local] = status(remote, offloadingv1beta1.MappingTerminating)
	}
	taken := map[string]bool{}
	many := len(holder)
	for _, local := range slices.Sorted(maps.Keys(desired)) {
		remote := desired[local]
		meta, exists := existing[remote]
		full := !exists && policy.Limit > 0 && many >= policy.Limit
		switch {
		case exists && holder[remote] == local && !meta.DeletionTimestamp.IsZero():
			plan.Status[local] = status(remote, offloadingv1beta1.MappingTerminating)
			continue
		case exists && holder[remote] != local, !exists && policy.Refuses(remote), taken[remote], full:
			plan.Status[local] = status(remote, offloadingv1beta1.MappingCreationLoopBackOff)
			continue
		}
		if !exists {
			many++
		}
		taken[remote] = true
		plan.Present = append(plan.Present, Twin{Local: local, Remote: remote})
		plan.Status[local] = status(remote, offloadingv1beta1.MappingAccepted)
	}
	return plan
}

// Report corrects the status for a twin that could not be made.
func (e *Enforcement) Report(t Twin) {
	e.Status[t.Local] = status(t.Remote, offloadingv1beta1.MappingCreationLoopBackOff)
}

func status(remote string, phase offloadingv1beta1.MappingPhase) offloadingv1beta1.RemoteNamespaceStatus {
	return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase}
}

// Dress puts on a twin namespace what marks it as belonging to a NamespaceMap of consumer, and keeps whatever others put there.
func Dress(meta *metav1.ObjectMeta, m *offloadingv1beta1.NamespaceMap, consumer, local string) {
	metav1.SetMetaDataLabel(meta, api.LabelRemoteClusterID, consumer)
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationManagedByNamespaceMap, MapKey(m))
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationOriginalName, local)
}

// Compile returns the status of a NamespaceOffloading. nodes are all VirtualNodes, current the mapping by provider; now is when a
// condition that changes did so; of lost see Picked. A cluster that has no virtual node any more is shown only while it still holds the namespace.
// why is the reason for which the namespace is never offloaded, see ProtectedNamespaces.
func Compile(o *offloadingv1beta1.NamespaceOffloading, nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string],
	current map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus, why, consumer string, now metav1.Time) offloadingv1beta1.NamespaceOffloadingStatus {
	name := RemoteNamespace(&o.Spec, o.Namespace, consumer)
	result := offloadingv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName: name, ObservedGeneration: o.Generation,
		RemoteNamespacesConditions: map[string][]offloadingv1beta1.RemoteNamespaceCondition{},
	}
	deleting := !o.DeletionTimestamp.IsZero()
	var selected []string
	if !deleting && why == "" {
		selected = Picked(o, nodes, lost)
	}
	clusters := Clusters(nodes)
	for id, mapping := range current {
		if _, held := mapping[o.Namespace]; held && !slices.Contains(clusters, id) {
			clusters = append(clusters, id)
		}
	}
	var ready, failed int
	for _, id := range clusters {
		wanted := slices.Contains(selected, id)
		twin, held := current[id][o.Namespace]
		var conditions []offloadingv1beta1.RemoteNamespaceCondition
		switch {
		case wanted:
			conditions = append(conditions, condition(offloadingv1beta1.RemoteNamespaceRequired, true, offloadingv1beta1.ReasonClusterSelected,
				"The remote cluster has been selected through the ClusterSelector field"))
			c := twinCondition(name, id, twin, held)
			conditions = append(conditions, c)
			if c.Status == corev1.ConditionTrue {
				ready++
			} else if c.Reason == offloadingv1beta1.ReasonCreationLoopBackOff {
				failed++
			}
		default:
			reason, message := offloadingv1beta1.ReasonClusterNotSelected, "The remote cluster has not been selected through the ClusterSelector field"
			switch {
			case deleting:
				message = "The namespace is no longer offloaded"
			case why != "":
				reason, message = offloadingv1beta1.ReasonNamespaceProtected, ProtectedMessage(o.Namespace, why)
			}
			conditions = append(conditions, condition(offloadingv1beta1.RemoteNamespaceRequired, false, reason, message))
			if held {
				conditions = append(conditions, condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonTerminating,
					fmt.Sprintf("Namespace %s is being deleted in cluster %s", twin.RemoteNamespace, id)))
			}
		}
		result.RemoteNamespacesConditions[id] = keepTimes(conditions, o.Status.RemoteNamespacesConditions[id], now)
	}
	result.OffloadingPhase = phase(deleting, len(selected), ready, failed)
	if why != "" && !deleting {
		result.OffloadingPhase = offloadingv1beta1.PhaseAllFailed // none may hold it
	}
	return result
}

func phase(deleting bool, selected, ready, failed int) offloadingv1beta1.OffloadingPhase {
	switch {
	case deleting:
		return offloadingv1beta1.PhaseTerminating
	case selected == 0:
		return offloadingv1beta1.PhaseNoClusterSelected
	case ready == selected:
		return offloadingv1beta1.PhaseReady
	case failed == selected:
		return offloadingv1beta1.PhaseAllFailed
	case failed > 0:
		return offloadingv1beta1.PhaseSomeFailed
	default:
		return offloadingv1beta1.PhaseInProgress
	}
}

// twinCondition tells how far the twin of a selected cluster is.
func twinCondition(name, cluster string, twin offloadingv1beta1.RemoteNamespaceStatus, held bool) offloadingv1beta1.RemoteNamespaceCondition {
	switch {
	case !held, twin.RemoteNamespace != name:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonCreating,
			fmt.Sprintf("Waiting for cluster %s to make namespace %s", cluster, name))
	case twin.Phase == offloadingv1beta1.MappingAccepted:
		return condition(offloadingv1beta1.RemoteNamespaceReady, true, offloadingv1beta1.ReasonNamespaceCreated,
			"Namespace correctly offloaded to the remote cluster")
	case twin.Phase == offloadingv1beta1.MappingTerminating:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonTerminating,
			fmt.Sprintf("An earlier namespace %s is still being deleted in cluster %s", name, cluster))
	default:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonCreationLoopBackOff,
			fmt.Sprintf("Cluster %s can't make namespace %s: %s; it is made as soon as it can", cluster, name, whyNoTwin))
	}
}

// whyNoTwin are the causes of MappingCreationLoopBackOff, which does not tell which of them it is.
const whyNoTwin = "a namespace of that name exists there and is not this one's, the name is kept back there, or there are as many as it allows"

func condition(t offloadingv1beta1.RemoteNamespaceConditionType, ok bool, reason, message string) offloadingv1beta1.RemoteNamespaceCondition {
	s := corev1.ConditionFalse
	if ok {
		s = corev1.ConditionTrue
	}
	return offloadingv1beta1.RemoteNamespaceCondition{Type: t, Status: s, Reason: reason, Message: message}
}

// keepTimes stamps the conditions: those whose status did not change keep their time.
func keepTimes(conditions, before []offloadingv1beta1.RemoteNamespaceCondition, now metav1.Time) []offloadingv1beta1.RemoteNamespaceCondition {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for _, b := range before {
			if b.Type == conditions[i].Type && b.Status == conditions[i].Status && !b.LastTransitionTime.IsZero() {
				conditions[i].LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	return conditions
}
