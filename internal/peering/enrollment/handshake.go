package enrollment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// +kubebuilder:rbac:groups=core,resources=namespaces,verbs=get;list;create
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants,verbs=get;list;create;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=list

// pollInterval is the interval at which a request polls for the result of the controllers.
const pollInterval = 100 * time.Millisecond

// admit checks the token of a request and records that it was used. A request that it refuses causes no changes.
func (d *Service) admit(ctx context.Context, nonceRequest *peering.NonceRequest) error {
	if problems := validation.IsDNS1123Label(nonceRequest.Cluster); len(problems) > 0 {
		return refuse(http.StatusBadRequest, fmt.Errorf("cluster %.70q is no cluster ID: %s", nonceRequest.Cluster, problems[0]))
	}
	if nonceRequest.Cluster == d.ClusterID {
		return refuse(http.StatusBadRequest, fmt.Errorf("cluster %s is this cluster itself: a cluster cannot peer with itself", d.ClusterID))
	}
	secret, token, err := d.token(ctx, nonceRequest)
	if err != nil {
		return err
	}
	// The common limit counts requests with a valid token only: clients without a token, however many, must not block a client that has
	// one.
	if !d.requestLimits.all.Allow() {
		return refuse(http.StatusTooManyRequests, errors.New("too many requests: try again in a few seconds"))
	}
	known, err := d.known(ctx, nonceRequest.Cluster)
	if err != nil {
		return err
	}
	if err := peering.CheckEntry(token, nonceRequest.Cluster, known); err != nil {
		return refuse(http.StatusForbidden, err)
	}
	return d.redeem(ctx, secret, token, nonceRequest.Cluster)
}

// token checks the token of a request. It returns the token, and the Secret with the record of used tokens.
//
// Clients without a token can send any number of requests. So it first checks the token with the key that it read a moment ago: a forged token causes no request.
func (d *Service) token(ctx context.Context, nonceRequest *peering.NonceRequest) (*corev1.Secret, invite.Token, error) {
	if key := d.key.recent(d.Now()); key != nil {
		if _, err := invite.CheckToken(key, nonceRequest.Token, nonceRequest.Cluster, d.Now()); err != nil {
			return nil, invite.Token{}, refuse(http.StatusUnauthorized, err)
		}
	}
	secret, err := EnsureSecret(ctx, &d.Options)
	if err != nil {
		return nil, invite.Token{}, err
	}
	d.key.set(secret.Data[invite.SecretKey], d.Now())
	token, err := invite.CheckToken(secret.Data[invite.SecretKey], nonceRequest.Token, nonceRequest.Cluster, d.Now())
	if err != nil {
		return nil, invite.Token{}, refuse(http.StatusUnauthorized, err)
	}
	return secret, token, nil
}

// redeem records that a token is used. It refuses a token that another cluster has used, or whose peering has ended.
func (d *Service) redeem(ctx context.Context, secret *corev1.Secret, token invite.Token, consumer string) error {
	usedTokens, err := invite.Redeem(secret.Data[invite.UsedKey], token, consumer, d.Now())
	if errors.Is(err, invite.ErrTokenTaken) || errors.Is(err, invite.ErrTokenSpent) {
		return refuse(http.StatusUnauthorized, err)
	}
	if err != nil {
		return err
	}
	// The optimistic lock lets only one of two clusters that use the same token at the same time succeed.
	if err := WriteUsedTokens(ctx, d.Client, secret, usedTokens); err != nil {
		return fmt.Errorf("recording the use of a token: %w", err)
	}
	return nil
}

