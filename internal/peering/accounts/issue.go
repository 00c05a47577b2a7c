// Package accounts issues tokens of ServiceAccounts to the consumers of a cluster that signs no certificates for users, and ends these tokens.
package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
)

// The chart has the other permissions, for tokens and impersonation, because it grants them only where consumers get tokens.
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete

// Issuer creates ServiceAccounts for consumers and issues tokens for them, in a cluster that signs no certificates for users.
//
// A ServiceAccount has one permission: to impersonate the user, and the group if there is one, that peering.TokenSubject returns. So bindings,
// policies, quotas and webhooks treat a consumer with a token like a consumer with a certificate. The ServiceAccount belongs to the Tenant or the
// ResourceSlice and is deleted with it. It is also deleted when the consumer gets another key, or a certificate instead of the token. Its tokens are
// invalid once it is deleted.
type Issuer struct {
	Client client.Client
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	Now    func() time.Time
	Tokens Tokens
}

// Tokens configures the tokens of consumers.
type Tokens struct {
	// Enabled means that consumers get tokens of ServiceAccounts, because this cluster signs no certificates for users.
	Enabled bool
	// Life is the lifetime of a token.
	Life time.Duration
}

// Request is a request for one certificate or token.
type Request struct {
	// Owner is the object that the certificate is for. It also owns the Secret that keeps the certificate, so that both are deleted
	// together.
	Owner client.Object
	// Consumer is the cluster ID of the holder of the key.
	Consumer string
	// Secret is the name of the Secret that keeps the certificate, in the owner's namespace.
	Secret string
	// Request is the PEM certificate request. The caller has checked it.
	Request []byte
	// Subject is the subject of the request.
	Subject peering.Subject
	// Present holds the AuthParams in the owner's status, if any.
	Present *authv1beta1.AuthParams
	// Account is the object that owns the ServiceAccount for the consumer: the Tenant or the ResourceSlice.
	Account client.Object
}

// Enabled reports whether this cluster issues tokens. A nil Issuer issues none.
func (a *Issuer) Enabled() bool { return a != nil && a.Tokens.Enabled }

// shortestToken is the shortest token lifetime that Kubernetes accepts.
const shortestToken = 10 * time.Minute

// Token returns the current token of a credential request if it is still valid, or else a new one.
func (a *Issuer) Token(ctx context.Context, o Request) (*authv1beta1.SealedToken, error) {
	account, err := a.account(ctx, o)
	if err != nil {
		return nil, err
	}
	valid := func(present *authv1beta1.AuthParams) bool {
		return present != nil && present.Token != nil && present.Token.ServiceAccountUID == account.UID &&
			peering.CheckCredential(present, o.Request, o.Subject, a.Now()) == nil
	}
	if valid(o.Present) {
		return o.Present.Token, nil
	}
	// o.Present comes from the cache. If the cache does not have the token yet that the previous reconciliation issued, a second token would replace it.
	latest, err := a.latest(ctx, o.Owner)
	if err != nil {
		return nil, err
	}
	if valid(latest) {
		return latest.Token, nil
	}
	seconds := int64(max(a.Tokens.Life, shortestToken) / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := a.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	sealed, err := seal(request.Status.Token, o.Request)
	if err != nil {
		return nil, fmt.Errorf("sealing a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	holder, err := peering.Holder(o.Request)
	if err != nil {
		return nil, err
	}
	as, now := peering.TokenSubject(o.Subject), metav1.NewTime(a.Now().Truncate(time.Second))
	// The API server may shorten the requested lifetime, and issues no token for less than ten minutes. If the configured lifetime is shorter than
	// that, ExpiresAt is the time at which the consumer stops using the token.
	expires := metav1.NewTime(now.Add(a.Tokens.Life))
	if request.Status.ExpirationTimestamp.Before(&expires) {
		expires = request.Status.ExpirationTimestamp
	}
	return &authv1beta1.SealedToken{
		Sealed: sealed, User: as.User, Group: as.Group, Holder: holder, ServiceAccountUID: account.UID, IssuedAt: now, ExpiresAt: expires,
	}, nil
}

// latest returns the AuthParams in the status of a Tenant, ResourceSlice or Renew, read from the API server.
func (a *Issuer) latest(ctx context.Context, owner client.Object) (*authv1beta1.AuthParams, error) {
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
	if err := a.Reader.Get(ctx, client.ObjectKeyFromObject(owner), found); err != nil {
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
func (a *Issuer) account(ctx context.Context, o Request) (*corev1.ServiceAccount, error) {
	gvk, err := apiutil.GVKForObject(o.Account, a.Client.Scheme())
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: o.Account.GetNamespace(), Name: peering.AccountName}}
	if gvk.Kind != "Tenant" {
		account.Name = peering.SliceAccountName(o.Account.GetName())
	}
	mark := func(obj client.Object) {
		kube.AddLabels(obj, map[string]string{api.LabelRemoteClusterID: o.Consumer, peering.LabelManagedBy: peering.ManagedBy, peering.LabelAccount: api.True})
		kube.AddAnnotations(obj, map[string]string{peering.AnnotationRequestedFor: gvk.Kind + "/" + o.Account.GetNamespace() + "/" + o.Account.GetName()})
	}
	holder, err := peering.Holder(o.Request)
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
		return controllerutil.SetControllerReference(o.Account, account, a.Client.Scheme())
	}); err != nil {
		return nil, err
	}
	as := peering.TokenSubject(o.Subject)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{as.User}}}
	if as.Group != "" {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{as.Group}})
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: peering.AccountRoleName(account.Namespace, account.Name)}}
	if _, err := kube.Ensure(ctx, kube.Uncached{Client: a.Client, Reader: a.Reader}, role, func() error {
		mark(role)
		role.Rules = rules
		return nil
	}); err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
	_, err = kube.Ensure(ctx, a.Client, binding, func() error {
		mark(binding)
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
		return nil
	})
	return account, err
}

// current returns a client for the ServiceAccount of a credential request. current first deletes the ServiceAccount in two cases, so that its tokens
// become invalid. The tokens were sealed for another key, or for an unknown key. Or the ServiceAccount belongs to an earlier Tenant or ResourceSlice of
// the same name, and the garbage collector has not deleted it: SetControllerReference compares the names of owners only, and would adopt it. The client
// reads from the API server then, because the cache may still have the ServiceAccount.
func (a *Issuer) current(ctx context.Context, account *corev1.ServiceAccount, o Request, holder string) (client.Client, error) {
	found := &corev1.ServiceAccount{}
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(account), found); err != nil {
		return a.Client, client.IgnoreNotFound(err)
	}
	if !found.DeletionTimestamp.IsZero() || metav1.IsControlledBy(found, o.Account) && holderOf(found, o.Present) == holder {
		return a.Client, nil
	}
	return kube.Uncached{Client: a.Client, Reader: a.Reader}, a.revoke(ctx, found)
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
