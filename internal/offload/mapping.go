package offload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// DesiredMapping returns the desired mapping of the NamespaceMap for one provider: remote name by local name. It covers every local namespace whose
// NamespaceOffloading is not being deleted and selects one of the provider's virtual nodes. It leaves out the namespaces in protected, see
// ProtectedNamespaces. The argument nodes holds the VirtualNodes of that provider only; lost is explained at SelectedClusters.
//
// The argument before is the previous mapping. A namespace in it keeps its remote namespace while KeptVolumes returns volumes for it. This holds whatever
// the reason why it would lose the remote namespace: it is no longer selected, it is protected, or its NamespaceOffloading is being deleted or is missing.
func DesiredMapping(offloadings []offloadingv1beta1.NamespaceOffloading, nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string],
	protected map[string]string, consumer string, before map[string]string, volumes []Volume) map[string]string {
	desired := map[string]string{}
	for i := range offloadings {
		o := &offloadings[i]
		if o.Name != offloadingv1beta1.NamespaceOffloadingName || protected[o.Namespace] != "" {
			continue
		}
		if o.DeletionTimestamp.IsZero() && len(SelectedClusters(o, nodes, lost)) > 0 {
			desired[o.Namespace] = RemoteNamespace(&o.Spec, o.Namespace, consumer)
		}
	}
	for local, remote := range before {
		o := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: local}} // it may be missing
		for i := range offloadings {
			if offloadings[i].Namespace == local && offloadings[i].Name == offloadingv1beta1.NamespaceOffloadingName {
				o = &offloadings[i]
			}
		}
		if slices.ContainsFunc(Clusters(nodes), func(id string) bool { return len(KeptVolumes(o, volumes, id)) > 0 }) {
			desired[local] = remote
		}
	}
	return desired
}

// ReleasedMapping returns the namespaces that the NamespaceMap m of a provider releases when its desired mapping changes to desired: those that it requested
// before, until the provider reports that it has read the release and no longer has the namespace. A status without the release says nothing: it is older, or
// the copy of the map was created again. The provider deletes no claims of a namespace that is not released: a consumer that was restored from a backup may
// only lack a namespace that it requested later.
func ReleasedMapping(m *offloadingv1beta1.NamespaceMap, desired map[string]string) map[string]string {
	released := map[string]string{}
	for local, remote := range m.Spec.ReleasedMapping {
		if m.Status.ReleasedMapping[local] != remote || m.Status.CurrentMapping[local].RemoteNamespace == remote {
			released[local] = remote
		}
	}
	for local, remote := range m.Spec.DesiredMapping {
		if desired[local] != remote {
			released[local] = remote
		}
	}
	maps.DeleteFunc(released, func(local, remote string) bool { return desired[local] == remote })
	if len(released) == 0 {
		return nil
	}
	return released
}

// NamespacePair is a namespace of a consumer and its remote namespace in this provider.
type NamespacePair struct {
	// Local is the name in the consumer, Remote the name in this cluster.
	Local, Remote string
	// Inherited means that another map granted the namespace, and that it has claims. Their data may be unknown to the consumer, so the namespace keeps the mark of
	// that map as long as it has claims.
	Inherited bool
}

// Enforcement is the plan of a provider for one NamespaceMap.
type Enforcement struct {
	// Ensure lists the remote namespaces to create or to keep up to date: the namespace itself, and the consumer's rights in it.
	Ensure []NamespacePair
	// Delete lists the names of the namespaces to delete.
	Delete []string
	// Remaining lists the namespaces of this map that still exist and should not: those in Delete, and those that are being deleted already.
	Remaining []string
	// Retained lists the namespaces that the map does not desire, but that stay because of their claims.
	Retained []NamespacePair
	// Status is the current mapping, by local name. It counts every namespace in Ensure as created; call Report for those that could not be created.
	Status map[string]offloadingv1beta1.RemoteNamespaceStatus
}

// MapKey returns the annotation value that marks the namespaces of a NamespaceMap.
func MapKey(m *offloadingv1beta1.NamespaceMap) string { return m.Namespace + "/" + m.Name }

