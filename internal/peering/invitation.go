package peering

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Objects of the door: the authentication service, through which consumers come that share no kubeconfig with their provider.
const (
	// DoorService is the Service in front of it.
	DoorService = "liqo-auth"
	// DoorSecret keeps what tokens are sealed with. Who deletes it makes every token that is on its way worthless.
	DoorSecret = "auth-token"
	// DoorSecretKey is the key of the 128 hexadecimal characters in DoorSecret, DoorUsedKey that of the book of used tokens.
	DoorSecretKey = "token"
	DoorUsedKey   = "used"
	// DoorCertificate is the Secret (kubernetes.io/tls) of the certificate that the door shows.
	DoorCertificate = "auth-certificate"
	// AnnotationDoorAddress and AnnotationDoorPort, on DoorService, are where consumers find the door if not where the Service says.
	AnnotationDoorAddress = "liqo.io/override-address"
	AnnotationDoorPort    = "liqo.io/override-port"
)

// Paths of the door. Both take and answer JSON.
const (
	DoorNoncePath  = "/v1/nonce"
	DoorTenantPath = "/v1/tenant"
)

// Invitation is what a consumer holds of a provider whose door it may knock at: a Secret in the tenant namespace.
const (
	// InvitationSecret is its name.
	InvitationSecret = "liqo-invitation"
	// LabelInvitation marks it with "true".
	LabelInvitation = "liqo.io/invitation"
	// InvitationURLKey and InvitationTokenKey are the keys in it.
	InvitationURLKey   = "url"
	InvitationTokenKey = "token"
	// InvitationProxyKey is that of the HTTP CONNECT proxy through which the provider's API server is to be reached; there may be none.
	InvitationProxyKey = "proxyURL"
)

// AnnotationResign ("true"), on the kubeconfig Secret of a control-plane Identity, has its deletion end the peering over there too: with its last
// breath the identity deletes its Tenant.
const AnnotationResign = "liqo.io/resign"

// Knock is what a consumer says first: who it is, and what lets it in.
type Knock struct {
	Cluster string `json:"cluster"`
	Token   string `json:"token"`
}

// Nonce is the provider's answer to a Knock: who it is, and the nonce to be signed.
type Nonce struct {
	Cluster string `json:"cluster"`
	Nonce   []byte `json:"nonce"`
}

// Application is what a consumer says then: what goes into its Tenant.
type Application struct {
	Knock
	PublicKey []byte  `json:"publicKey"`
	CSR       []byte  `json:"csr"`
	Signature []byte  `json:"signature"`
	ProxyURL  *string `json:"proxyURL,omitempty"`
}

// Admission is the provider's answer to an Application: what goes into the consumer's Identity.
type Admission struct {
	Cluster    string                 `json:"cluster"`
	Namespace  string                 `json:"namespace"`
	AuthParams authv1beta1.AuthParams `json:"authParams"`
}

// ErrOtherKey tells that the consumer is known by another key: one that holds a token must not take an existing peering over.
var ErrOtherKey = errors.New("a cluster of this ID is a tenant here already, with another key: if it is the same cluster, the provider's administrator deletes its Tenant first, then makes another command (liqoctl generate peer-command)")

// LabelEnrolled ("true") marks the tenant namespaces that the authentication service made for a consumer that introduced itself.
const LabelEnrolled = "liqo.io/enrolled"

// Known is what a cluster knows of one that introduces itself: the tenant namespace it has already, and what is in it.
type Known struct {
	// Namespace is its name.
	Namespace string
	// Enrolled tells that the namespace was made for a consumer that introduced itself, Tenant that this cluster is a tenant now, Provider that
	// we hold an Identity issued by it.
	Enrolled, Tenant, Provider bool
}

// CheckEntry tells why a cluster must not be let in with a token; nil means that it may. known is nil for a cluster that has no tenant namespace. A token
// for whichever cluster uses it first proves no name: its holder may give that of any cluster, and would be let into the namespace that an administrator
// made for another purpose, a provider's for instance. A Tenant is let in again, for it has to show the key that it has had.
func CheckEntry(token Token, consumer string, known *Known) error {
	if known == nil || token.Consumer == consumer || known.Tenant || (known.Enrolled && !known.Provider) {
		return nil
	}
	return fmt.Errorf("there is a tenant namespace of cluster %s already, %s, and this token is for any cluster: it proves no name; ask the provider's administrator "+
		"for a command made for this cluster (liqoctl generate peer-command --consumer-cluster-id %s)", consumer, known.Namespace, consumer)
}

