package peering

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Objects of the authentication service of a provider. Consumers that share no kubeconfig with the provider use it to enroll.
const (
	// EnrollmentService is the Service in front of the authentication service.
	EnrollmentService = "liqo-auth"
	// DoorSecret is the Secret with the HMAC key of the tokens. Deleting it invalidates all tokens that have been issued.
	DoorSecret = "auth-token"
	// EnrollmentSecretKey is the key in DoorSecret whose value has 128 hexadecimal characters. EnrollmentUsedKey is the key of the record of used
	// tokens.
	EnrollmentSecretKey = "token"
	EnrollmentUsedKey   = "used"
	// EnrollmentCertificate is the Secret (of type kubernetes.io/tls) with the serving certificate of the authentication service.
	EnrollmentCertificate = "auth-certificate"
	// AnnotationEnrollmentAddress and AnnotationEnrollmentPort, on EnrollmentService, override the address and port that consumers get for the
	// authentication service.
	AnnotationEnrollmentAddress = "liqo.io/override-address"
	AnnotationEnrollmentPort    = "liqo.io/override-port"
)

// EnrollmentPlainPort is the name of the port of EnrollmentService if the authentication service serves HTTP without TLS, behind a proxy that
// terminates TLS.
const EnrollmentPlainPort = "http"

// CheckEnrollmentTLS returns an error if consumers can't call the authentication service by its Service, because it serves HTTP without TLS.
func CheckEnrollmentTLS(service *corev1.Service) error {
	if len(service.Spec.Ports) > 0 && service.Spec.Ports[0].Name == EnrollmentPlainPort {
		return fmt.Errorf("the authentication service of Service %s/%s serves no TLS (value auth.tls=false), so consumers reach it only through a proxy that does: "+
			"give the URL of the proxy with --auth-url, and --trusted-certificate or --auth-certificate", service.Namespace, service.Name)
	}
	return nil
}

// Paths of the authentication service. Requests and responses are JSON.
const (
	EnrollmentNoncePath  = "/v1/nonce"
	EnrollmentTenantPath = "/v1/tenant"
)

// An invitation is a Secret in the consumer's tenant namespace: it lets the consumer enroll with the authentication service of a provider.
const (
	// InvitationSecret is the name of the Secret of an invitation.
	InvitationSecret = "liqo-invitation"
	// LabelInvitation ("true") marks the Secret of an invitation.
	LabelInvitation = "liqo.io/invitation"
	// InvitationURLKey and InvitationTokenKey are the keys of the authentication service's URL and of the token.
	InvitationURLKey   = "url"
	InvitationTokenKey = "token"
	// InvitationProxyKey is the key of the URL of an HTTP CONNECT proxy in front of the provider's API server. It is optional.
	InvitationProxyKey = "proxyURL"
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
	Invitation *Invitation `json:"invitation,omitempty"`
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
func CheckEntry(token Token, consumer string, known *Known) error {
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

// PinOf returns the Token.Pin for a certificate: the SHA-256 of its public key (SubjectPublicKeyInfo).
func PinOf(certificate *x509.Certificate) []byte {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return sum[:]
}

// ErrPin means that the server at the provider's address did not present the pinned key.
var ErrPin = errors.New("the certificate of the service is not the one that the token names: either a third party intercepts the connection, or the provider has replaced the certificate; " +
	"nothing was sent. Ask the provider's administrator for another command (liqoctl generate peer-command)")

// CheckPin returns nil if the first of the presented certificates has the pinned key, and ErrPin otherwise.
func CheckPin(pin []byte, shown []*x509.Certificate) error {
	if len(shown) == 0 || subtle.ConstantTimeCompare(pin, PinOf(shown[0])) != 1 {
		return ErrPin
	}
	return nil
}

// CheckEnrollmentURL returns an error if text can't be the URL of an authentication service.
func CheckEnrollmentURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%q is not the URL of an authentication service, want https://host[:port]", text)
	}
	return nil
}

const httpsPort = 443

// EnrollmentURL returns the URL at which consumers reach the authentication service behind a Service. It takes the first of these sources that
// exists: the annotations of the Service, the address of its load balancer, the address of a node (external before internal) with the
// Service's node port. It prefers ready nodes, in the order of their names, so that the result is stable.
func EnrollmentURL(service *corev1.Service, nodes []corev1.Node) (string, error) {
	name := service.Namespace + "/" + service.Name
	if len(service.Spec.Ports) == 0 {
		return "", fmt.Errorf("finding the authentication service: Service %s has no port", name)
	}
	host, port := enrollmentHost(service, nodes)
	if host == "" {
		return "", fmt.Errorf("consumers can't reach Service %s of type %s: it has no load balancer and no node port. Set auth.service.type to LoadBalancer or NodePort, "+
			"or set auth.config.addressOverride to the address at which consumers reach it", name, service.Spec.Type)
	}
	if text := service.Annotations[AnnotationEnrollmentPort]; text != "" {
		override, err := strconv.ParseUint(text, 10, 16)
		if err != nil || override == 0 {
			return "", fmt.Errorf("annotation %s of Service %s is %q, want a port", AnnotationEnrollmentPort, name, text)
		}
		port = int32(override)
	}
	if port == httpsPort {
		if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
			host = "[" + host + "]"
		}
		return "https://" + host, nil
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

func enrollmentHost(service *corev1.Service, nodes []corev1.Node) (host string, port int32) {
	first := service.Spec.Ports[0]
	if address := service.Annotations[AnnotationEnrollmentAddress]; address != "" {
		return address, first.Port
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if address := ingress.IP; address != "" {
			return address, first.Port
		}
		if ingress.Hostname != "" {
			return ingress.Hostname, first.Port
		}
	}
	if first.NodePort == 0 {
		return "", 0
	}
	reached := api.ReachedNodes(nodes)
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for i := range reached {
			for _, address := range reached[i].Status.Addresses {
				if address.Type == kind {
					return address.Address, first.NodePort
				}
			}
		}
	}
	return "", 0
}