// grantUID returns the UID that marks the namespaces that m granted. m is the copy in the provider, and the UID is that of its original in the consumer. A copy
// that an earlier release made does not record that UID. Then grantUID returns the UID of the copy.
func grantUID(m *offloadingv1beta1.NamespaceMap) string {
	if uid, named := m.Annotations[api.AnnotationSourceUID]; named {
		return uid
	}
	return string(m.UID)
}

// GrantedByAnother reports whether another NamespaceMap than m granted a namespace.
func GrantedByAnother(m *offloadingv1beta1.NamespaceMap, namespace *metav1.ObjectMeta) bool {
	uid := namespace.Annotations[offloadingv1beta1.AnnotationNamespaceMapUID]
	return uid != "" && uid != grantUID(m)
}

// Enforce plans what a provider does for a NamespaceMap (the replicated copy), given the metadata of the existing namespaces, by name. An existing
// namespace that this map did not create for the same local namespace is never changed: the phase is CreationLoopBackOff until that namespace is
// deleted. If two local namespaces request one remote name, the current holder keeps it; without a holder the first by name gets it. A name that
// policy refuses is not created, but an existing namespace stays.
//
// A map that is being deleted desires no namespace. But a namespace with claims (see claims) is deleted only if the map that granted it (see grantUID) releases
// it. Neither the deletion of a map nor the absence of a namespace from it is a request to delete data: a user may have deleted the map by mistake, the
// consumer may have lost its identity, or it may have written the map again after a loss or a restore from a backup. A consumer that ends a peering first
// releases all namespaces.
//
// Another map of the same name takes over the namespaces that it contains, and leaves the others alone. A namespace that it took over does not count as granted
// by it as long as the namespace has claims: the consumer has lost its volumes with the former map, so it would not ask before it deletes their data.
func Enforce(m *offloadingv1beta1.NamespaceMap, existing map[string]metav1.ObjectMeta, claims map[string]bool, policy NamespacePolicy) Enforcement {
	plan := Enforcement{Status: map[string]offloadingv1beta1.RemoteNamespaceStatus{}}
	desired, deleting := m.Spec.DesiredMapping, !m.DeletionTimestamp.IsZero()
	if deleting {
		desired = nil
	}
	key := MapKey(m)
	holder := map[string]string{} // remote namespaces of this map that exist, each with the local namespace that it was created for
	for name := range existing {
		meta := existing[name]
		if offloadingv1beta1.NamespaceMapOf(&meta) == key {
			holder[name] = meta.Annotations[offloadingv1beta1.AnnotationOriginalName]
		}
	}
	for _, remote := range slices.Sorted(maps.Keys(holder)) {
		local := holder[remote]
		if desired[local] == remote {
			continue
		}
		meta := existing[remote]
		released := m.Spec.ReleasedMapping[local] == remote && meta.Annotations[offloadingv1beta1.AnnotationNamespaceMapUID] == grantUID(m)
		if claims[remote] && !released && meta.DeletionTimestamp.IsZero() {
			plan.Retained = append(plan.Retained, NamespacePair{Local: local, Remote: remote})
			continue
		}
		if meta.DeletionTimestamp.IsZero() {
			plan.Delete = append(plan.Delete, remote)
		}
		plan.Remaining = append(plan.Remaining, remote)
		plan.Status[local] = status(remote, offloadingv1beta1.MappingTerminating)
	}
	taken := map[string]bool{}
	many, consumer := len(holder), m.Labels[api.LabelOriginID]
	for _, local := range slices.Sorted(maps.Keys(desired)) {
		remote := desired[local]
		meta, exists := existing[remote]
		full := !exists && policy.Limit > 0 && many >= policy.Limit
		switch {
		case exists && holder[remote] == local && !meta.DeletionTimestamp.IsZero():
			plan.Status[local] = status(remote, offloadingv1beta1.MappingTerminating)
			continue
		case exists && holder[remote] != local, !exists && policy.Refuses(NamespacePair{Local: local, Remote: remote}, consumer), taken[remote], full:
			plan.Status[local] = status(remote, offloadingv1beta1.MappingCreationLoopBackOff)
			continue
		}
		if !exists {
			many++
		}
		taken[remote] = true
		plan.Ensure = append(plan.Ensure, NamespacePair{Local: local, Remote: remote, Inherited: exists && claims[remote] && GrantedByAnother(m, &meta)})
		plan.Status[local] = status(remote, offloadingv1beta1.MappingAccepted)
	}
	return plan
}