// nonce serves the first request: it returns a nonce for the consumer to sign.
func (d *Service) nonce(ctx context.Context, body []byte) (any, error) {
	nonceRequest := &peering.NonceRequest{}
	if err := decode(body, nonceRequest); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, nonceRequest); err != nil {
		return nil, err
	}
	namespace, err := d.namespace(ctx, nonceRequest.Cluster)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: authv1beta1.NonceSecret, Labels: map[string]string{authv1beta1.LabelNonce: api.True, api.LabelRemoteClusterID: nonceRequest.Cluster},
	}}
	if err := d.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("requesting a nonce: %w", err)
	}
	err = d.waitUntil(ctx, secret, func() string {
		if len(secret.Data[authv1beta1.NonceKey]) == 0 {
			return fmt.Sprintf("the controller manager of %s has not created a nonce yet", d.ClusterID)
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	keys := &corev1.Secret{}
	if err := d.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: authv1beta1.KeysSecret}, keys); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the key of cluster %s: %w", d.ClusterID, err)
	}
	return &peering.Nonce{Cluster: d.ClusterID, Nonce: secret.Data[authv1beta1.NonceKey], PublicKey: keys.Data[authv1beta1.PublicKeyKey]}, nil
}

// tenant serves the second request: it returns what the consumer's Tenant is granted.
func (d *Service) tenant(ctx context.Context, body []byte) (any, error) {
	enrollRequest := &peering.EnrollRequest{}
	if err := decode(body, enrollRequest); err != nil {
		return nil, err
	}
	if err := d.admit(ctx, &enrollRequest.NonceRequest); err != nil {
		return nil, err
	}
	if back := enrollRequest.Invitation; back != nil {
		if err := back.Check(d.ClusterID); err != nil {
			return nil, refuse(http.StatusBadRequest, fmt.Errorf("the invitation of cluster %s for consumer %s: %w", enrollRequest.Cluster, d.ClusterID, err))
		}
	}
	namespace, err := d.namespace(ctx, enrollRequest.Cluster)
	if err != nil {
		return nil, err
	}
	nonce := &corev1.Secret{}
	err = d.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: authv1beta1.NonceSecret}, nonce)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the nonce of cluster %s: %w", enrollRequest.Cluster, err)
	}
	tenant, err := d.apply(ctx, namespace, enrollRequest, nonce)
	if err != nil {
		return nil, err
	}
	err = d.waitUntil(ctx, tenant, func() string {
		ready := meta.FindStatusCondition(tenant.Status.Conditions, kube.ConditionReady)
		switch {
		case ready == nil || ready.ObservedGeneration != tenant.Generation:
			return fmt.Sprintf("the controller manager of %s has not reconciled the Tenant yet", d.ClusterID)
		case ready.Status != metav1.ConditionTrue:
			return fmt.Sprintf("cluster %s reports about the Tenant: %s, %s", d.ClusterID, ready.Reason, ready.Message)
		case tenant.Status.AuthParams == nil:
			return fmt.Sprintf("cluster %s grants the Tenant nothing at present: it is drained", d.ClusterID)
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	if err := d.keep(ctx, tenant, enrollRequest.Invitation); err != nil {
		return nil, err
	}
	return &peering.Admission{Cluster: d.ClusterID, Namespace: tenant.Status.TenantNamespace, AuthParams: *tenant.Status.AuthParams}, nil
}

// keep stores the invitation that a consumer sent with its request, if any. The Tenant owns the Secret, so both are deleted together. keep never
// overwrites an invitation that an administrator of this cluster or the ForeignCluster controller created.
func (d *Service) keep(ctx context.Context, tenant *authv1beta1.Tenant, back *invite.Invitation) error {
	if back == nil {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: invite.Secret}}
	err := d.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the invitation of cluster %s: %w", tenant.Spec.ClusterID, err)
	}
	if err == nil && !peering.InvitationOfTenant(secret) {
		return nil
	}
	before := secret.DeepCopy()
	secret.Labels = map[string]string{invite.Label: api.True, api.LabelRemoteClusterID: tenant.Spec.ClusterID}
	secret.Data = back.Data()
	if err := controllerutil.SetOwnerReference(tenant, secret, d.Client.Scheme()); err != nil {
		return fmt.Errorf("storing the invitation of cluster %s: %w", tenant.Spec.ClusterID, err)
	}
	if err != nil {
		err = d.Client.Create(ctx, secret)
	} else {
		// With the optimistic lock, the patch fails if the owner of the invitation has changed since it was read.
		err = d.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return retryLater(fmt.Errorf("the invitation of cluster %s changed while the request was handled: try again", tenant.Spec.ClusterID))
	}
	if err != nil {
		return fmt.Errorf("storing the invitation of cluster %s: %w", tenant.Spec.ClusterID, err)
	}
	return nil
}

