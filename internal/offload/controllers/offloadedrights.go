package controllers

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-virtual-kubelet-offloaded

// letRead lets virtual kubelets read the objects that they copy from the namespace. The virtual kubelets of the clusters in asked, where the remote
// namespace is requested, get the permission. The virtual kubelets of the clusters in held, which only report that they have the remote namespace,
// keep the permission if they already have it.
//
// The RoleBinding is deleted with the NamespaceOffloading, whose finalizer holds it until the remote namespaces are gone.
func (r *namespaceOffloadings) letRead(ctx context.Context, o *offloadingv1beta1.NamespaceOffloading, asked, held []string) error {
	var nodes offloadingv1beta1.VirtualNodeList
	if err := r.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing VirtualNodes: %w", err)
	}
	rights := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: offload.ClusterRoleOffloaded}}
	_, err := kube.Ensure(ctx, r.Client, rights, func() error {
		rights.Labels = api.Layered(rights.Labels, offload.RuntimeLabels(r.GlobalLabels, ""))
		delete(rights.Labels, api.LabelRemoteClusterID) // several clusters share the RoleBinding
		rights.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "NamespaceOffloading", Name: o.Name, UID: o.UID,
		}}
		rights.RoleRef, rights.Subjects = offload.OffloadedRights(nodes.Items, asked, held, rights.Subjects)
		return nil
	})
	if err != nil && !apierrors.IsAlreadyExists(err) { // created a moment ago, the cache does not have it yet
		return fmt.Errorf("granting virtual kubelets the permission to read namespace %s: %w", o.Namespace, err)
	}
	return nil
}

// forbidRead revokes the permissions that letRead gave to virtual kubelets in a namespace.
func (r *namespaceOffloadings) forbidRead(ctx context.Context, namespace string) error {
	rights := &rbacv1.RoleBinding{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: offload.ClusterRoleOffloaded}, rights) // uncached: letRead may have just created it
	if apierrors.IsNotFound(err) || err == nil && len(rights.Subjects) == 0 {
		return nil
	}
	if err == nil {
		before := rights.DeepCopy()
		rights.Subjects = nil
		err = r.Patch(ctx, rights, client.MergeFrom(before))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("revoking the permissions of virtual kubelets in namespace %s: %w", namespace, err)
	}
	return nil
}
