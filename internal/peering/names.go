package peering

import (
	"crypto/sha256"
	"encoding/hex"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Finalizers of the peering.
const (
	// FinalizerTenant holds a Tenant until its bindings and the copies it made are gone.
	FinalizerTenant = "tenant.liqo.io/finalizer"
	// FinalizerReplicated holds the source of a replicated object until its copy is gone.
	FinalizerReplicated = "crdreplicator.liqo.io/resource"
	// FinalizerReplicator holds a control-plane kubeconfig Secret until every copy made with it is gone.
	FinalizerReplicator = "crdreplicator.liqo.io/operator"
)

// Roles that a consumer gets in its provider, by ClusterRole; the installation brings them.
const (
	// RoleControlPlane is bound in the tenant namespace to the control-plane user.
	RoleControlPlane = "liqo-remote-controlplane"
	// RoleVirtualKubeletClusterwide is bound in the whole cluster to the group of the consumer's virtual kubelets.
	RoleVirtualKubeletClusterwide = "liqo-virtual-kubelet-remote-clusterwide"
	// RolePeeringUser is bound in the namespace of the installation (a Role) and in the tenant namespace (a ClusterRole) to a peering user.
	RolePeeringUser = "liqo-peering-user"
)

// PeeringUserPrefix precedes the consumer's cluster ID in the name of a peering user; a hyphen and 32 random hexadecimal digits follow.
const PeeringUserPrefix = "liqo-peer-user-"

// Labels and annotations of objects that only this package's controllers make.
const (
	// LabelRemoteTenantCSR marks ("true") the certificate signing requests made for consumers.
	LabelRemoteTenantCSR = "liqo.io/remote-tenant-csr"
	// AnnotationRequestedFor, on such a request, is the object it was made for: <kind>/<namespace>/<name>.
	AnnotationRequestedFor = "liqo.io/requested-for"
	// AnnotationUnreachable, "true" on a ForeignCluster, says that the cluster will never come back: nothing waits for it any more.
	AnnotationUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"
	// LabelManagedBy is ManagedBy on everything that the controllers bind or grant.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "liqo"
)

// Keys of the Secret that keeps a consumer's certificate on the provider.
const (
	CertificateSecret     = "liqo-remote-certificate"
	CertificateRequestKey = "csr"
	CertificateKey        = "certificate"
)

// requestPrefix precedes the hash in the name of a certificate signing request.
const requestPrefix = "liqo-identity-"

// TenantQuota is the name of the ResourceQuota that bounds what a consumer may copy into its tenant namespace.
const TenantQuota = "liqo-tenant"

// TenantObjects returns how many objects there may be, in a tenant namespace, of each kind that its consumer writes (spec.hard of a ResourceQuota). It is far more
// than a peering needs: of those that are answered there are fewer.
func TenantObjects() map[string]int64 {
	return map[string]int64{
		"count/resourceslices.authentication.liqo.io": 100,
		"count/renews.authentication.liqo.io":         200,
		"count/namespacemaps.offloading.liqo.io":      10,
		"count/networkrequests.networking.liqo.io":    10,
	}
}

// BindingName is the name of the binding of a role in a tenant namespace.
func BindingName(role string) string { return "liqo-binding-" + role }

// ClusterBindingName is the name of the cluster-wide binding of a role for a consumer.
func ClusterBindingName(role, consumer string) string { return BindingName(role) + "-" + consumer }

// CertificateSecretName is the Secret that keeps the certificate of a consumer: of its control plane when slice is empty.
func CertificateSecretName(slice string) string {
	if slice == "" {
		return CertificateSecret
	}
	return CertificateSecret + "-" + slice
}

// RequestName is the name of the CertificateSigningRequest made for a PEM request on behalf of the object with the UID. It follows from what
// is asked: a controller that died after creating one finds it again.
func RequestName(uid string, request []byte) string {
	sum := sha256.Sum256(append([]byte(uid+"/"), request...))
	return requestPrefix + hex.EncodeToString(sum[:])[:16]
}

// ControlPlaneIdentityName is the Identity of the controller manager towards a provider.
func ControlPlaneIdentityName(provider string) string {
	return authv1beta1.IdentityControlPlanePrefix + provider
}

// SliceIdentityName is the Identity of the virtual kubelet of a ResourceSlice.
func SliceIdentityName(slice string) string {
	return authv1beta1.IdentityResourceSlicePrefix + slice
}

// KubeconfigSecretName is the Secret that an Identity becomes.
func KubeconfigSecretName(identity string) string {
	return authv1beta1.KubeconfigSecretPrefix + identity
}
