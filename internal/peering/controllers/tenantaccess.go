package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas/status,verbs=patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings;clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=liqo-remote-controlplane;liqo-virtual-kubelet-remote-clusterwide;liqo-virtual-kubelet-drained
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;renews,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=list;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=delete

// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations;gatewayservers;gatewayclients;publickeies,verbs=get;list;watch;delete

// deletions passes only the deletion of objects.
func deletions() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

// bindings returns the bindings of a Tenant: one for its control plane in the tenant namespace, one for its virtual kubelets in the whole
// cluster.
func bindings(tenant *authv1beta1.Tenant) (*rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding) {
	control := peering.ControlPlaneSubject(tenant.Spec.ClusterID)
	return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: peering.BindingName(peering.RoleControlPlane)},
			RoleRef:    clusterRole(peering.RoleControlPlane),
			// Two names of one user: the user of its certificate, and the user that its ServiceAccount impersonates.
			Subjects: append(subjects(rbacv1.UserKind, control.User), subjects(rbacv1.UserKind, peering.TokenSubject(control).User)...),
		}, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: peering.ClusterBindingName(peering.RoleVirtualKubeletClusterwide, tenant.Spec.ClusterID)},
			RoleRef:    clusterRole(peering.RoleVirtualKubeletClusterwide),
			Subjects:   subjects(rbacv1.GroupKind, peering.ResourceSliceSubject("", tenant.Spec.ClusterID).Group),
		}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func subjects(kind, name string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
}

// bind creates the bindings of the Tenant, after the quota that limits what the Tenant can create with them. The Tenant owns the binding in
// its namespace; the cluster-wide binding can have no such owner and is found by its name.
func (r *tenants) bind(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := r.limitObjects(ctx, tenant); err != nil {
		return err
	}
	local, wide := bindings(tenant)
	wantLocal, wantWide := local.DeepCopy(), wide.DeepCopy()
	if _, err := kube.Ensure(ctx, r.client, local, func() error {
		local.RoleRef, local.Subjects = wantLocal.RoleRef, wantLocal.Subjects
		label(local, tenant.Spec.ClusterID)
		return controllerutil.SetControllerReference(tenant, local, r.client.Scheme())
	}); err != nil {
		return err
	}
	_, err := kube.Ensure(ctx, r.client, wide, func() error {
		wide.RoleRef, wide.Subjects = wantWide.RoleRef, wantWide.Subjects
		label(wide, tenant.Spec.ClusterID)
		return nil
	})
	return err
}

// limitObjects maintains the quota of the tenant namespace. The quota is needed because every object there uses memory in the caches of this
// cluster and is reconciled.
func (r *tenants) limitObjects(ctx context.Context, tenant *authv1beta1.Tenant) error {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: peering.TenantQuota}}
	err := r.ensureQuota(ctx, tenant, quota)
	if apierrors.IsAlreadyExists(err) {
		return nil // it has just been created and is not in the cache yet
	}
	if err != nil {
		return err
	}
	return kube.CountQuota(ctx, r.client, quota, map[corev1.ResourceName]client.ObjectList{
		"count/resourceslices.authentication.liqo.io": &authv1beta1.ResourceSliceList{},
		"count/renews.authentication.liqo.io":         &authv1beta1.RenewList{},
		"count/namespacemaps.offloading.liqo.io":      &offloadingv1beta1.NamespaceMapList{},
		"count/networkrequests.networking.liqo.io":    &networkingv1beta1.NetworkRequestList{},
	})
}

