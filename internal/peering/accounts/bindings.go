package accounts

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// Unbind deletes the permission of all ServiceAccounts of a Tenant to impersonate their users.
func (a *Issuer) Unbind(ctx context.Context, tenant *authv1beta1.Tenant) error {
	return a.unbindIf(ctx, tenant, func(string) bool { return true })
}

// Tidy deletes the bindings of ServiceAccounts of ResourceSlices that no longer exist. Kubernetes garbage-collects the ServiceAccounts, but a
// cluster-scoped object cannot have a namespaced owner.
func (a *Issuer) Tidy(ctx context.Context, tenant *authv1beta1.Tenant) error {
	slices := &authv1beta1.ResourceSliceList{}
	if err := a.Client.List(ctx, slices, client.InNamespace(tenant.Namespace)); err != nil {
		return fmt.Errorf("listing ResourceSlices in namespace %s: %w", tenant.Namespace, err)
	}
	present := map[string]bool{peering.AccountName: true}
	for i := range slices.Items {
		present[peering.SliceAccountName(slices.Items[i].Name)] = true
	}
	return a.unbindIf(ctx, tenant, func(account string) bool { return !present[account] })
}

func (a *Issuer) unbindIf(ctx context.Context, tenant *authv1beta1.Tenant, gone func(account string) bool) error {
	list := &rbacv1.ClusterRoleBindingList{}
	labels := client.MatchingLabels{api.LabelRemoteClusterID: tenant.Spec.ClusterID, peering.LabelAccount: api.True}
	if err := a.Client.List(ctx, list, labels); err != nil {
		return fmt.Errorf("listing the bindings of the ServiceAccounts of cluster %s: %w", tenant.Spec.ClusterID, err)
	}
	for i := range list.Items {
		binding := &list.Items[i]
		if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != tenant.Namespace || !gone(binding.Subjects[0].Name) {
			continue
		}
		// Delete the role first. If that fails, the binding still exists, so the next attempt finds both. If consumers get no tokens any more, the
		// permission to delete the role is gone. The role then remains, without effect.
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: binding.Name}}
		if err := a.Client.Delete(ctx, role); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("deleting ClusterRole %s: %w", role.Name, err)
		}
		if err := kube.Delete(ctx, a.Client, binding); err != nil {
			return err
		}
	}
	return nil
}
