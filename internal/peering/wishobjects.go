package peering

import (
	"bytes"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
)

// objects returns pointers to the elements.
func objects[T any, P interface {
	*T
	Object
}](all []T) []Object {
	out := make([]Object, 0, len(all))
	for i := range all {
		out = append(out, P(&all[i]))
	}
	return out
}

// newTenantNamespace returns the tenant namespace of a peer. Its Pod Security labels admit the pods of virtual kubelets and gateways, whatever
// the default level of the cluster is.
func newTenantNamespace(peer string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.TenantNamespace(peer), Labels: map[string]string{
		api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: peer, api.LabelManaged: api.True,
		"pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit": "privileged", "pod-security.kubernetes.io/warn": "privileged",
	}}}
}

func ofPeer(namespace, name, peer string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelRemoteClusterID: peer}}
}

// newIdentity returns the control-plane Identity without credentials. The enrollment adds them.
func newIdentity(namespace, provider string) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: ofPeer(namespace, ControlPlaneIdentityName(provider), provider),
		Spec:       authv1beta1.IdentitySpec{ClusterID: provider, Type: authv1beta1.IdentityControlPlane},
	}
}

// newInvitation returns the invitation for the enrollment of an Identity. The Identity owns it, so both are deleted together.
func newInvitation(identity *authv1beta1.Identity, content map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: ofPeer(identity.Namespace, invite.Secret, identity.Spec.ClusterID), Data: content}
	secret.Labels[invite.Label] = api.True
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: authv1beta1.GroupVersion.String(), Kind: kindIdentity, Name: identity.Name, UID: identity.UID,
	}}
	return secret
}

// Kinds of the owners of invitations. An Identity owns the invitations of newInvitation, and a Tenant owns the invitations that the peer sent.
// Invitations of administrators have no owner.
const (
	kindIdentity = "Identity"
	kindTenant   = "Tenant"
)

// invitedBy reports whether an object of a kind owns an invitation.
func invitedBy(invitation *corev1.Secret, kind string) bool {
	return slices.ContainsFunc(invitation.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == kind })
}

// InvitationOfTenant reports whether an invitation came from the peer, and nothing else owns it.
func InvitationOfTenant(invitation *corev1.Secret) bool {
	return len(invitation.OwnerReferences) > 0 &&
		!slices.ContainsFunc(invitation.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind != kindTenant })
}

func sameContent(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// toPeer returns the metadata of an object that is replicated to a provider.
func toPeer(namespace, provider string) metav1.ObjectMeta {
	metadata := ofPeer(namespace, provider, provider)
	metadata.Labels[api.LabelReplication], metadata.Labels[api.LabelRemoteID] = api.True, provider
	return metadata
}

func newNetworkRequest(namespace, provider string) *networkingv1beta1.NetworkRequest {
	return &networkingv1beta1.NetworkRequest{
		ObjectMeta: toPeer(namespace, provider), Spec: networkingv1beta1.NetworkRequestSpec{Server: networkingv1beta1.ServerAtProvider},
	}
}

// newResourceSlice returns a ResourceSlice that requests what the provider offers. Its virtual node gets the provider's cluster ID as its name.
func newResourceSlice(namespace, provider string) *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: toPeer(namespace, provider)}
	slice.Annotations = map[string]string{authv1beta1.AnnotationCreateVirtualNode: api.True}
	slice.Spec.Class = authv1beta1.ResourceSliceClassDefault
	return slice
}

// InNamespaces reports whether one of the namespaces has the name.
func InNamespaces(namespaces []corev1.Namespace, name string) bool {
	return slices.ContainsFunc(namespaces, func(n corev1.Namespace) bool { return n.Name == name })
}