func (r *tenants) ensureQuota(ctx context.Context, tenant *authv1beta1.Tenant, quota *corev1.ResourceQuota) error {
	_, err := kube.Ensure(ctx, r.client, quota, func() error {
		hard := corev1.ResourceList{}
		for name, count := range peering.TenantObjects() {
			hard[corev1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
		}
		if !equality.Semantic.DeepEqual(quota.Spec.Hard, hard) {
			quota.Spec.Hard = hard
		}
		label(quota, tenant.Spec.ClusterID)
		return controllerutil.SetControllerReference(tenant, quota, r.client.Scheme())
	})
	return err
}

// label marks an object as created by Liqo for a remote cluster.
func label(o client.Object, remoteClusterID string) {
	kube.AddLabels(o, map[string]string{api.LabelRemoteClusterID: remoteClusterID, peering.LabelManagedBy: peering.ManagedBy})
}

// suspend withdraws the access of a consumer and ends its pods. It reports a drain and deletes the bindings first, so that nothing new appears. Then it deletes the
// requests for resources and certificates, and the ShadowPods in the remote namespaces. It returns nil when all of these are deleted and no pod of the
// consumer is left. The remote namespaces stay, with their claims and all other objects, and so does the network: when the consumer has access again, it
// continues with the same data.
//
// The controller of NamespaceMaps binds no rights in remote namespaces while the consumer has no access. It may do so until it observes the Tenant,
// so the Tenant is reconciled whenever such a binding appears.
func (r *tenants) suspend(ctx context.Context, tenant *authv1beta1.Tenant) error {
	// The rights end also if the report fails.
	if err := errors.Join(r.reportDrain(ctx, tenant), r.unbind(ctx, tenant), r.unbindRemoteNamespaces(ctx, tenant), r.accounts.End(ctx, tenant)); err != nil {
		return err
	}
	pods, err := r.endPods(ctx, tenant)
	if err != nil {
		return err
	}
	copies, err := r.removeAllCopies(ctx, tenant, &authv1beta1.ResourceSliceList{}, &authv1beta1.RenewList{})
	if err != nil {
		return err
	}
	if copies > 0 {
		return kube.WaitFor(suspendRetry, reasons.DeletingCopies,
			"waiting for the deletion of %d objects that cluster %s replicated to namespace %s", copies, tenant.Spec.ClusterID, tenant.Namespace)
	}
	if pods > 0 {
		return kube.WaitFor(suspendRetry, reasons.EndingPods, "waiting for %d pods of cluster %s to terminate", pods, tenant.Spec.ClusterID)
	}
	return nil
}

// suspendRetry is the time after which a suspended consumer's pods are counted again. They are not watched.
const suspendRetry = time.Second

// revoke removes everything that a Tenant has: its access and its pods (see suspend), then its remote namespaces and its network. It returns nil when all of
// these are deleted. As long as that would delete data, the remote namespaces stay: the consumer has to delete the data or to unpeer, or an annotation of the
// Tenant must allow the deletion of the data.
func (r *tenants) revoke(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := r.suspend(ctx, tenant); err != nil {
		return err
	}
	namespaces, err := r.remoteNamespaces(ctx, tenant)
	if err != nil {
		return err
	}
	if err := r.keepClaims(ctx, tenant, namespaces); err != nil {
		return err
	}
	left, err := r.removeAllCopies(ctx, tenant, &offloadingv1beta1.NamespaceMapList{}, &networkingv1beta1.NetworkRequestList{})
	if err != nil {
		return err
	}
	if left > 0 {
		return kube.Wait(reasons.DeletingCopies,
			"waiting for the deletion of %d objects that cluster %s replicated to namespace %s", left, tenant.Spec.ClusterID, tenant.Namespace)
	}
	// What is left are namespaces that a NamespaceMap kept because of their claims.
	for i := range namespaces {
		stays, err := r.endNamespace(ctx, tenant, namespaces[i].Name)
		if err != nil {
			return err
		}
		if stays {
			left++
		}
	}
	if left > 0 {
		return kube.WaitFor(suspendRetry, reasons.DeletingCopies, "waiting for the deletion of %d namespaces of cluster %s", left, tenant.Spec.ClusterID)
	}
	return r.disconnect(ctx, tenant)
}

// endNamespace deletes a remote namespace of a Tenant that is being deleted, with all data in it, and reports whether the namespace is still there. It first
// reads the Tenant, the namespace and its claims again, from the API server: there may be another claim by now, or the administrator may have withdrawn the
// permission to delete data or removed the mark of the namespace. A namespace that changes before its deletion stays for this pass.
func (r *tenants) endNamespace(ctx context.Context, tenant *authv1beta1.Tenant, name string) (bool, error) {
	live, namespace := &authv1beta1.Tenant{}, &corev1.Namespace{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: name}, namespace); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	switch {
	case !inRemoteNamespace(namespace, tenant.Namespace):
		return false, nil
	case !namespace.DeletionTimestamp.IsZero():
		return true, nil
	}
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(tenant), live); err != nil {
		return true, fmt.Errorf("reading Tenant %s/%s: %w", tenant.Namespace, tenant.Name, err)
	}
	if live.UID != tenant.UID {
		return true, apierrors.NewConflict(authv1beta1.GroupVersion.WithResource("tenants").GroupResource(), tenant.Name, errors.New("the cache is outdated: it is another Tenant"))
	}
	if err := r.keepClaims(ctx, live, []corev1.Namespace{*namespace}); err != nil {
		return true, err
	}
	err := r.client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID, ResourceVersion: &namespace.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return true, nil
}

