package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// revoke deletes a ServiceAccount of a consumer. Kubernetes then rejects all its tokens.
func (a *Issuer) revoke(ctx context.Context, account *corev1.ServiceAccount) error {
	if err := kube.Delete(ctx, a.Client, account); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a ServiceAccount, and so revoked its tokens", "namespace", account.Namespace, "name", account.Name)
	return nil
}

// End deletes the ServiceAccounts of a Tenant that is being deleted, and of its ResourceSlices. The garbage collector would leave those that
// "kubectl delete --cascade=orphan" detached from their owners. A drained Tenant keeps its ServiceAccounts.
func (a *Issuer) End(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	list := &corev1.ServiceAccountList{}
	if err := a.Client.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
		return fmt.Errorf("listing ServiceAccounts in namespace %s: %w", tenant.Namespace, err)
	}
	var failed error
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			failed = errors.Join(failed, a.revoke(ctx, &list.Items[i]))
		}
	}
	return failed
}

// Supersede records when this cluster first offered the consumer's control plane a certificate in place of its token.
func (a *Issuer) Supersede(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.AccountName}}
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(account), account); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !account.DeletionTimestamp.IsZero() {
		return nil
	}
	return a.record(ctx, account, func() {
		now := a.Now()
		offered := recorded(account, peering.AnnotationReplaced, now)
		if offered.IsZero() {
			offered = now
		}
		setTime(account, peering.AnnotationReplaced, offered)
	})
}

// Retire deletes ServiceAccounts that are no longer needed because this cluster now issues certificates. A virtual kubelet reads its certificate from
// the status of its ResourceSlice. The control plane needs its token until it has read its certificate from a Renew.
//
// Retire also deletes ServiceAccounts whose tokens were sealed for another key than the Tenant's. These are accounts of ResourceSlices that do not
// have the new key yet. With authzPolicy TolerateNoHandshake, ResourceSlices may have keys of their own. The caller must pass an up-to-date Tenant
// with a verified key. With an outdated key, retire would delete the ServiceAccount for the current key.
func (a *Issuer) Retire(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if len(tenant.Spec.CSR) == 0 { // without a key in the Tenant, ResourceSlices may have any key
		return a.retireNamed(ctx, tenant, peering.AccountName, false)
	}
	holder, err := peering.Holder(tenant.Spec.CSR)
	if err != nil {
		return err
	}
	list, slices, renews := &corev1.ServiceAccountList{}, &authv1beta1.ResourceSliceList{}, &authv1beta1.RenewList{}
	if err := a.Client.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
		return fmt.Errorf("listing ServiceAccounts in namespace %s: %w", tenant.Namespace, err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	if err := errors.Join(a.Client.List(ctx, slices, client.InNamespace(tenant.Namespace)), a.Client.List(ctx, renews, client.InNamespace(tenant.Namespace))); err != nil {
		return fmt.Errorf("listing ResourceSlices and Renews in namespace %s: %w", tenant.Namespace, err)
	}
	statuses := map[string]*authv1beta1.AuthParams{peering.AccountName: tenant.Status.AuthParams}
	for i := range slices.Items {
		statuses[peering.SliceAccountName(slices.Items[i].Name)] = slices.Items[i].Status.AuthParams
	}
	asks := false
	for i := range renews.Items {
		asks = asks || stillAsks(&renews.Items[i], tenant)
	}
	for i := range list.Items {
		account, controlPlane := &list.Items[i], list.Items[i].Name == peering.AccountName
		certified := len(peering.CertificateIn(statuses[account.Name])) > 0
		before := holderOf(account, statuses[account.Name])
		unknown := before == "" && certified // the status has a certificate instead of the token, but the consumer may still need the token
		if before != holder && !unknown && account.DeletionTimestamp.IsZero() && (controlPlane || tenant.Spec.AuthzPolicy != authv1beta1.TolerateNoHandshake) {
			if err := a.revoke(ctx, account); err != nil {
				return err
			}
			continue
		}
		if err := a.handOver(ctx, tenant, account, certified && (!controlPlane || account.Annotations[peering.AnnotationReplaced] != "" && !asks)); err != nil {
			return err
		}
	}
	return nil
}

// stillAsks reports whether a Renew shows that the consumer's control plane has not read its certificate yet. Anyone with a copy of its token can
// create a Renew. So a Renew counts only if this cluster would answer it. An attacker can copy a valid certificate request too, so RevokeTime limits
// the delay.
func stillAsks(renew *authv1beta1.Renew, tenant *authv1beta1.Tenant) bool {
	if !peering.IsCopy(renew, tenant.Spec.ClusterID) || !renew.DeletionTimestamp.IsZero() {
		return false
	}
	_, err := peering.CheckRenew(renew, tenant, nil) // nil, because the Renew is for the control plane and not for a ResourceSlice
	return err == nil
}

// RetireOf deletes the ServiceAccount of a ResourceSlice that has a certificate instead.
func (a *Issuer) RetireOf(ctx context.Context, tenant *authv1beta1.Tenant, slice *authv1beta1.ResourceSlice) error {
	return a.retireNamed(ctx, tenant, peering.SliceAccountName(slice.Name), len(peering.CertificateIn(slice.Status.AuthParams)) > 0)
}

func (a *Issuer) retireNamed(ctx context.Context, tenant *authv1beta1.Tenant, name string, unused bool) error {
	account := &corev1.ServiceAccount{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: name}, account); err != nil {
		return client.IgnoreNotFound(err)
	}
	return a.handOver(ctx, tenant, account, unused)
}

