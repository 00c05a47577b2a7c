package controllers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/reasons"
	"liqo.io/liqo/internal/remote"
)

// reenroll enrolls this cluster again, if an annotation of the Identity asks for it, and replaces a credential that the provider does not accept any
// more. It changes the Identity only after the provider has accepted the new credential. It never deletes the Identity. kubeconfig is that of the present
// credential.
func (r *identities) reenroll(ctx context.Context, identity *authv1beta1.Identity, key pair, kubeconfig []byte) error {
	if identity.Annotations[peering.AnnotationReenroll] == "" {
		return nil
	}
	invitation, err := r.invitation(ctx, identity.Namespace)
	if err != nil || invitation == nil || !peering.WantsReenrollment(identity, invitation) {
		return err // the annotation is for another credential or another invitation
	}
	accepted, answer := r.links.try(ctx, identity, kubeconfig)
	err = peering.CheckReplaceable(&identity.Spec.AuthParams, accepted, r.now())
	switch {
	case errors.Is(err, peering.ErrCredentialWorks):
		return r.replace(ctx, identity, identity.Spec.DeepCopy())
	case errors.Is(err, peering.ErrCredentialUnknown):
		return kube.WaitFor(enrollRetry, reasons.ProviderUnreachable, "waiting for cluster %s: %v: %v", identity.Spec.ClusterID, err, short(answer))
	case err != nil:
		return kube.Invalid(reasons.InvitationRefused, "%v", err)
	}
	admission, err := r.enroll(ctx, identity, invitation)
	if err != nil {
		return err
	}
	if err := peering.CheckReplacement(&identity.Spec.AuthParams, &admission.AuthParams, r.now()); err != nil {
		return kube.Invalid(reasons.InvitationRefused, "refusing what cluster %s grants: %v", identity.Spec.ClusterID, err)
	}
	offered := identity.DeepCopy()
	offered.Spec.AuthParams, offered.Spec.Namespace = admission.AuthParams, admission.Namespace
	kubeconfig, err = peering.Kubeconfig(offered, key.privatePEM)
	if err != nil {
		return kube.Invalid(reasons.InvitationRefused, "refusing what cluster %s grants: %v", identity.Spec.ClusterID, err)
	}
	if accepted, answer = r.links.try(ctx, offered, kubeconfig); accepted != peering.Accepted {
		return kube.WaitFor(enrollRetry, reasons.ProviderUnreachable, "waiting for the API server of cluster %s to accept the new %s: %v",
			identity.Spec.ClusterID, peering.KindOf(&admission.AuthParams), short(answer))
	}
	if err := r.replace(ctx, identity, &offered.Spec); err != nil {
		return err
	}
	announce(r.events, identity, reasons.IdentityEnsured, "Reenroll", "cluster %s admitted this cluster again, and its %s replaces one that it did not accept any more",
		identity.Spec.ClusterID, peering.KindOf(&admission.AuthParams))
	return nil
}

// short returns an excerpt of what the API server of a provider responded, for a condition: its length is the provider's choice.
func short(answer error) string { return excerpt.Line(errorText(answer), 400) }

// replace ends a reenrollment: it changes the spec of the Identity, and removes the annotation in the same write. With the optimistic lock, the write fails
// if the Identity has changed since its credential was tried, for instance by a renewal.
func (r *identities) replace(ctx context.Context, identity *authv1beta1.Identity, spec *authv1beta1.IdentitySpec) error {
	changed := identity.DeepCopy()
	changed.Spec = *spec
	delete(changed.Annotations, peering.AnnotationReenroll)
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(identity, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("ending the reenrollment of Identity %s: %w", client.ObjectKeyFromObject(identity), err)
	}
	return nil
}

// try sends one request to the provider of an Identity, with a kubeconfig of it, and reports whether the provider accepts the credential. The error says why
// not.
func (l *links) try(ctx context.Context, identity *authv1beta1.Identity, kubeconfig []byte) (peering.Acceptance, error) {
	namespace := identity.Spec.Namespace
	if namespace == "" {
		namespace = api.TenantNamespace(l.own)
	}
	cfg, _, err := l.config(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: peering.KubeconfigSecretName(identity.Name)},
		Data:       map[string][]byte{authv1beta1.KubeconfigSecretKey: kubeconfig},
	})
	if err != nil {
		return peering.Unanswered, err
	}
	remote.LimitResponses(cfg, responsesBytes, 0, remoteTimeout)
	c, err := client.New(cfg, client.Options{Scheme: l.scheme, Mapper: staticMapper(l.scheme)})
	if err != nil {
		return peering.Unanswered, err
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	err = c.List(ctx, &authv1beta1.ResourceSliceList{}, client.InNamespace(namespace), client.Limit(1))
	switch {
	case err == nil:
		return peering.Accepted, nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return peering.Rejected, err
	}
	return peering.Unanswered, err
}