// claimsRetry is the time after which the claims that hold a Tenant are read again. They are not watched.
const claimsRetry = 10 * time.Second

// keepClaims returns a wait error while the deletion of a Tenant would delete data in its remote namespaces.
func (r *tenants) keepClaims(ctx context.Context, tenant *authv1beta1.Tenant, namespaces []corev1.Namespace) error {
	claims := &corev1.PersistentVolumeClaimList{}
	for _, namespace := range namespaces {
		list := &corev1.PersistentVolumeClaimList{}
		if err := r.reader.List(ctx, list, client.InNamespace(namespace.Name)); err != nil {
			return fmt.Errorf("listing the claims in namespace %s: %w", namespace.Name, err)
		}
		claims.Items = append(claims.Items, kube.HeldClaims(list.Items)...)
	}
	if message := peering.ClaimsKept(tenant, claims.Items); message != "" {
		return kube.WaitFor(claimsRetry, offloadingv1beta1.ReasonVolumesKept, "%s", message)
	}
	return nil
}

// remoteNamespaces returns the namespaces that were created for the consumer of a Tenant.
func (r *tenants) remoteNamespaces(ctx context.Context, tenant *authv1beta1.Tenant) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(namespace corev1.Namespace) bool { return !inRemoteNamespace(&namespace, tenant.Namespace) }), nil
}

// endPods deletes the ShadowPods of a consumer, and returns how many ShadowPods and Pods of them are left. Kubernetes deletes the Pods, which ShadowPods
// own. It removes finalizers of ShadowPods: a consumer must not be able to keep its pods with one. It reads from the API server, because an outdated
// cache could miss a ShadowPod that was created just before the access was withdrawn.
func (r *tenants) endPods(ctx context.Context, tenant *authv1beta1.Tenant) (int, error) {
	list := &corev1.NamespaceList{}
	if err := r.client.List(ctx, list); err != nil {
		return 0, fmt.Errorf("listing namespaces: %w", err)
	}
	left := 0
	for _, namespace := range list.Items {
		// The annotation also selects copies of remote namespaces: a backup tool copies ShadowPods too.
		if owner, _, _ := strings.Cut(namespace.Annotations[offloadingv1beta1.AnnotationManagedByNamespaceMap], "/"); owner != tenant.Namespace {
			continue
		}
		shadows, pods := &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
		if err := r.reader.List(ctx, shadows, client.InNamespace(namespace.Name)); err != nil {
			return 0, fmt.Errorf("listing ShadowPods in namespace %s: %w", namespace.Name, err)
		}
		if err := eachItem(shadows, func(o client.Object) error { return r.deleteFree(ctx, o) }); err != nil {
			return 0, err
		}
		if err := r.reader.List(ctx, pods, client.InNamespace(namespace.Name), client.MatchingLabels{offloadingv1beta1.LabelManagedBy: offloadingv1beta1.ManagedByShadowPod}); err != nil {
			return 0, fmt.Errorf("listing the pods of ShadowPods in namespace %s: %w", namespace.Name, err)
		}
		left += max(len(shadows.Items), len(pods.Items))
	}
	return left, nil
}

