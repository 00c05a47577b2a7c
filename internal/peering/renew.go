package peering

import (
	"errors"
	"fmt"
	"time"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// CheckRenew returns the subject that the credential of a replicated Renew may have, or an error that says why it may have none. The
// request must be signed by the key that the Tenant was admitted with, so that a renewal can introduce neither a new key nor another
// subject. slice is the ResourceSlice in the same namespace that spec.resourceSliceRef names; nil when there is none.
func CheckRenew(renew *authv1beta1.Renew, tenant *authv1beta1.Tenant, slice *authv1beta1.ResourceSlice) (Subject, error) {
	spec := &renew.Spec
	consumer := tenant.Spec.ClusterID
	if spec.ConsumerClusterID != consumer {
		return Subject{}, fmt.Errorf("spec.consumerClusterID is %q, but this namespace belongs to %q", spec.ConsumerClusterID, consumer)
	}
	if !GrantsOf(tenant).Access {
		return Subject{}, errors.New("the tenant is drained")
	}
	if len(tenant.Spec.PublicKey) == 0 {
		return Subject{}, errors.New("the Tenant has no public key that the renewal could be bound to")
	}
	var subject Subject
	switch spec.IdentityType {
	case authv1beta1.IdentityControlPlane:
		subject = ControlPlaneSubject(consumer)
	case authv1beta1.IdentityResourceSlice:
		if spec.ResourceSliceRef == nil || slice == nil || slice.Name != spec.ResourceSliceRef.Name || !IsCopy(slice, consumer) {
			return Subject{}, errors.New("spec.resourceSliceRef names no ResourceSlice of this consumer")
		}
		subject = ResourceSliceSubject(slice.Name, consumer)
	default:
		return Subject{}, fmt.Errorf("spec.identityType is %q, want %q or %q", spec.IdentityType, authv1beta1.IdentityControlPlane, authv1beta1.IdentityResourceSlice)
	}
	if err := CheckRequest(spec.CSR, subject, tenant.Spec.PublicKey); err != nil {
		return Subject{}, InField("spec.csr", err)
	}
	return subject, nil
}

// Renewal is the next step in the renewal of an Identity's credential.
type Renewal struct {
	// Ask means that this cluster must request a new credential from the provider now.
	Ask bool
	// Adopt means that this cluster must take over the credential that the provider issued.
	Adopt bool
	// At is when the Identity should be reconciled next; zero when Ask or Adopt is set, and for a credential that Liqo does not renew.
	At time.Time
}

// PlanRenewal returns the next step for an Identity and the Renew of the same name; renew is nil when there is none.
func PlanRenewal(identity *authv1beta1.Identity, renew *authv1beta1.Renew, now time.Time) (Renewal, error) {
	present := &identity.Spec.AuthParams
	if present.AwsConfig != nil {
		_, err := CredentialOf(present)
		return Renewal{}, InField("spec", err)
	}
	if renew != nil && renew.Status.AuthParams != nil && Newer(renew.Status.AuthParams, present) {
		return Renewal{Adopt: true}, nil
	}
	credential, err := CredentialOf(present)
	if err != nil {
		return Renewal{}, InField("spec", err)
	}
	if at := credential.RenewAt(); now.Before(at) {
		return Renewal{At: at}, nil
	}
	return Renewal{Ask: true}, nil
}