// Suspended reports whether a provider has withdrawn the access of a consumer to its remote namespaces: its Tenant is drained, or is being deleted. tenants are the
// Tenants of the consumer's tenant namespace. As long as there is none, nothing is known about the consumer.
func Suspended(tenants []authv1beta1.Tenant, consumer string) bool {
	var tenant *authv1beta1.Tenant
	for i := range tenants { // a further Tenant of the namespace is refused by its controller, until the older one is deleted
		if t := &tenants[i]; t.Spec.ClusterID == consumer && (tenant == nil || api.CompareAge(t, tenant) < 0) {
			tenant = t
		}
	}
	return tenant != nil && (tenant.Spec.TenantCondition == authv1beta1.TenantDrained || !tenant.DeletionTimestamp.IsZero())
}

// Report sets the status of a namespace that could not be created to CreationLoopBackOff.
func (e *Enforcement) Report(t NamespacePair) {
	e.Status[t.Local] = status(t.Remote, offloadingv1beta1.MappingCreationLoopBackOff)
}

func status(remote string, phase offloadingv1beta1.MappingPhase) offloadingv1beta1.RemoteNamespaceStatus {
	return offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase}
}

// MarkNamespace sets the label and annotations that mark a remote namespace as belonging to a NamespaceMap of consumer. Other labels and annotations
// stay.
func MarkNamespace(meta *metav1.ObjectMeta, m *offloadingv1beta1.NamespaceMap, consumer string, pair NamespacePair) {
	metav1.SetMetaDataLabel(meta, api.LabelRemoteClusterID, consumer)
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationManagedByNamespaceMap, MapKey(m))
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationRemoteNamespaceName, meta.Name)
	if uid := grantUID(m); uid != "" && !pair.Inherited {
		metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationNamespaceMapUID, uid)
	}
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationOriginalName, pair.Local)
	metav1.SetMetaDataAnnotation(meta, offloadingv1beta1.AnnotationConsumerUsers, authv1beta1.SliceUserSuffix(consumer))
}