// deleteFree deletes an object and removes its finalizers.
func (r *tenants) deleteFree(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp().IsZero() {
		if err := kube.Delete(ctx, r.client, o); err != nil {
			return err
		}
	}
	if len(o.GetFinalizers()) == 0 {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	o.SetFinalizers(nil)
	return client.IgnoreNotFound(r.client.Patch(ctx, o, client.MergeFrom(before)))
}

// disconnect deletes the network objects that were created for the requests of a consumer. Kubernetes deletes objects with an owner reference to a
// request; disconnect deletes objects that have lost that reference. If this cluster has itself requested a network with the consumer, disconnect
// keeps all of them.
func (r *tenants) disconnect(ctx context.Context, tenant *authv1beta1.Tenant) error {
	requests := &networkingv1beta1.NetworkRequestList{}
	if err := r.client.List(ctx, requests, client.InNamespace(tenant.Namespace)); err != nil {
		return fmt.Errorf("listing NetworkRequests in namespace %s: %w", tenant.Namespace, err)
	}
	for i := range requests.Items {
		if !peering.IsCopy(&requests.Items[i], tenant.Spec.ClusterID) {
			return nil
		}
	}
	labels := client.MatchingLabels{api.LabelRemoteClusterID: tenant.Spec.ClusterID, networkingv1beta1.LabelNegotiated: api.True}
	for _, list := range []client.ObjectList{
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
	} {
		if err := r.client.List(ctx, list, client.InNamespace(tenant.Namespace), labels); err != nil {
			return fmt.Errorf("listing the negotiated network of cluster %s in namespace %s: %w", tenant.Spec.ClusterID, tenant.Namespace, err)
		}
		err := eachItem(list, func(o client.Object) error {
			if !o.GetDeletionTimestamp().IsZero() {
				return nil
			}
			return kube.Delete(ctx, r.client, o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unbind deletes the bindings, except those that belong to another Tenant.
func (r *tenants) unbind(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := r.unbindLocal(ctx, tenant); err != nil {
		return err
	}
	if err := r.accounts.Unbind(ctx, tenant); err != nil {
		return err
	}
	_, wide := bindings(tenant)
	if other, err := r.successor(ctx, tenant); err != nil || other {
		return err
	}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(wide), wide)
	if err == nil {
		err = kube.Delete(ctx, r.client, wide)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("unbinding %s: %w", wide.Name, err)
	}
	return nil
}

// unbindLocal deletes the binding in the tenant namespace, unless it belongs to another Tenant.
func (r *tenants) unbindLocal(ctx context.Context, tenant *authv1beta1.Tenant) error {
	local, _ := bindings(tenant)
	err := r.client.Get(ctx, client.ObjectKeyFromObject(local), local)
	if err == nil && metav1.IsControlledBy(local, tenant) {
		err = kube.Delete(ctx, r.client, local)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("unbinding %s: %w", local.Name, err)
	}
	return nil
}

// unbindRemoteNamespaces deletes the rights of the consumer in its remote namespaces. The report of a drain stays as long as the Tenant.
func (r *tenants) unbindRemoteNamespaces(ctx context.Context, tenant *authv1beta1.Tenant) error {
	return r.deleteRemoteBindings(ctx, tenant, func(binding *rbacv1.RoleBinding) bool {
		return binding.Name != offloadingv1beta1.DrainedRoleBinding || !tenant.DeletionTimestamp.IsZero()
	})
}

// endReport deletes the report of a drain that has ended.
func (r *tenants) endReport(ctx context.Context, tenant *authv1beta1.Tenant) error {
	return r.deleteRemoteBindings(ctx, tenant, func(binding *rbacv1.RoleBinding) bool { return binding.Name == offloadingv1beta1.DrainedRoleBinding })
}

// deleteRemoteBindings deletes those bindings in the consumer's remote namespaces for which end returns true.
func (r *tenants) deleteRemoteBindings(ctx context.Context, tenant *authv1beta1.Tenant, end func(*rbacv1.RoleBinding) bool) error {
	list := &rbacv1.RoleBindingList{}
	if err := r.client.List(ctx, list, client.MatchingLabels{api.LabelRemoteClusterID: tenant.Spec.ClusterID}); err != nil {
		return fmt.Errorf("listing the rights of cluster %s: %w", tenant.Spec.ClusterID, err)
	}
	for i := range list.Items {
		if binding := &list.Items[i]; inRemoteNamespace(binding, tenant.Namespace) && binding.DeletionTimestamp.IsZero() && end(binding) {
			if err := kube.Delete(ctx, r.client, binding); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportDrain creates, in each remote namespace of a drained consumer, the RoleBinding by which its virtual kubelets recognize the drain. A Tenant that is being
// deleted gets none: nothing would delete it if the namespace stays.
func (r *tenants) reportDrain(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if !tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	namespaces, err := r.remoteNamespaces(ctx, tenant)
	for _, namespace := range namespaces {
		report := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: offloadingv1beta1.DrainedRoleBinding}}
		_, failed := kube.Ensure(ctx, r.client, report, func() error {
			label(report, tenant.Spec.ClusterID)
			metav1.SetMetaDataAnnotation(&report.ObjectMeta, offloadingv1beta1.AnnotationManagedByNamespaceMap, namespace.Annotations[offloadingv1beta1.AnnotationManagedByNamespaceMap])
			report.RoleRef, report.Subjects = clusterRole(offloadingv1beta1.DrainedClusterRole), subjects(rbacv1.GroupKind, tenant.Spec.ClusterID)
			return nil
		})
		// It was created a moment ago and is not in the cache yet, or the namespace is being deleted.
		if failed != nil && !apierrors.IsAlreadyExists(failed) && !apierrors.HasStatusCause(failed, corev1.NamespaceTerminatingCause) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// inRemoteNamespace reports whether an object is a remote namespace of the consumer with the given tenant namespace, or was created in one together with it. An
// empty tenantNamespace stands for any consumer.
func inRemoteNamespace(o client.Object, tenantNamespace string) bool {
	namespace, _, made := strings.Cut(offloadingv1beta1.NamespaceMapOf(o), "/")
	return made && (tenantNamespace == "" || namespace == tenantNamespace)
}

// successor reports whether another Tenant of the same cluster uses the cluster-wide binding: one that has a certificate, or one without a
// certificate signing request, which an administrator vouches for.
func (r *tenants) successor(ctx context.Context, tenant *authv1beta1.Tenant) (bool, error) {
	list := &authv1beta1.TenantList{}
	if err := r.client.List(ctx, list); err != nil {
		return false, fmt.Errorf("listing Tenants: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != tenant.UID && other.Spec.ClusterID == tenant.Spec.ClusterID && other.DeletionTimestamp.IsZero() &&
			(other.Status.AuthParams != nil || len(other.Spec.CSR) == 0) && peering.GrantsOf(other).Access {
			return true, nil
		}
	}
	return false, nil
}

// removeAllCopies is removeCopies for several kinds.
func (r *tenants) removeAllCopies(ctx context.Context, tenant *authv1beta1.Tenant, lists ...client.ObjectList) (int, error) {
	left := 0
	for _, list := range lists {
		n, err := r.removeCopies(ctx, tenant, list)
		if err != nil {
			return 0, err
		}
		left += n
	}
	return left, nil
}

// removeCopies deletes the objects that the consumer replicated to this cluster, and returns how many there were. It keeps the finalizers on
// NamespaceMaps, which this cluster's controllers set. It removes those on other kinds: this cluster needs none there, and a consumer must
// not be able to block the deletion with one.
func (r *tenants) removeCopies(ctx context.Context, tenant *authv1beta1.Tenant, list client.ObjectList) (int, error) {
	if err := r.client.List(ctx, list, client.InNamespace(tenant.Namespace)); err != nil {
		return 0, fmt.Errorf("listing the objects that cluster %s replicated: %w", tenant.Spec.ClusterID, err)
	}
	_, keepFinalizers := list.(*offloadingv1beta1.NamespaceMapList)
	left := 0
	err := eachItem(list, func(o client.Object) error {
		if !peering.IsCopy(o, tenant.Spec.ClusterID) {
			return nil
		}
		left++
		if !keepFinalizers {
			return r.deleteFree(ctx, o)
		}
		if !o.GetDeletionTimestamp().IsZero() {
			return nil
		}
		return kube.Delete(ctx, r.client, o)
	})
	return left, err
}
