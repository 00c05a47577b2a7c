package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"filippo.io/age"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// The chart has the other permissions, for tokens and impersonation, because it grants them only where consumers get tokens.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete

// accounts creates ServiceAccounts for consumers and issues tokens for them, in a cluster that signs no certificates for users.
//
// A ServiceAccount has one permission: to impersonate the user, and the group if there is one, that peering.TokenSubject returns. So bindings,
// policies, quotas and webhooks treat a consumer with a token like a consumer with a certificate. The ServiceAccount belongs to the Tenant or the
// ResourceSlice and is deleted with it. It is also deleted when the consumer gets another key, or a certificate instead of the token. Its tokens are
// invalid once it is deleted.
type accounts struct {
	client client.Client
	reader client.Reader
	now    func() time.Time
	tokens Tokens
}

func (a *accounts) enabled() bool { return a != nil && a.tokens.Enabled }

// shortestToken is the shortest token lifetime that Kubernetes accepts.
const shortestToken = 10 * time.Minute

// token returns the current token of a credential request if it is still valid, or else a new one.
func (a *accounts) token(ctx context.Context, o credentialRequest) (*authv1beta1.SealedToken, error) {
	account, err := a.account(ctx, o)
	if err != nil {
		return nil, err
	}
	valid := func(present *authv1beta1.AuthParams) bool {
		return present != nil && present.Token != nil && present.Token.ServiceAccountUID == account.UID &&
			peering.CheckCredential(present, o.request, o.subject, a.now()) == nil
	}
	if valid(o.present) {
		return o.present.Token, nil
	}
	// o.present comes from the cache. If the cache does not have the token yet that the previous reconciliation issued, a second token would replace it.
	latest, err := a.latest(ctx, o.owner)
	if err != nil {
		return nil, err
	}
	if valid(latest) {
		return latest.Token, nil
	}
	seconds := int64(max(a.tokens.Life, shortestToken) / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := a.client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	sealed, err := seal(request.Status.Token, o.request)
	if err != nil {
		return nil, fmt.Errorf("sealing a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	holder, err := peering.Holder(o.request)
	if err != nil {
		return nil, err
	}
	as, now := peering.TokenSubject(o.subject), metav1.NewTime(a.now().Truncate(time.Second))
	// The API server may shorten the requested lifetime, and issues no token for less than ten minutes. If the configured lifetime is shorter than
	// that, ExpiresAt is the time at which the consumer stops using the token.
	expires := metav1.NewTime(now.Add(a.tokens.Life))
	if request.Status.ExpirationTimestamp.Before(&expires) {
		expires = request.Status.ExpirationTimestamp
	}
	return &authv1beta1.SealedToken{
		Sealed: sealed, User: as.User, Group: as.Group, Holder: holder, ServiceAccountUID: account.UID, IssuedAt: now, ExpiresAt: expires,
	}, nil
}

// latest returns the AuthParams in the status of a Tenant, ResourceSlice or Renew, read from the API server.
func (a *accounts) latest(ctx context.Context, owner client.Object) (*authv1beta1.AuthParams, error) {
	var found client.Object
	var params **authv1beta1.AuthParams
	switch owner.(type) {
	case *authv1beta1.Tenant:
		tenant := &authv1beta1.Tenant{}
		found, params = tenant, &tenant.Status.AuthParams
	case *authv1beta1.ResourceSlice:
		slice := &authv1beta1.ResourceSlice{}
		found, params = slice, &slice.Status.AuthParams
	case *authv1beta1.Renew:
		renew := &authv1beta1.Renew{}
		found, params = renew, &renew.Status.AuthParams
	default:
		return nil, fmt.Errorf("%T has no credential in its status", owner)
	}
	if err := a.reader.Get(ctx, client.ObjectKeyFromObject(owner), found); err != nil {
		return nil, fmt.Errorf("reading the credential in the status of %T %s/%s: %w", owner, owner.GetNamespace(), owner.GetName(), err)
	}
	return *params, nil
}

// seal encrypts a token for the key in a PEM certificate request.
func seal(token string, request []byte) ([]byte, error) {
	recipient, err := peering.Recipient(request)
	if err != nil {
		return nil, err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipient)
	if err != nil {
		return nil, err
	}
	_, err = w.Write([]byte(token))
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return sealed.Bytes(), nil
}

// account creates or updates the ServiceAccount of a credential request and its permission to impersonate only the user in that request.
func (a *accounts) account(ctx context.Context, o credentialRequest) (*corev1.ServiceAccount, error) {
	gvk, err := apiutil.GVKForObject(o.account, a.client.Scheme())
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: o.account.GetNamespace(), Name: peering.AccountName}}
	if gvk.Kind != "Tenant" {
		account.Name = peering.SliceAccountName(o.account.GetName())
	}
	mark := func(obj client.Object) {
		label(obj, o.consumer)
		obj.GetLabels()[peering.LabelAccount] = api.True
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[peering.AnnotationRequestedFor] = gvk.Kind + "/" + o.account.GetNamespace() + "/" + o.account.GetName()
		obj.SetAnnotations(annotations)
	}
	holder, err := peering.Holder(o.request)
	if err != nil {
		return nil, err
	}
	accounts, err := a.current(ctx, account, o, holder)
	if err != nil {
		return nil, err
	}
	if _, err := kube.Ensure(ctx, accounts, account, func() error {
		if !account.DeletionTimestamp.IsZero() { // a finalizer delays the deletion, and a new token would become invalid with it
			return kube.Wait(reasons.WaitingForDeletion, "waiting for the deletion of ServiceAccount %s/%s", account.Namespace, account.Name)
		}
		mark(account)
		account.Annotations[peering.AnnotationHolder] = holder
		delete(account.Annotations, peering.AnnotationReplaced)
		delete(account.Annotations, peering.AnnotationUnusedSince)
		account.AutomountServiceAccountToken = new(false)
		return controllerutil.SetControllerReference(o.account, account, a.client.Scheme())
	}); err != nil {
		return nil, err
	}
	as := peering.TokenSubject(o.subject)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{as.User}}}
	if as.Group != "" {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{as.Group}})
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: peering.AccountRoleName(account.Namespace, account.Name)}}
	if _, err := kube.Ensure(ctx, kube.Uncached{Client: a.client, Reader: a.reader}, role, func() error {
		mark(role)
		role.Rules = rules
		return nil
	}); err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
	_, err = kube.Ensure(ctx, a.client, binding, func() error {
		mark(binding)
		binding.RoleRef = clusterRole(role.Name)
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
		return nil
	})
	return account, err
}