// Compile returns the status of a NamespaceOffloading. A cluster without a virtual node is listed only while it still holds the remote namespace.
//
// The argument nodes holds all VirtualNodes, and current the current mapping by provider; lost is explained at SelectedClusters. If the namespace is
// protected from offloading (see ProtectedNamespaces), why is the reason, otherwise it is empty. Conditions that change get the transition time now.
// Conditions of clusters that keep the remote namespace because of KeptVolumes list these volumes.
func Compile(o *offloadingv1beta1.NamespaceOffloading, nodes []offloadingv1beta1.VirtualNode, lost sets.Set[string],
	current map[string]map[string]offloadingv1beta1.RemoteNamespaceStatus, volumes []Volume, why, consumer string, now metav1.Time,
) offloadingv1beta1.NamespaceOffloadingStatus {
	name := RemoteNamespace(&o.Spec, o.Namespace, consumer)
	result := offloadingv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName: name, ObservedGeneration: o.Generation,
		RemoteNamespacesConditions: map[string][]offloadingv1beta1.RemoteNamespaceCondition{},
	}
	deleting := !o.DeletionTimestamp.IsZero()
	var selected []string
	if !deleting && why == "" {
		selected = SelectedClusters(o, nodes, lost)
	}
	clusters := Clusters(nodes)
	withNode := len(clusters)
	for id, mapping := range current {
		if _, held := mapping[o.Namespace]; held && !slices.Contains(clusters, id) {
			clusters = append(clusters, id)
		}
	}
	var ready, failed int
	for i, id := range clusters {
		wanted := slices.Contains(selected, id)
		remote, held := current[id][o.Namespace]
		var kept []Volume
		if held && i < withNode && remote.Phase == offloadingv1beta1.MappingAccepted {
			kept = KeptVolumes(o, volumes, id)
		}
		var conditions []offloadingv1beta1.RemoteNamespaceCondition
		switch {
		case len(kept) > 0 && (!wanted || remote.RemoteNamespace != name):
			conditions = append(conditions,
				condition(offloadingv1beta1.RemoteNamespaceRequired, false, offloadingv1beta1.ReasonVolumesKept,
					VolumesMessage(kept, "namespaceoffloading", o.Namespace, o.Name)),
				remoteNamespaceReady(remote.RemoteNamespace, id, remote, held))
		case wanted:
			conditions = append(conditions, condition(offloadingv1beta1.RemoteNamespaceRequired, true, offloadingv1beta1.ReasonClusterSelected,
				"The remote cluster has been selected through the ClusterSelector field"))
			c := remoteNamespaceReady(name, id, remote, held)
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
					fmt.Sprintf("Namespace %s is being deleted in cluster %s", remote.RemoteNamespace, id)))
			}
		}
		result.RemoteNamespacesConditions[id] = keepTimes(conditions, o.Status.RemoteNamespacesConditions[id], now)
	}
	result.OffloadingPhase = phase(deleting, len(selected), ready, failed)
	if why != "" && !deleting {
		result.OffloadingPhase = offloadingv1beta1.PhaseAllFailed // no cluster may hold a protected namespace
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

// remoteNamespaceReady returns the readiness condition of the remote namespace in a selected cluster.
func remoteNamespaceReady(name, cluster string, remote offloadingv1beta1.RemoteNamespaceStatus, held bool) offloadingv1beta1.RemoteNamespaceCondition {
	switch {
	case !held, remote.RemoteNamespace != name:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonCreating,
			fmt.Sprintf("Waiting for cluster %s to create namespace %s", cluster, name))
	case remote.Phase == offloadingv1beta1.MappingAccepted:
		return condition(offloadingv1beta1.RemoteNamespaceReady, true, offloadingv1beta1.ReasonNamespaceCreated,
			"Namespace correctly offloaded to the remote cluster")
	case remote.Phase == offloadingv1beta1.MappingTerminating:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonTerminating,
			fmt.Sprintf("An earlier namespace %s is still being deleted in cluster %s", name, cluster))
	default:
		return condition(offloadingv1beta1.RemoteNamespaceReady, false, offloadingv1beta1.ReasonCreationLoopBackOff,
			fmt.Sprintf("Cluster %s cannot create namespace %s and retries. Possible causes: %s", cluster, name, whyNoRemoteNamespace))
	}
}

// whyNoRemoteNamespace lists the possible causes of MappingCreationLoopBackOff. The phase does not say which of them applies.
const whyNoRemoteNamespace = "a namespace of that name exists there and belongs to something else, its administrator refuses the name " +
	"(values offloading.namespacePolicy.refused and chosen), or it allows no more namespaces"

func condition(t offloadingv1beta1.RemoteNamespaceConditionType, ok bool, reason, message string) offloadingv1beta1.RemoteNamespaceCondition {
	s := corev1.ConditionFalse
	if ok {
		s = corev1.ConditionTrue
	}
	return offloadingv1beta1.RemoteNamespaceCondition{Type: t, Status: s, Reason: reason, Message: message}
}

// keepTimes sets the transition times of conditions: now, or the time in before if the condition did not change. For RemoteNamespaceReady, a changed reason is
// a change too: its time shows how long a cluster has not created the remote namespace.
func keepTimes(conditions, before []offloadingv1beta1.RemoteNamespaceCondition, now metav1.Time) []offloadingv1beta1.RemoteNamespaceCondition {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for _, b := range before {
			same := b.Status == conditions[i].Status && (b.Type != offloadingv1beta1.RemoteNamespaceReady || b.Reason == conditions[i].Reason)
			if b.Type == conditions[i].Type && same && !b.LastTransitionTime.IsZero() {
				conditions[i].LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	return conditions
}
