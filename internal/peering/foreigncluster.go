package peering

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Facts are all that a ForeignCluster shows about one remote cluster.
type Facts struct {
	// TenantNamespace is the namespace here that is labelled for the cluster, empty when there is none.
	TenantNamespace string
	// Tenant of the cluster, nil when it consumes nothing here.
	Tenant *authv1beta1.Tenant
	// Identity of our control plane there, nil when we consume nothing there.
	Identity *authv1beta1.Identity
	// VirtualNodes that show the cluster.
	VirtualNodes []offloadingv1beta1.VirtualNode
	// Nodes of those VirtualNodes.
	Nodes []corev1.Node
	// Network are the objects of the network with the cluster.
	Network NetworkFacts
	// APIServer is what the probe of the remote API server says, nil when there is none.
	APIServer *Probe
}

// Probe is the outcome of looking at a remote API server.
type Probe struct {
	// Up tells whether it answers.
	Up bool
	// Message tells why not.
	Message string
}

// Any tells whether the cluster is anything to us.
func (f *Facts) Any() bool {
	return f.Tenant != nil || f.Identity != nil || len(f.VirtualNodes) > 0 || f.Network.any()
}

// CompileForeignCluster builds the whole status from the facts. The previous status only gives the times of conditions that did not change.
func CompileForeignCluster(f *Facts, previous *corev1beta1.ForeignClusterStatus, generation int64, now metav1.Time) corev1beta1.ForeignClusterStatus {
	status := corev1beta1.ForeignClusterStatus{
		Role:               role(f),
		ObservedGeneration: generation,
		TenantNamespace:    corev1beta1.TenantNamespaces{Local: f.TenantNamespace},
	}
	auth := &status.Modules.Authentication
	auth.Enabled = f.Tenant != nil || f.Identity != nil
	if f.Tenant != nil {
		auth.Conditions = append(auth.Conditions, state(corev1beta1.AuthTenantStatus, "Tenant", tenantReady(f.Tenant), 1))
	}
	if f.Identity != nil {
		auth.Conditions = append(auth.Conditions, state(corev1beta1.AuthIdentityControlPlaneStatus, "Identity", count(f.Identity.Status.KubeconfigSecretRef != nil), 1))
		status.TenantNamespace.Remote = f.Identity.Spec.Namespace
		status.APIServerURL = f.Identity.Spec.AuthParams.APIServer
		if proxy := f.Identity.Spec.AuthParams.ProxyURL; proxy != nil {
			status.ForeignProxyURL = *proxy
		}
	}
	offloading := &status.Modules.Offloading
	if offloading.Enabled = len(f.VirtualNodes) > 0; offloading.Enabled {
		ready, nodes, nodesReady := 0, 0, 0
		for i := range f.VirtualNodes {
			node := &f.VirtualNodes[i]
			ready += count(virtualNodeReady(node))
			if makesNode(node) {
				nodes++
				nodesReady += count(nodeReady(node.Name, f.Nodes))
			}
		}
		offloading.Conditions = append(offloading.Conditions, state(corev1beta1.OffloadingVirtualNodeStatus, "VirtualNodes", ready, len(f.VirtualNodes)))
		if nodes > 0 {
			offloading.Conditions = append(offloading.Conditions, state(corev1beta1.OffloadingNodeStatus, "Nodes", nodesReady, nodes))
		}
	}
	status.Modules.Networking = networking(&f.Network, &previous.Modules.Networking, now)
	if f.APIServer != nil {
		condition := corev1beta1.Condition{
			Type: corev1beta1.APIServerStatus, Status: corev1beta1.StatusEstablished,
			Reason: "APIServerReady", Message: "the remote API server is ready",
		}
		if !f.APIServer.Up {
			condition.Status, condition.Reason, condition.Message = corev1beta1.StatusError, "APIServerNotReady", f.APIServer.Message
		}
		status.Conditions = append(status.Conditions, condition)
	}
	stamp(status.Conditions, previous.Conditions, now)
	stamp(status.Modules.Networking.Conditions, previous.Modules.Networking.Conditions, now)
	stamp(auth.Conditions, previous.Modules.Authentication.Conditions, now)
	stamp(offloading.Conditions, previous.Modules.Offloading.Conditions, now)
	return status
}

// role of the other cluster: it consumes from us, provides to us, or both.
func role(f *Facts) corev1beta1.Role {
	provides := f.Identity != nil || len(f.VirtualNodes) > 0
	switch {
	case f.Tenant != nil && provides:
		return corev1beta1.RoleConsumerAndProvider
	case f.Tenant != nil:
		return corev1beta1.RoleConsumer
	case provides:
		return corev1beta1.RoleProvider
	default:
		return corev1beta1.RoleUnknown
	}
}

func tenantReady(tenant *authv1beta1.Tenant) int {
	tolerated := tenant.Spec.AuthzPolicy == authv1beta1.TolerateNoHandshake && len(tenant.Spec.CSR) == 0
	return count(tenant.Status.TenantNamespace != "" && (tenant.Status.AuthParams != nil || tolerated))
}

func makesNode(node *offloadingv1beta1.VirtualNode) bool {
	return node.Spec.CreateNode == nil || *node.Spec.CreateNode
}

func virtualNodeReady(node *offloadingv1beta1.VirtualNode) bool {
	running := false
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		isNode := condition.Type == offloadingv1beta1.VirtualNodeNode
		if condition.Status != offloadingv1beta1.VirtualNodeRunning && (!isNode || makesNode(node)) {
			return false
		}
		running = running || !isNode
	}
	return running
}

func nodeReady(name string, nodes []corev1.Node) bool {
	for i := range nodes {
		if nodes[i].Name != name {
			continue
		}
		for _, condition := range nodes[i].Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue
			}
		}
	}
	return false
}

// state sums up how many of the objects are ready. Its reason is what, Ready, SomeNotReady or NotReady.
func state(kind corev1beta1.ConditionType, what string, ready, all int) corev1beta1.Condition {
	status := corev1beta1.StatusSomeNotReady
	switch ready {
	case all:
		status = corev1beta1.StatusReady
	case 0:
		status = corev1beta1.StatusNotReady
	}
	return corev1beta1.Condition{
		Type: kind, Status: status, Reason: what + string(status), Message: fmt.Sprintf("%d of %d ready", ready, all),
	}
}

// stamp gives each condition the time since when it has its status.
func stamp(conditions, previous []corev1beta1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for j := range previous {
			if previous[j].Type == conditions[i].Type && previous[j].Status == conditions[i].Status {
				conditions[i].LastTransitionTime = previous[j].LastTransitionTime
			}
		}
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