// apply creates the consumer's Tenant, or changes the existing one as the enrollRequest requires.
func (d *Service) apply(ctx context.Context, namespace string, enrollRequest *peering.EnrollRequest, nonce *corev1.Secret) (*authv1beta1.Tenant, error) {
	present, err := d.tenantOf(ctx, namespace, enrollRequest.Cluster)
	if err != nil {
		return nil, err
	}
	if present == nil {
		if err := d.stillGood(ctx, &enrollRequest.NonceRequest); err != nil {
			return nil, err
		}
	}
	spec, err := peering.Apply(enrollRequest, present, d.ClusterID, nonce.Data[authv1beta1.NonceKey])
	if errors.Is(err, peering.ErrNoNonce) {
		return nil, refuse(http.StatusConflict, errors.New("the nonce for this cluster no longer exists: request a new one"))
	}
	if err != nil {
		return nil, refuse(http.StatusForbidden, err)
	}
	if present == nil {
		tenant := &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: enrollRequest.Cluster, Labels: map[string]string{api.LabelRemoteClusterID: enrollRequest.Cluster},
			},
			Spec: *spec,
		}
		if token, err := invite.ParseToken(enrollRequest.Token); err != nil || token.Consumer == "" {
			tenant.Annotations = map[string]string{peering.AnnotationClaimedID: api.True}
		}
		if err := d.Client.Create(ctx, tenant); err != nil {
			return nil, fmt.Errorf("creating the Tenant of cluster %s: %w", enrollRequest.Cluster, err)
		}
		return tenant, d.spend(ctx, tenant, nonce)
	}
	before := present.DeepCopy()
	present.Spec = *spec
	if token, err := invite.ParseToken(enrollRequest.Token); err == nil && token.Consumer == enrollRequest.Cluster {
		delete(present.Annotations, peering.AnnotationClaimedID) // the administrator made this token for this cluster
	}
	if err := d.Client.Patch(ctx, present, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("changing the Tenant of cluster %s: %w", enrollRequest.Cluster, err)
	}
	return present, nil
}

// stillGood checks a token again, after the list of Tenants was read. The controller of Tenants marks the tokens of a consumer as spent
// before the consumer's Tenant disappears. This check therefore sees the mark if the Tenant was deleted after admit had checked the token.
func (d *Service) stillGood(ctx context.Context, nonceRequest *peering.NonceRequest) error {
	secret, token, err := d.token(ctx, nonceRequest)
	if err != nil {
		return err
	}
	return d.redeem(ctx, secret, token, nonceRequest.Cluster)
}

// spend makes the Tenant an owner of the nonce that admitted it. The nonce is deleted with the Tenant, and the next Tenant must sign
// another one.
func (d *Service) spend(ctx context.Context, tenant *authv1beta1.Tenant, nonce *corev1.Secret) error {
	before := nonce.DeepCopy()
	if err := controllerutil.SetOwnerReference(tenant, nonce, d.Client.Scheme()); err != nil {
		return fmt.Errorf("adding the Tenant of cluster %s as an owner of its nonce: %w", tenant.Spec.ClusterID, err)
	}
	if err := d.Client.Patch(ctx, nonce, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("adding the Tenant of cluster %s as an owner of its nonce: %w", tenant.Spec.ClusterID, err)
	}
	return nil
}

// known returns the facts that this cluster has about the enrolling cluster; nil when there is no tenant namespace for it. It returns an error while
// an earlier peering of that cluster ends: the end of that peering would invalidate the token that admit is about to record.
func (d *Service) known(ctx context.Context, consumer string) (*peering.Known, error) {
	namespace, err := d.tenantNamespace(ctx, consumer)
	if namespace == nil || err != nil {
		return nil, err
	}
	tenant, err := d.tenantOf(ctx, namespace.Name, consumer)
	if err != nil {
		return nil, err
	}
	identities := &authv1beta1.IdentityList{}
	if err := d.Reader.List(ctx, identities, client.InNamespace(namespace.Name), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("listing Identities in namespace %s: %w", namespace.Name, err)
	}
	return &peering.Known{
		Namespace: namespace.Name, Enrolled: namespace.Labels[peering.LabelEnrolled] == api.True, Tenant: tenant != nil, Provider: len(identities.Items) > 0,
	}, nil
}