// overdue is the interval at which objects are reconciled while the deletion of their ServiceAccount is overdue.
const overdue = time.Minute

// The delays of the deletion of a ServiceAccount that a certificate replaces.
const (
	// HandOverTime is the delay between the issue of the certificate and the deletion of the ServiceAccount. The consumer's control plane may be
	// restarting. If a user deletes its Renew before it has read the certificate, it creates the Renew again.
	HandOverTime = 10 * time.Minute
	// RevokeTime is the maximum delay between the first offer of a certificate and the deletion of a control plane's ServiceAccount. It applies even
	// while a Renew exists: otherwise a thief of the token could keep it valid by creating Renews. A message informs consumers that did not read the
	// certificate in that time to run liqoctl authenticate.
	RevokeTime = time.Hour
)

// handOver deletes a ServiceAccount that a certificate replaced HandOverTime ago, or whose consumer was first offered a certificate RevokeTime ago.
// While this cluster issues tokens, handOver deletes none, and removes the times that it recorded before.
func (a *Issuer) handOver(ctx context.Context, tenant *authv1beta1.Tenant, account *corev1.ServiceAccount, unused bool) error {
	if account.Labels[peering.LabelAccount] != api.True || !account.DeletionTimestamp.IsZero() {
		return nil
	}
	now := a.Now()
	decide := func(account *corev1.ServiceAccount) (offered, since time.Time) {
		offered, since = recorded(account, peering.AnnotationReplaced, now), recorded(account, peering.AnnotationUnusedSince, now)
		switch {
		case a.Enabled():
			offered, since = time.Time{}, time.Time{}
		case !unused:
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		setTime(account, peering.AnnotationReplaced, offered)
		setTime(account, peering.AnnotationUnusedSince, since)
		return offered, since
	}
	if end, ends := endOf(decide(account.DeepCopy())); ends && !now.Before(end) {
		// Delete the permissions first. If that fails, the ServiceAccount still exists, so the next attempt deletes both.
		if err := a.unbindIf(ctx, tenant, func(name string) bool { return name == account.Name }); err != nil {
			return err
		}
		return a.revoke(ctx, account)
	}
	return a.record(ctx, account, func() { decide(account) })
}

// endOf returns the time when a ServiceAccount must be deleted. It returns false if the ServiceAccount is kept.
func endOf(offered, since time.Time) (end time.Time, ends bool) {
	if !since.IsZero() {
		end = since.Add(HandOverTime)
	}
	if last := offered.Add(RevokeTime); !offered.IsZero() && (end.IsZero() || last.Before(end)) {
		end = last
	}
	return end, !end.IsZero()
}

// recorded returns the time in an annotation of a ServiceAccount, zero if there is none. It returns the current time if the text is not a time
// (earlier releases wrote "true"), or if the time is in the future (a clock was or is wrong). So an invalid time delays the deletion no longer than a
// time that is recorded now.
func recorded(account *corev1.ServiceAccount, annotation string, now time.Time) time.Time {
	text := account.Annotations[annotation]
	if text == "" {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && !at.After(now) {
		return at
	}
	return now
}

// setTime writes a time to an annotation of a ServiceAccount. If the time is zero, it deletes the annotation.
func setTime(account *corev1.ServiceAccount, annotation string, at time.Time) {
	if at.IsZero() {
		delete(account.Annotations, annotation)
		return
	}
	metav1.SetMetaDataAnnotation(&account.ObjectMeta, annotation, at.UTC().Format(time.RFC3339))
}

// record stores the annotations that decide sets on a ServiceAccount. It calls decide with the ServiceAccount from the API server, because another
// controller may just have recorded a time that is not in the cache yet. A later time must not replace it.
func (a *Issuer) record(ctx context.Context, account *corev1.ServiceAccount, decide func()) error {
	before := maps.Clone(account.Annotations)
	if decide(); maps.Equal(before, account.Annotations) {
		return nil
	}
	_, err := kube.Ensure(ctx, kube.Uncached{Client: a.Client, Reader: a.Reader}, account, func() error {
		decide()
		return nil
	})
	return err
}

// Retiring wraps a reconciler. It requeues an object when a ServiceAccount in its namespace is due for deletion.
func (a *Issuer) Retiring(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, req)
		if err != nil {
			return result, err
		}
		list := &corev1.ServiceAccountList{}
		if err := a.Client.List(ctx, list, client.InNamespace(req.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
			return result, fmt.Errorf("listing ServiceAccounts in namespace %s: %w", req.Namespace, err)
		}
		now := a.Now()
		for i := range list.Items {
			end, ends := endOf(recorded(&list.Items[i], peering.AnnotationReplaced, now), recorded(&list.Items[i], peering.AnnotationUnusedSince, now))
			left := end.Sub(now)
			if left <= 0 {
				left = overdue // a finalizer delays the deletion, or its Tenant has no access
			}
			if ends && (result.RequeueAfter == 0 || left < result.RequeueAfter) {
				result.RequeueAfter = left
			}
		}
		return result, nil
	})
}
