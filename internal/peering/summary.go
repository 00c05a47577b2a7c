package peering

import (
	"slices"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// summary returns the overview of a peering, from the facts and the conditions compiled from them.
func summary(f *Facts, status *corev1beta1.ForeignClusterStatus) corev1beta1.Summary {
	return corev1beta1.Summary{
		Type:           peeringType(status),
		Outgoing:       outgoing(f, status),
		Incoming:       incoming(f),
		Networking:     phaseOf(status.Modules.Networking, corev1beta1.NetworkConnectionStatus),
		Authentication: authentication(status),
	}
}

func peeringType(status *corev1beta1.ForeignClusterStatus) corev1beta1.PeeringType {
	switch {
	case status.ForeignProxyURL != "":
		return corev1beta1.InBand
	case status.Role != corev1beta1.RoleUnknown:
		return corev1beta1.OutOfBand
	default:
		return ""
	}
}

// outgoing returns the phase of the peering in which this cluster uses the other one. It depends on ResourceSlices, virtual nodes and Nodes.
func outgoing(f *Facts, status *corev1beta1.ForeignClusterStatus) corev1beta1.Phase {
	if len(f.Asked)+len(f.VirtualNodes) == 0 {
		return corev1beta1.PhaseNone
	}
	left := 0
	for i := range f.Asked {
		left += count(f.Asked[i].DeletionTimestamp == nil)
	}
	for i := range f.VirtualNodes {
		left += count(f.VirtualNodes[i].DeletionTimestamp == nil)
	}
	nodes := phaseOf(status.Modules.Offloading, corev1beta1.OffloadingVirtualNodeStatus, corev1beta1.OffloadingNodeStatus)
	switch {
	case left == 0:
		return corev1beta1.PhaseDisconnecting
	case silent(status):
		return corev1beta1.PhaseError
	case len(f.VirtualNodes) == 0:
		return corev1beta1.PhasePending
	default:
		return nodes
	}
}

// incoming returns the phase of the peering in which the other cluster uses this one.
func incoming(f *Facts) corev1beta1.Phase {
	switch {
	case f.Tenant == nil:
		return corev1beta1.PhaseNone
	case f.Tenant.DeletionTimestamp != nil, !GrantsOf(f.Tenant).Access:
		return corev1beta1.PhaseDisconnecting
	case !tenantReady(f.Tenant):
		return corev1beta1.PhasePending
	case len(f.Granted) == 0:
		return corev1beta1.PhaseNone
	}
	if slices.ContainsFunc(f.Granted, func(slice authv1beta1.ResourceSlice) bool { return accepted(&slice) }) {
		return corev1beta1.PhaseEstablished
	}
	return corev1beta1.PhasePending
}

func authentication(status *corev1beta1.ForeignClusterStatus) corev1beta1.Phase {
	phase := phaseOf(status.Modules.Authentication, corev1beta1.AuthTenantStatus, corev1beta1.AuthIdentityControlPlaneStatus)
	if phase != corev1beta1.PhaseNone && silent(status) {
		return corev1beta1.PhaseError
	}
	return phase
}

// silent reports whether the other API server is unreachable.
func silent(status *corev1beta1.ForeignClusterStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == corev1beta1.APIServerStatus && c.Status == corev1beta1.StatusError
	})
}

// phaseOf returns the phase of a module: the worst of its conditions of the given types determines it.
func phaseOf(module corev1beta1.Module, kinds ...corev1beta1.ConditionType) corev1beta1.Phase {
	if !module.Enabled {
		return corev1beta1.PhaseNone
	}
	phase := corev1beta1.PhaseEstablished
	for _, condition := range module.Conditions {
		switch {
		case !slices.Contains(kinds, condition.Type):
		case condition.Status == corev1beta1.StatusError:
			return corev1beta1.PhaseError
		case condition.Status != corev1beta1.StatusReady && condition.Status != corev1beta1.StatusEstablished:
			phase = corev1beta1.PhasePending
		}
	}
	return phase
}

// accepted reports whether a ResourceSlice got an identity and resources.
func accepted(slice *authv1beta1.ResourceSlice) bool {
	return ConditionOf(&slice.Status, authv1beta1.ResourceSliceAuthentication) == authv1beta1.ResourceSliceAccepted &&
		ConditionOf(&slice.Status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
}

// ConditionOf returns the status of the condition of that type, accepted or denied; empty when there is none.
func ConditionOf(status *authv1beta1.ResourceSliceStatus, kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return status.Conditions[i].Status
		}
	}
	return ""
}
