package peering

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// ErrNoNonce means that a Tenant can't be verified yet: the nonce that its signature should cover does not exist.
var ErrNoNonce = errors.New("there is no nonce in this namespace that the signature could cover")

// CheckTenantNamespace returns an error unless the namespace is the tenant namespace of the remote cluster.
func CheckTenantNamespace(namespace *corev1.Namespace, remoteClusterID string) error {
	if namespace.Labels[api.LabelTenantNamespace] != api.True {
		return fmt.Errorf("namespace %s is no tenant namespace: it lacks the label %s=%s", namespace.Name, api.LabelTenantNamespace, api.True)
	}
	if owner := namespace.Labels[api.LabelRemoteClusterID]; owner != remoteClusterID {
		return fmt.Errorf("namespace %s is the tenant namespace of cluster %q, not of %q", namespace.Name, owner, remoteClusterID)
	}
	return nil
}

// CheckTenant returns nil if a Tenant may have a certificate for exactly ControlPlaneSubject, and otherwise an error that says why not. own
// is the ID of this cluster. nonce is the nonce of the Tenant's namespace; empty when there is none. If admitted is true, the Tenant was
// admitted before with this very request, and its signature is not checked again, because the nonce may no longer exist.
func CheckTenant(tenant *authv1beta1.Tenant, own string, nonce []byte, admitted bool) error {
	spec := &tenant.Spec
	switch spec.ClusterID {
	case "":
		return errors.New("spec.clusterID is empty: give it the consumer's cluster ID")
	case own:
		return fmt.Errorf("spec.clusterID is %q, this cluster itself: a cluster cannot peer with itself", own)
	}
	if strings.HasPrefix(spec.ClusterID, PeeringUserPrefix) {
		return fmt.Errorf("spec.clusterID is %q: names that begin with %s belong to peering users, give the consumer another cluster ID", spec.ClusterID, PeeringUserPrefix)
	}
	subject := ControlPlaneSubject(spec.ClusterID)
	if spec.AuthzPolicy == authv1beta1.TolerateNoHandshake {
		if len(spec.CSR) == 0 {
			return nil
		}
		return InField("spec.csr", CheckRequest(spec.CSR, subject, spec.PublicKey))
	}
	if len(spec.PublicKey) == 0 {
		return errors.New("spec.publicKey is empty: give it the consumer's public key in PEM")
	}
	if !admitted {
		if len(nonce) == 0 {
			return ErrNoNonce
		}
		if err := Verify(spec.PublicKey, nonce, spec.Signature); err != nil {
			return InField("spec.signature", err)
		}
	}
	return InField("spec.csr", CheckRequest(spec.CSR, subject, spec.PublicKey))
}

// InField adds the name of a field to an error about its value. It returns nil if there is no error.
func InField(field string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// Grants is what a Tenant still permits its consumer.
type Grants struct {
	// Access means that the Tenant's identities have any rights.
	Access bool
	// More means that the Tenant gets further resources.
	More bool
}

// claimsShown is the maximum number of claims that a message lists.
const claimsShown = 20

// ClaimsKept returns the message of a Tenant in deletion that waits because its remote namespaces have claims. It returns "" if there are none, or if the
// annotation of the Tenant allows the deletion of the data.
func ClaimsKept(tenant *authv1beta1.Tenant, claims []corev1.PersistentVolumeClaim) string {
	if len(claims) == 0 || tenant.Annotations[api.AnnotationDeleteVolumes] == api.True {
		return ""
	}
	var list []string
	for i := range claims[:min(len(claims), claimsShown)] {
		size := claims[i].Spec.Resources.Requests[corev1.ResourceStorage]
		list = append(list, fmt.Sprintf("PersistentVolumeClaim %s/%s (%s)", claims[i].Namespace, claims[i].Name, size.String()))
	}
	if more := len(claims) - claimsShown; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("the data of cluster %s would be lost: %s; copy the data and delete the claims, or abandon the data: kubectl annotate tenant %s --namespace %s %s=%s",
		tenant.Spec.ClusterID, strings.Join(list, ", "), tenant.Name, tenant.Namespace, api.AnnotationDeleteVolumes, api.True)
}

// GrantsOf returns the grants of a Tenant: its spec.tenantCondition and its cordon annotation determine them.
func GrantsOf(tenant *authv1beta1.Tenant) Grants {
	switch {
	case tenant.Spec.TenantCondition == authv1beta1.TenantDrained:
		return Grants{}
	case tenant.Spec.TenantCondition == authv1beta1.TenantCordoned, tenant.Annotations[authv1beta1.AnnotationCordon] == api.True:
		return Grants{Access: true}
	default:
		return Grants{Access: true, More: true}
	}
}