// current returns a client for the ServiceAccount of a credential request. current first deletes the ServiceAccount in two cases, so that its tokens
// become invalid. The tokens were sealed for another key, or for an unknown key. Or the ServiceAccount belongs to an earlier Tenant or ResourceSlice of
// the same name, and the garbage collector has not deleted it: SetControllerReference compares the names of owners only, and would adopt it. The client
// reads from the API server then, because the cache may still have the ServiceAccount.
func (a *accounts) current(ctx context.Context, account *corev1.ServiceAccount, o credentialRequest, holder string) (client.Client, error) {
	found := &corev1.ServiceAccount{}
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(account), found); err != nil {
		return a.client, client.IgnoreNotFound(err)
	}
	if !found.DeletionTimestamp.IsZero() || metav1.IsControlledBy(found, o.account) && holderOf(found, o.present) == holder {
		return a.client, nil
	}
	return kube.Uncached{Client: a.client, Reader: a.reader}, a.revoke(ctx, found)
}

// holderOf returns the fingerprint of the key for which the tokens of a ServiceAccount were sealed, empty if it is unknown. Earlier releases recorded
// it only with the token in the status of the Tenant or ResourceSlice.
func holderOf(account *corev1.ServiceAccount, status *authv1beta1.AuthParams) string {
	if holder := account.Annotations[peering.AnnotationHolder]; holder != "" {
		return holder
	}
	if status != nil && status.Token != nil && status.Token.ServiceAccountUID == account.UID {
		return status.Token.Holder
	}
	return ""
}