// tenantNamespace returns the tenant namespace of a consumer; nil when there is none. It refuses several, as liqoctl does: only the
// administrator knows which one is meant. While one is being deleted, the client has to retry later.
func (d *Service) tenantNamespace(ctx context.Context, consumer string) (*corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := d.Reader.List(ctx, list, client.MatchingLabels{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: consumer}); err != nil {
		return nil, fmt.Errorf("finding the tenant namespace of cluster %s: %w", consumer, err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			return nil, retryLater(fmt.Errorf("the namespace that cluster %s had in %s is being deleted", consumer, d.ClusterID))
		}
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	}
	return nil, refuse(http.StatusConflict, fmt.Errorf("namespaces %s and %s of cluster %s are both labelled %s=%s: "+
		"its administrator removes the label from the one that is not the tenant namespace",
		list.Items[0].Name, list.Items[1].Name, d.ClusterID, api.LabelRemoteClusterID, consumer))
}

// tenantOf returns the Tenant of a consumer in its tenant namespace; nil when there is none. While it is being deleted, the client has to
// retry later.
func (d *Service) tenantOf(ctx context.Context, namespace, consumer string) (*authv1beta1.Tenant, error) {
	tenant, err := oldestTenant(ctx, d.Reader, consumer, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	if tenant != nil && tenant.DeletionTimestamp != nil {
		return nil, retryLater(fmt.Errorf("the Tenant that cluster %s had in %s is being deleted", consumer, d.ClusterID))
	}
	return tenant, nil
}

// oldestTenant returns the oldest Tenant of a consumer; nil when there is none. The controller of Tenants refuses the others.
func oldestTenant(ctx context.Context, reader client.Reader, consumer string, opts ...client.ListOption) (*authv1beta1.Tenant, error) {
	list := &authv1beta1.TenantList{}
	if err := reader.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing the Tenants of cluster %s: %w", consumer, err)
	}
	var first *authv1beta1.Tenant
	for i := range list.Items {
		if tenant := &list.Items[i]; tenant.Spec.ClusterID == consumer && (first == nil || api.CompareAge(tenant, first) < 0) {
			first = tenant
		}
	}
	return first, nil
}

// namespace returns the name of the consumer's tenant namespace, and creates the namespace if there is none.
func (d *Service) namespace(ctx context.Context, consumer string) (string, error) {
	found, err := d.tenantNamespace(ctx, consumer)
	if err != nil {
		return "", err
	}
	if found != nil {
		return found.Name, nil
	}
	labels := map[string]string{
		api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: consumer, api.LabelManaged: api.True, peering.LabelEnrolled: api.True,
	}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged" // virtual kubelets and gateways run in it
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(consumer), Labels: labels}}
	err = d.Client.Create(ctx, namespace)
	if apierrors.IsAlreadyExists(err) {
		return "", retryLater(fmt.Errorf("namespace %s exists in %s without the label of a tenant namespace of cluster %s: its administrator has to give it that label, or delete it if it is not in use", namespace.Name, d.ClusterID, consumer))
	}
	if err != nil {
		return "", fmt.Errorf("creating the tenant namespace of cluster %s: %w", consumer, err)
	}
	return namespace.Name, nil
}

// waitUntil reads an object repeatedly until why returns "". After Patience it returns the reason as an error that makes the client retry.
func (d *Service) waitUntil(ctx context.Context, object client.Object, why func() string) error {
	key := client.ObjectKeyFromObject(object)
	deadline := time.After(d.Patience)
	for {
		if err := d.Reader.Get(ctx, key, object); err != nil {
			return fmt.Errorf("reading %T %s: %w", object, key, err)
		}
		missing := why()
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return retryLater(errors.New(missing))
		case <-time.After(pollInterval):
		}
	}
}