// Apply decides what the Tenant of an application is: present changed as far as it must be, or a new one. It refuses an application that
// does not prove what a Tenant has to prove, so that nothing is made for it.
func Apply(application *Application, present *authv1beta1.Tenant, own string, nonce []byte) (*authv1beta1.TenantSpec, error) {
	spec := authv1beta1.TenantSpec{}
	if present != nil {
		spec = *present.Spec.DeepCopy()
		// One that an administrator vouched for has no key to compare.
		before, err := ParsePublicKey(spec.PublicKey)
		if err != nil {
			return nil, ErrOtherKey
		}
		if now, err := ParsePublicKey(application.PublicKey); err != nil || !sameKey(before, now) {
			return nil, fmt.Errorf("%w (its key is %s, that of the request %s)", ErrOtherKey, Fingerprint(spec.PublicKey), Fingerprint(application.PublicKey))
		}
	}
	spec.ClusterID, spec.PublicKey, spec.Signature = application.Cluster, application.PublicKey, application.Signature
	// A request for the same key stays: another would make the provider sign again.
	if CheckRequest(spec.CSR, ControlPlaneSubject(spec.ClusterID), spec.PublicKey) != nil {
		spec.CSR = application.CSR
	}
	if application.ProxyURL != nil {
		spec.ProxyURL = application.ProxyURL
	}
	// Who comes through the door proves itself, also where an administrator would have vouched for it.
	proof := &authv1beta1.Tenant{Spec: spec}
	proof.Spec.AuthzPolicy = authv1beta1.KeysExchange
	if err := CheckTenant(proof, own, nonce, false); err != nil {
		return nil, err
	}
	return &spec, nil
}

// PinOf is what a Token pins of a certificate.
func PinOf(certificate *x509.Certificate) []byte {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return sum[:]
}

// ErrPin tells that somebody else than the provider answers at its address.
var ErrPin = errors.New("the certificate shown there is not the one that the token names: either somebody is in between, or the provider has replaced it since; " +
	"nothing was sent. Ask the provider's administrator for another command (liqoctl generate peer-command)")

// CheckPin tells whether the certificates shown begin with the one pinned.
func CheckPin(pin []byte, shown []*x509.Certificate) error {
	if len(shown) == 0 || subtle.ConstantTimeCompare(pin, PinOf(shown[0])) != 1 {
		return ErrPin
	}
	return nil
}

// CheckDoorURL tells why a URL can't be that of a door.
func CheckDoorURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%q is not the URL of an authentication service, want https://host[:port]", text)
	}
	return nil
}

const httpsPort = 443

// DoorURL is where consumers find the door behind a Service: its annotations, else what its load balancer got, else a node's address and
// port. nodes are asked for by name, so that the same one is told each time.
func DoorURL(service *corev1.Service, nodes []corev1.Node) (string, error) {
	name := service.Namespace + "/" + service.Name
	if len(service.Spec.Ports) == 0 {
		return "", fmt.Errorf("finding the door: Service %s has no port", name)
	}
	host, port := doorHost(service, nodes)
	if host == "" {
		return "", fmt.Errorf("consumers can't reach Service %s of type %s: it has no load balancer and no node port. Set auth.service.type to LoadBalancer or NodePort, "+
			"or tell where it is reached (auth.config.addressOverride)", name, service.Spec.Type)
	}
	if text := service.Annotations[AnnotationDoorPort]; text != "" {
		override, err := strconv.ParseUint(text, 10, 16)
		if err != nil || override == 0 {
			return "", fmt.Errorf("annotation %s of Service %s is %q, want a port", AnnotationDoorPort, name, text)
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

func doorHost(service *corev1.Service, nodes []corev1.Node) (host string, port int32) {
	first := service.Spec.Ports[0]
	if address := service.Annotations[AnnotationDoorAddress]; address != "" {
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
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for i := range sorted {
			if sorted[i].Labels[api.LabelType] == api.TypeVirtualNode {
				continue
			}
			for _, address := range sorted[i].Status.Addresses {
				if address.Type == kind {
					return address.Address, first.NodePort
				}
			}
		}
	}
	return "", 0
}
