package offload

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// OffloadedRights returns the role and subjects of the RoleBinding in an offloaded namespace. It lets the virtual kubelets of the selected clusters
// read the objects that they copy.
//
// The argument asked lists the clusters that are asked for a remote namespace: their virtual kubelets get the right. The argument held lists the
// clusters that still have a remote namespace: their virtual kubelets keep the right if they are already among the subjects in before.
func OffloadedRights(nodes []offloadingv1beta1.VirtualNode, asked, held []string, before []rbacv1.Subject) (rbacv1.RoleRef, []rbacv1.Subject) {
	var subjects []rbacv1.Subject
	for i := range nodes {
		node := &nodes[i]
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: node.Namespace, Name: node.Name}
		if slices.Contains(asked, node.Spec.ClusterID) || slices.Contains(held, node.Spec.ClusterID) && slices.Contains(before, subject) {
			subjects = append(subjects, subject)
		}
	}
	slices.SortFunc(subjects, func(a, b rbacv1.Subject) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterRoleOffloaded}, subjects
}

// RemoteNamespaceQuota is the name of the ResourceQuota and of the LimitRange in the remote namespaces of consumers.
const RemoteNamespaceQuota = "liqo"

// RemoteNamespaceRights returns the role and subjects of the RoleBinding that gives a consumer (a cluster ID) its rights in its remote namespaces.
func RemoteNamespaceRights(consumer string) (rbacv1.RoleRef, []rbacv1.Subject) {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterRoleRemote},
		[]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}}
}

// RuntimeLabels returns the labels of RBAC objects that are created at run time.
func RuntimeLabels(global map[string]string, remoteCluster string) map[string]string {
	return api.Layered(global, map[string]string{LabelManagedBy: ManagedBy, LabelPartOf: ManagedBy, api.LabelRemoteClusterID: remoteCluster})
}