// revoke deletes a ServiceAccount of a consumer. Kubernetes then rejects all its tokens.
func (a *accounts) revoke(ctx context.Context, account *corev1.ServiceAccount) error {
	if err := kube.Delete(ctx, a.client, account); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleted a ServiceAccount, and so revoked its tokens", "namespace", account.Namespace, "name", account.Name)
	return nil
}

// end deletes the ServiceAccounts of a Tenant that is being deleted, and of its ResourceSlices. The garbage collector would leave those that
// "kubectl delete --cascade=orphan" detached from their owners. A drained Tenant keeps its ServiceAccounts.
func (a *accounts) end(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	list := &corev1.ServiceAccountList{}
	if err := a.client.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
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

// supersede records when this cluster first offered the consumer's control plane a certificate in place of its token.
func (a *accounts) supersede(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.AccountName}}
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(account), account); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !account.DeletionTimestamp.IsZero() {
		return nil
	}
	return a.record(ctx, account, func() {
		now := a.now()
		offered := recorded(account, peering.AnnotationReplaced, now)
		if offered.IsZero() {
			offered = now
		}
		setTime(account, peering.AnnotationReplaced, offered)
	})
}

// retire deletes ServiceAccounts that are no longer needed because this cluster now issues certificates. A virtual kubelet reads its certificate from
// the status of its ResourceSlice. The control plane needs its token until it has read its certificate from a Renew.
//
// retire also deletes ServiceAccounts whose tokens were sealed for another key than the Tenant's. These are accounts of ResourceSlices that do not
// have the new key yet. With authzPolicy TolerateNoHandshake, ResourceSlices may have keys of their own. The caller must pass an up-to-date Tenant
// with a verified key. With an outdated key, retire would delete the ServiceAccount for the current key.
func (a *accounts) retire(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if len(tenant.Spec.CSR) == 0 { // without a key in the Tenant, ResourceSlices may have any key
		return a.retireNamed(ctx, tenant, peering.AccountName, false)
	}
	holder, err := peering.Holder(tenant.Spec.CSR)
	if err != nil {
		return err
	}
	list, slices, renews := &corev1.ServiceAccountList{}, &authv1beta1.ResourceSliceList{}, &authv1beta1.RenewList{}
	if err := a.client.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
		return fmt.Errorf("listing ServiceAccounts in namespace %s: %w", tenant.Namespace, err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	if err := errors.Join(a.client.List(ctx, slices, client.InNamespace(tenant.Namespace)), a.client.List(ctx, renews, client.InNamespace(tenant.Namespace))); err != nil {
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
		certified := len(signed(statuses[account.Name])) > 0
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
// create a Renew. So a Renew counts only if this cluster would answer it. An attacker can copy a valid certificate request too, so revokeTime limits
// the delay.
func stillAsks(renew *authv1beta1.Renew, tenant *authv1beta1.Tenant) bool {
	if !peering.IsCopy(renew, tenant.Spec.ClusterID) || !renew.DeletionTimestamp.IsZero() {
		return false
	}
	_, err := peering.CheckRenew(renew, tenant, nil) // nil, because the Renew is for the control plane and not for a ResourceSlice
	return err == nil
}

// retireOf deletes the ServiceAccount of a ResourceSlice that has a certificate instead.
func (a *accounts) retireOf(ctx context.Context, tenant *authv1beta1.Tenant, slice *authv1beta1.ResourceSlice) error {
	return a.retireNamed(ctx, tenant, peering.SliceAccountName(slice.Name), len(signed(slice.Status.AuthParams)) > 0)
}

func (a *accounts) retireNamed(ctx context.Context, tenant *authv1beta1.Tenant, name string, unused bool) error {
	account := &corev1.ServiceAccount{}
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: tenant.Namespace, Name: name}, account); err != nil {
		return client.IgnoreNotFound(err)
	}
	return a.handOver(ctx, tenant, account, unused)
}

const (
	// handOverTime is the delay between the issue of the certificate and the deletion of the ServiceAccount. The consumer's control plane may be
	// restarting. If a user deletes its Renew before it has read the certificate, it creates the Renew again.
	handOverTime = 10 * time.Minute
	// revokeTime is the maximum delay between the first offer of a certificate and the deletion of a control plane's ServiceAccount. It applies even
	// while a Renew exists: otherwise a thief of the token could keep it valid by creating Renews. A message informs consumers that did not read the
	// certificate in that time to run liqoctl authenticate.
	revokeTime = time.Hour
)

// handOver deletes a ServiceAccount that a certificate replaced handOverTime ago, or whose consumer was first offered a certificate revokeTime ago.
// While this cluster issues tokens, handOver deletes none, and removes the times that it recorded before.
func (a *accounts) handOver(ctx context.Context, tenant *authv1beta1.Tenant, account *corev1.ServiceAccount, unused bool) error {
	if account.Labels[peering.LabelAccount] != api.True || !account.DeletionTimestamp.IsZero() {
		return nil
	}
	now := a.now()
	decide := func(account *corev1.ServiceAccount) (offered, since time.Time) {
		offered, since = recorded(account, peering.AnnotationReplaced, now), recorded(account, peering.AnnotationUnusedSince, now)
		switch {
		case a.enabled():
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
		end = since.Add(handOverTime)
	}
	if last := offered.Add(revokeTime); !offered.IsZero() && (end.IsZero() || last.Before(end)) {
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
func (a *accounts) record(ctx context.Context, account *corev1.ServiceAccount, decide func()) error {
	before := maps.Clone(account.Annotations)
	if decide(); maps.Equal(before, account.Annotations) {
		return nil
	}
	_, err := kube.Ensure(ctx, kube.Uncached{Client: a.client, Reader: a.reader}, account, func() error {
		decide()
		return nil
	})
	return err
}

// retiring wraps a reconciler. It requeues an object when a ServiceAccount in its namespace is due for deletion.
func (a *accounts) retiring(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, req)
		if err != nil {
			return result, err
		}
		list := &corev1.ServiceAccountList{}
		if err := a.client.List(ctx, list, client.InNamespace(req.Namespace), client.MatchingLabels{peering.LabelAccount: api.True}); err != nil {
			return result, fmt.Errorf("listing ServiceAccounts in namespace %s: %w", req.Namespace, err)
		}
		now := a.now()
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

// unbind deletes the permission of all ServiceAccounts of a Tenant to impersonate their users.
func (a *accounts) unbind(ctx context.Context, tenant *authv1beta1.Tenant) error {
	return a.unbindIf(ctx, tenant, func(string) bool { return true })
}

// tidy deletes the bindings of ServiceAccounts of ResourceSlices that no longer exist. Kubernetes garbage-collects the ServiceAccounts, but a
// cluster-scoped object cannot have a namespaced owner.
func (a *accounts) tidy(ctx context.Context, tenant *authv1beta1.Tenant) error {
	slices := &authv1beta1.ResourceSliceList{}
	if err := a.client.List(ctx, slices, client.InNamespace(tenant.Namespace)); err != nil {
		return fmt.Errorf("listing ResourceSlices in namespace %s: %w", tenant.Namespace, err)
	}
	present := map[string]bool{peering.AccountName: true}
	for i := range slices.Items {
		present[peering.SliceAccountName(slices.Items[i].Name)] = true
	}
	return a.unbindIf(ctx, tenant, func(account string) bool { return !present[account] })
}

func (a *accounts) unbindIf(ctx context.Context, tenant *authv1beta1.Tenant, gone func(account string) bool) error {
	list := &rbacv1.ClusterRoleBindingList{}
	labels := client.MatchingLabels{api.LabelRemoteClusterID: tenant.Spec.ClusterID, peering.LabelAccount: api.True}
	if err := a.client.List(ctx, list, labels); err != nil {
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
		if err := a.client.Delete(ctx, role); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("deleting ClusterRole %s: %w", role.Name, err)
		}
		if err := kube.Delete(ctx, a.client, binding); err != nil {
			return err
		}
	}
	return nil
}
