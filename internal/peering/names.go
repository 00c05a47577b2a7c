package peering

import (
	"crypto/sha256"
	"encoding/hex"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Finalizers of peering objects.
const (
	// FinalizerTenant keeps a Tenant until its role bindings and the objects that its consumer replicated are deleted.
	FinalizerTenant = "tenant.liqo.io/finalizer"
	// FinalizerReplicated keeps the source of a replicated object until its copy in the provider is deleted.
	FinalizerReplicated = "crdreplicator.liqo.io/resource"
	// FinalizerReplicator keeps a control-plane kubeconfig Secret until every copy that was created with it is deleted.
	FinalizerReplicator = "crdreplicator.liqo.io/operator"
)

// Roles that a consumer gets in its provider, by the name of their ClusterRole. The installation creates them.
const (
	// RoleControlPlane is bound in the tenant namespace to the control-plane user.
	RoleControlPlane = "liqo-remote-controlplane"
	// RoleVirtualKubeletClusterwide is bound cluster-wide to the group of the consumer's virtual kubelets.
	RoleVirtualKubeletClusterwide = "liqo-virtual-kubelet-remote-clusterwide"
	// RolePeeringUser is bound to a peering user: in the namespace of the installation as a Role, in the tenant namespace as a ClusterRole.
	RolePeeringUser = "liqo-peering-user"
)

// PeeringUserPrefix is the prefix of the names of peering users. The consumer's cluster ID, a hyphen and 32 random hexadecimal digits
// follow it.
const PeeringUserPrefix = "liqo-peer-user-"

// Labels and annotations that only the controllers of peerings use.
const (
	// LabelRemoteTenantCSR ("true") marks the CertificateSigningRequests created for consumers.
	LabelRemoteTenantCSR = "liqo.io/remote-tenant-csr"
	// AnnotationConsumerKey is an annotation of the tenant namespace of a consumer. It is the public key, in base64, of the Tenant that was admitted there last. It
	// stays when the Tenant is deleted, so that whoever has the kubeconfig of a peering user can't peer the cluster again with another key.
	AnnotationConsumerKey = "liqo.io/consumer-key"
	// AnnotationRequestedFor, on a CertificateSigningRequest for a consumer, names the object that the request was created for:
	// <kind>/<namespace>/<name>.
	AnnotationRequestedFor = "liqo.io/requested-for"
	// AnnotationUnreachable ("true"), on a ForeignCluster, states that the cluster is permanently unreachable. The controllers no longer wait for it.
	AnnotationUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"
	// LabelManagedBy, with the value ManagedBy, marks the objects that the controllers create for a remote cluster.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "liqo"
)

// CertificateSecret is the name of the Secret in the provider with the certificate of a consumer's control plane. CertificateRequestKey and
// CertificateKey are the keys in it, and in the Secrets of ResourceSlices.
const (
	CertificateSecret     = "liqo-remote-certificate"
	CertificateRequestKey = "csr"
	CertificateKey        = "certificate"
)

// requestPrefix is the prefix of the names of CertificateSigningRequests. A hash follows it.
const requestPrefix = "liqo-identity-"

// TenantQuota is the name of the ResourceQuota that limits how many objects a consumer may create in its tenant namespace.
const TenantQuota = "liqo-tenant"

// TenantObjects returns, for each kind that a consumer writes, how many objects a tenant namespace may hold (spec.hard of a ResourceQuota).
// The limits are far above what a peering needs. Some objects within them still get no identity and no resources, see
// SharingPolicy.SliceLimit.
func TenantObjects() map[string]int64 {
	return map[string]int64{
		"count/resourceslices.authentication.liqo.io": 100,
		"count/renews.authentication.liqo.io":         200,
		"count/namespacemaps.offloading.liqo.io":      10,
		"count/networkrequests.networking.liqo.io":    10,
	}
}

// BindingName returns the name of the binding of a role in a tenant namespace.
func BindingName(role string) string { return "liqo-binding-" + role }

// ClusterBindingName returns the name of the cluster-wide binding of a role for a consumer.
func ClusterBindingName(role, consumer string) string { return BindingName(role) + "-" + consumer }

// CertificateSecretName returns the name of the Secret with a certificate of a consumer: the certificate of a ResourceSlice, or of the consumer's
// control plane when slice is empty.
func CertificateSecretName(slice string) string {
	if slice == "" {
		return CertificateSecret
	}
	return CertificateSecret + "-" + slice
}

// RequestName returns the name of the CertificateSigningRequest for a PEM request, on behalf of the object with the UID. The name depends only on the
// UID and the PEM request. So a controller that restarts after it created the CertificateSigningRequest finds it again.
func RequestName(uid string, request []byte) string {
	sum := sha256.Sum256(append([]byte(uid+"/"), request...))
	return requestPrefix + hex.EncodeToString(sum[:])[:16]
}

// ControlPlaneIdentityName returns the name of the Identity that the controller manager uses in a provider.
func ControlPlaneIdentityName(provider string) string {
	return authv1beta1.IdentityControlPlanePrefix + provider
}

// SliceIdentityName returns the name of the Identity that the virtual kubelet of a ResourceSlice uses.
func SliceIdentityName(slice string) string {
	return authv1beta1.IdentityResourceSlicePrefix + slice
}

// KubeconfigSecretName returns the name of the kubeconfig Secret of an Identity.
func KubeconfigSecretName(identity string) string {
	return authv1beta1.KubeconfigSecretPrefix + identity
}

// Names of the objects that a consumer with a token has in its provider.
const (
	// AccountName is the name of the ServiceAccount of a consumer's control plane, in the tenant namespace. The ServiceAccounts of its ResourceSlices
	// have this name with a hash appended.
	AccountName = "liqo-consumer"
	// LabelAccount ("true") marks the ServiceAccounts of consumers, and the roles and bindings that let them act as their users.
	LabelAccount = "liqo.io/consumer-account"
	// AnnotationHolder, on a consumer's ServiceAccount, is the fingerprint of the key that its tokens are sealed for. If the key changes, the
	// ServiceAccount is deleted, and so the tokens become invalid.
	AnnotationHolder = "liqo.io/token-holder"
	// AnnotationReplaced, on the ServiceAccount of a consumer's control plane, is the time when a Renew was first answered with a certificate. The
	// consumer deletes the Renew once it has the certificate. Earlier releases wrote "true".
	AnnotationReplaced = "liqo.io/replaced-by-certificate"
	// AnnotationUnusedSince, on a consumer's ServiceAccount, is when a certificate replaced its tokens. The ServiceAccount is deleted some time
	// later.
	AnnotationUnusedSince = "liqo.io/unused-since"
)

// SliceAccountName returns the name of the ServiceAccount of a ResourceSlice. It contains a hash, since the name of a ResourceSlice may be too long.
func SliceAccountName(slice string) string {
	sum := sha256.Sum256([]byte(slice))
	return AccountName + "-" + hex.EncodeToString(sum[:])[:16]
}

// AccountRoleName returns the name of the ClusterRole, and of its binding, that lets a ServiceAccount act as its user.
func AccountRoleName(namespace, account string) string { return account + ":" + namespace }
