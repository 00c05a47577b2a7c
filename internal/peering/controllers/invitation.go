package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/enrollment"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/reasons"
)

// enrollRetry is the time until the next enrollment request after the provider did not respond: the provider may not be running yet.
const enrollRetry = 5 * time.Second

// invited returns the invitation for the enrollment of an Identity. It returns nil if the Identity already has a certificate or token, is not a
// control-plane Identity, or has no invitation in its namespace. An invitation that is not for this Identity is not used: the peer can store one at any time.
func (r *identities) invited(ctx context.Context, identity *authv1beta1.Identity) (*corev1.Secret, error) {
	if identity.Spec.Type != authv1beta1.IdentityControlPlane || peering.Granted(&identity.Spec.AuthParams) {
		return nil, nil
	}
	invitation, err := r.invitation(ctx, identity.Namespace)
	if err != nil || invitation == nil || peering.Accepts(identity, invitation) {
		return invitation, err
	}
	return nil, kube.Wait(reasons.WaitingForInvitation, "Secret %s/%s holds an invitation of cluster %s, which has to be accepted by an administrator: liqoctl peer %s",
		invitation.Namespace, invitation.Name, identity.Spec.ClusterID, identity.Spec.ClusterID)
}

// invitation returns the invitation in a namespace; nil when there is none.
func (r *identities) invitation(ctx context.Context, namespace string) (*corev1.Secret, error) {
	invitation := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: invite.Secret}, invitation)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, invite.Secret, err)
	}
	return invitation, nil
}

// checkClaims returns an error if another cluster than the provider of the Identity may be a Tenant under the ID of the provider; see peering.CheckClaim.
func (r *identities) checkClaims(ctx context.Context, identity *authv1beta1.Identity) error {
	tenants := &authv1beta1.TenantList{}
	if err := r.client.List(ctx, tenants, client.InNamespace(identity.Namespace)); err != nil {
		return fmt.Errorf("listing Tenants in namespace %s: %w", identity.Namespace, err)
	}
	for i := range tenants.Items {
		if err := peering.CheckClaim(&tenants.Items[i], identity); err != nil {
			return kube.Invalid(reasons.InvitationUnconfirmed, "%v", err)
		}
	}
	return nil
}

