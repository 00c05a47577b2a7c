package peering

import (
	"errors"
	"fmt"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
)

// Paths of the authentication service. Requests and responses are JSON.
const (
	EnrollmentNoncePath  = "/v1/nonce"
	EnrollmentTenantPath = "/v1/tenant"
)

// AnnotationResign ("true"), on the kubeconfig Secret of a control-plane Identity, ends the peering in the provider too. When the Secret is
// deleted, the controller that finalizes it deletes this cluster's Tenant in the provider, as the last use of that kubeconfig.
const AnnotationResign = "liqo.io/resign"

// NonceRequest is the consumer's first enrollment request. It names the consumer and carries the token that authorizes it.
type NonceRequest struct {
	Cluster string `json:"cluster"`
	Token   string `json:"token"`
}

// Nonce is the provider's response to a NonceRequest. It names the provider and carries the nonce to be signed.
type Nonce struct {
	Cluster string `json:"cluster"`
	Nonce   []byte `json:"nonce"`
	// PublicKey is the key with which the provider enrolls in other clusters. Earlier versions do not state it.
	PublicKey []byte `json:"publicKey,omitempty"`
}

// EnrollRequest is the consumer's second enrollment request. It carries the data for the consumer's Tenant.
type EnrollRequest struct {
	NonceRequest
	PublicKey []byte  `json:"publicKey"`
	CSR       []byte  `json:"csr"`
	Signature []byte  `json:"signature"`
	ProxyURL  *string `json:"proxyURL,omitempty"`
	// Invitation lets the provider use the consumer too. It is optional.
	Invitation *invite.Invitation `json:"invitation,omitempty"`
}

// Admission is the provider's response to an EnrollRequest. It carries the data for the consumer's Identity.
type Admission struct {
	Cluster    string                 `json:"cluster"`
	Namespace  string                 `json:"namespace"`
	AuthParams authv1beta1.AuthParams `json:"authParams"`
	// ProviderKey is the fingerprint of Nonce.PublicKey. The consumer sets it; it is not part of the response.
	ProviderKey string `json:"-"`
}

// ErrOtherKey means that the consumer is already a tenant with another key. The holder of a token must not take over an existing peering.
var ErrOtherKey = errors.New("a cluster of this ID is a tenant here already, with another key: if it is the same cluster, the provider's administrator deletes its Tenant first, then creates another command (liqoctl generate peer-command)")

// LabelEnrolled ("true") marks the tenant namespaces that the authentication service created for a consumer that enrolled by itself.
const LabelEnrolled = "liqo.io/enrolled"

// Known describes the tenant namespace that a provider already has for a cluster that enrolls.
type Known struct {
	// Namespace is the name of the tenant namespace.
	Namespace string
	// Enrolled means that the authentication service created the namespace. Tenant means that the cluster is a tenant now. Provider means
	// that the namespace holds an Identity that the cluster issued to this one.
	Enrolled, Tenant, Provider bool
}

// CheckEntry returns nil if a cluster may enroll with a token, and otherwise an error that says why not. known is nil for a cluster that
// has no tenant namespace yet.
//
// A token without a consumer does not prove the cluster ID that its holder claims. The holder could claim any cluster's ID, and so get into
// a namespace that an administrator created for another purpose, for instance for a provider. Such a token is therefore refused if the
// tenant namespace exists, with two exceptions. An existing Tenant may enroll again, because Apply compares its key with the earlier one. A
// namespace that the authentication service created may be used again, unless it holds an Identity.
func CheckEntry(token invite.Token, consumer string, known *Known) error {
	if known == nil || token.Consumer == consumer || known.Tenant || (known.Enrolled && !known.Provider) {
		return nil
	}
	return fmt.Errorf("there is a tenant namespace of cluster %s already, %s, and this token is for any cluster, so it does not prove the cluster ID; ask the provider's administrator "+
		"for a command for this cluster (liqoctl generate peer-command --consumer-cluster-id %s)", consumer, known.Namespace, consumer)
}

// Apply returns the spec of the consumer's Tenant: the present one with the changes that the enrollRequest requires, or a new one. It returns
// an error for an enrollRequest without the proof that a Tenant needs, so that no object is created for it. own is the ID of this cluster,
// the provider.
func Apply(enrollRequest *EnrollRequest, present *authv1beta1.Tenant, own string, nonce []byte) (*authv1beta1.TenantSpec, error) {
	spec := authv1beta1.TenantSpec{}
	if present != nil {
		spec = *present.Spec.DeepCopy()
		// A Tenant that an administrator vouched for may have no key to compare with.
		before, err := ParsePublicKey(spec.PublicKey)
		if err != nil {
			return nil, ErrOtherKey
		}
		if now, err := ParsePublicKey(enrollRequest.PublicKey); err != nil || !sameKey(before, now) {
			return nil, fmt.Errorf("%w (its key is %s, that of the request %s)", ErrOtherKey, Fingerprint(spec.PublicKey), Fingerprint(enrollRequest.PublicKey))
		}
	}
	spec.ClusterID, spec.PublicKey, spec.Signature = enrollRequest.Cluster, enrollRequest.PublicKey, enrollRequest.Signature
	// Keep a valid certificate request for the same key. With a different request, the provider would sign another certificate.
	if CheckRequest(spec.CSR, ControlPlaneSubject(spec.ClusterID), spec.PublicKey) != nil {
		spec.CSR = enrollRequest.CSR
	}
	if enrollRequest.ProxyURL != nil {
		spec.ProxyURL = enrollRequest.ProxyURL
	}
	// A consumer that enrolls by itself must prove that it holds its key, even if its Tenant has a policy that needs no proof.
	proof := &authv1beta1.Tenant{Spec: spec}
	proof.Spec.AuthzPolicy = authv1beta1.KeysExchange
	if err := CheckTenant(proof, own, nonce, false); err != nil {
		return nil, err
	}
	return &spec, nil
}
