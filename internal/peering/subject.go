package peering

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// RoleVirtualKubelet is bound to the group of the consumer's virtual kubelets in each namespace that is created for the consumer.
const RoleVirtualKubelet = "liqo-virtual-kubelet-remote"

// Binding is a RoleBinding, or a ClusterRoleBinding when Namespace is empty.
type Binding struct {
	Namespace, Name string
	RoleRef         rbacv1.RoleRef
	Subjects        []rbacv1.Subject
}

// CheckFreeSubject returns nil if a cluster ID may become the name of a user and of a group in this cluster. The certificates of a consumer contain
// its cluster ID as both, and its control plane acts with a token as the user of TokenSubject. A consumer chooses its own ID. If one of these were the
// name of a user or group that has rights, for example what an administrator granted an earlier Tenant, the consumer would get these rights; the error
// names the binding. Bindings of the roles that consumers get are ignored.
func CheckFreeSubject(consumer string, bindings []Binding) error {
	names := []string{consumer, TokenSubject(ControlPlaneSubject(consumer)).User}
	ours := []string{RoleControlPlane, RoleVirtualKubelet, RoleVirtualKubeletClusterwide, offloadingv1beta1.DrainedClusterRole}
	for _, binding := range bindings {
		if binding.RoleRef.Kind == "ClusterRole" && slices.Contains(ours, binding.RoleRef.Name) {
			continue
		}
		for _, subject := range binding.Subjects {
			if !slices.Contains(names, subject.Name) || (subject.Kind != rbacv1.UserKind && subject.Kind != rbacv1.GroupKind) {
				continue
			}
			kind, name := "ClusterRoleBinding", binding.Name
			if binding.Namespace != "" {
				kind, name = "RoleBinding", binding.Namespace+"/"+binding.Name
			}
			return fmt.Errorf("spec.clusterID is %q, and %s %s grants rights to %s %q: the consumer would get them; give the consumer another cluster ID, or remove the %[4]s from the %[2]s",
				consumer, kind, name, subject.Kind, subject.Name)
		}
	}
	return nil
}