// introduce enrolls this cluster with the provider's authentication service and completes the Identity with what the provider grants. It
// writes all results into the Identity's spec, so that such an Identity does not differ from one that a user applied.
func (r *identities) introduce(ctx context.Context, identity *authv1beta1.Identity, invitation *corev1.Secret) error {
	admission, err := r.enroll(ctx, identity, invitation)
	if err != nil {
		return err
	}
	complete := identity.DeepCopy()
	changed, err := kube.Ensure(ctx, r.client, complete, func() error {
		complete.Spec.AuthParams, complete.Spec.Namespace = admission.AuthParams, admission.Namespace
		if !peering.InvitationOfTenant(invitation) {
			delete(complete.Annotations, peering.AnnotationAcceptedInvitation) // it was for another invitation
		}
		if admission.ProviderKey != "" {
			metav1.SetMetaDataAnnotation(&complete.ObjectMeta, peering.AnnotationProviderKey, admission.ProviderKey)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if changed {
		announce(r.events, identity, reasons.IdentityEnsured, "Introduce", "cluster %s admitted this cluster through %s",
			identity.Spec.ClusterID, invitation.Data[invite.URLKey])
	}
	return kube.Wait(reasons.WaitingForKubeconfig, "waiting for the controller manager to write the kubeconfig")
}

// enroll checks an invitation and enrolls this cluster with it. It returns what the provider grants.
func (r *identities) enroll(ctx context.Context, identity *authv1beta1.Identity, invitation *corev1.Secret) (*peering.Admission, error) {
	where := fmt.Sprintf("Secret %s/%s", invitation.Namespace, invitation.Name)
	url := string(invitation.Data[invite.URLKey])
	if err := invite.CheckURL(url); err != nil {
		return nil, kube.Invalid(reasons.InvitationInvalid, "%s, data.%s: %v", where, invite.URLKey, err)
	}
	text := string(invitation.Data[invite.TokenKey])
	token, err := invite.ParseToken(text)
	switch {
	case err != nil:
		return nil, kube.Invalid(reasons.InvitationInvalid, "%s, data.%s: %v", where, invite.TokenKey, err)
	case r.now().After(token.Expires):
		return nil, kube.Invalid(reasons.InvitationExpired, "%s: %v", where, invite.ErrTokenExpired)
	case token.Consumer != "" && token.Consumer != r.own:
		return nil, kube.Invalid(reasons.InvitationInvalid,
			"%s: the token is for cluster %s, and this is cluster %s: ask the provider for another one (liqoctl generate peer-command)",
			where, token.Consumer, r.own)
	}
	enrollRequest := &peering.EnrollRequest{NonceRequest: peering.NonceRequest{Cluster: r.own, Token: text}}
	if proxy := string(invitation.Data[invite.ProxyKey]); proxy != "" {
		if err := peering.CheckProxyURL(proxy); err != nil {
			return nil, kube.Invalid(reasons.InvitationInvalid, "%s, data.%s: it is %v", where, invite.ProxyKey, err)
		}
		enrollRequest.ProxyURL = &proxy
	}
	if back := string(invitation.Data[invite.BackURLKey]); back != "" {
		enrollRequest.Invitation = &invite.Invitation{URL: back, Token: string(invitation.Data[invite.BackTokenKey])}
		if err := enrollRequest.Invitation.Check(identity.Spec.ClusterID); err != nil {
			return nil, kube.Invalid(reasons.InvitationInvalid, "%s, data.%s and data.%s: %v", where, invite.BackURLKey, invite.BackTokenKey, err)
		}
	}
	claimed := identity.DeepCopy()
	if !peering.InvitationOfTenant(invitation) {
		delete(claimed.Annotations, peering.AnnotationAcceptedInvitation)
	}
	admission, err := r.apply(ctx, url, token, enrollRequest, claimed)
	switch {
	case kube.IsInvalid(err):
		return nil, err
	case errors.Is(err, enrollment.ErrRefused):
		return nil, kube.Invalid(reasons.InvitationRefused, "%v", err)
	case err != nil:
		return nil, kube.WaitFor(enrollRetry, reasons.ProviderUnreachable, "waiting for the authentication service of cluster %s: %v", identity.Spec.ClusterID, err)
	}
	return admission, nil
}

// apply changes the identity: it is a copy. apply requests a nonce, signs it, sends the enrollRequest with the signature, and checks the provider's response.
func (r *identities) apply(ctx context.Context, url string, token invite.Token, enrollRequest *peering.EnrollRequest, identity *authv1beta1.Identity) (*peering.Admission, error) {
	provider, nonce := identity.Spec.ClusterID, &peering.Nonce{}
	if err := enrollment.Ask(ctx, url, token, peering.EnrollmentNoncePath, &enrollRequest.NonceRequest, nonce); err != nil {
		return nil, err
	}
	if nonce.Cluster != provider {
		return nil, fmt.Errorf("%w: %s is the authentication service of cluster %q, not of %s: check the cluster ID of the peer command", enrollment.ErrRefused, url, nonce.Cluster, provider)
	}
	providerKey := ""
	if len(nonce.PublicKey) > 0 {
		providerKey = peering.Fingerprint(nonce.PublicKey)
	}
	metav1.SetMetaDataAnnotation(&identity.ObjectMeta, peering.AnnotationProviderKey, providerKey)
	if err := r.checkClaims(ctx, identity); err != nil {
		return nil, err
	}
	key, err := r.keys.get(ctx)
	if err != nil {
		return nil, err
	}
	signature, err := peering.Sign(key.signer, nonce.Nonce)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", enrollment.ErrRefused, err)
	}
	request, err := peering.NewRequest(r.random, key.signer, peering.ControlPlaneSubject(r.own))
	if err != nil {
		return nil, err
	}
	admission := &peering.Admission{ProviderKey: providerKey}
	enrollRequest.PublicKey, enrollRequest.CSR, enrollRequest.Signature = key.publicPEM, request, signature
	if err := enrollment.Ask(ctx, url, token, peering.EnrollmentTenantPath, enrollRequest, admission); err != nil {
		return nil, err
	}
	if admission.Cluster != provider {
		return nil, fmt.Errorf("%w: %s is the authentication service of cluster %q, not of %s", enrollment.ErrRefused, url, admission.Cluster, provider)
	}
	if err := peering.CheckAuthParams(&admission.AuthParams); err != nil {
		return nil, fmt.Errorf("%w: the credentials in its response are invalid: %w", enrollment.ErrRefused, err)
	}
	if err := peering.CheckCredentialHolder(&admission.AuthParams, key.signer); err != nil {
		return nil, fmt.Errorf("%w: %w", enrollment.ErrRefused, err)
	}
	return admission, nil
}
