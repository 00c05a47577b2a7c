package peering

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

const (
	// AnnotationAcceptedInvitation is an annotation of a control-plane Identity without a credential. It names, by its UID, the invitation of the peer
	// with which this cluster enrolls. Without it, an invitation of the peer has no effect.
	AnnotationAcceptedInvitation = "liqo.io/accepted-invitation"
	// AnnotationProviderKey is an annotation of a control-plane Identity. It is the fingerprint of the key of the provider, which the authentication service
	// of the provider stated when this cluster enrolled.
	AnnotationProviderKey = "liqo.io/provider-key"
	// AnnotationClaimedID ("true") marks a Tenant that enrolled with a token for any cluster. Nothing proves that it is the cluster of that ID. An
	// administrator who removes the annotation confirms it.
	AnnotationClaimedID = "liqo.io/claimed-cluster-id"
)

// Accepts reports whether an Identity may enroll with an invitation. An invitation without an owner is from an administrator. One that a controller wrote for
// an Identity is for that Identity only. One that the peer sent must have been accepted, because the peer may send it at any time.
func Accepts(identity *authv1beta1.Identity, invitation *corev1.Secret) bool {
	if invitedBy(invitation, kindTenant) {
		return invitation.UID != "" && identity.Annotations[AnnotationAcceptedInvitation] == string(invitation.UID)
	}
	return !invitedBy(invitation, kindIdentity) || InvitationOf(identity, invitation)
}

// InvitationOf reports whether a controller wrote an invitation for this Identity.
func InvitationOf(identity *authv1beta1.Identity, invitation *corev1.Secret) bool {
	for _, ref := range invitation.OwnerReferences {
		if ref.Kind == kindIdentity && ref.UID == identity.UID {
			return true
		}
	}
	return false
}

// Accept makes an Identity accept an invitation, if that came from the peer.
func Accept(identity *authv1beta1.Identity, invitation *corev1.Secret) {
	if invitation != nil && invitedBy(invitation, kindTenant) {
		metav1.SetMetaDataAnnotation(&identity.ObjectMeta, AnnotationAcceptedInvitation, string(invitation.UID))
	}
}

// CheckClaim returns an error if a Tenant and the provider of a control-plane Identity may be two clusters with the same ID. Both share the tenant
// namespace and the network of that ID, so one could receive what is meant for the other. A Tenant that proved its ID, or that an administrator
// confirmed, passes. So does an Identity whose provider has the key of the Tenant, or that enrolls with the invitation of the Tenant.
func CheckClaim(tenant *authv1beta1.Tenant, identity *authv1beta1.Identity) error {
	if tenant.Annotations[AnnotationClaimedID] != api.True || tenant.Spec.ClusterID != identity.Spec.ClusterID ||
		identity.Spec.Type != authv1beta1.IdentityControlPlane || identity.Annotations[AnnotationAcceptedInvitation] != "" {
		return nil
	}
	key, known := Fingerprint(tenant.Spec.PublicKey), identity.Annotations[AnnotationProviderKey]
	if known == key {
		return nil
	}
	if known == "" {
		known = "unknown, because the provider did not state it"
	}
	return fmt.Errorf("the Tenant %[1]s/%[2]s enrolled as cluster %[3]s with a token for any cluster, so it may be another cluster than the provider %[3]s. The key of the Tenant is %[4]s, that of "+
		"the provider is %[5]s. If the administrator of cluster %[3]s confirms that both are the same cluster, run kubectl annotate tenants.authentication.liqo.io -n %[1]s %[2]s %[6]s- ; "+
		"if not, one of them needs another cluster ID", tenant.Namespace, tenant.Name, tenant.Spec.ClusterID, key, known, AnnotationClaimedID)
}
