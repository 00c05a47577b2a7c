package invite

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
)

// Objects of the authentication service of a provider. Consumers that share no kubeconfig with the provider use it to enroll.
const (
	// Service is the Service in front of the authentication service.
	Service = "liqo-auth"
	// KeySecret is the Secret with the HMAC key of the tokens. Deleting it invalidates all tokens that have been issued.
	KeySecret = "auth-token"
	// SecretKey is the key in KeySecret whose value has 128 hexadecimal characters. UsedKey is the key of the record of used
	// tokens.
	SecretKey = "token"
	UsedKey   = "used"
	// CertificateSecret is the Secret (of type kubernetes.io/tls) with the serving certificate of the authentication service.
	CertificateSecret = "auth-certificate"
	// AnnotationAddress and AnnotationPort, on Service, override the address and port that consumers get for the
	// authentication service.
	AnnotationAddress = "liqo.io/override-address"
	AnnotationPort    = "liqo.io/override-port"
)

// PlainPort is the name of the port of Service if the authentication service serves HTTP without TLS, behind a proxy that
// terminates TLS.
const PlainPort = "http"

// CheckTLS returns an error if consumers can't call the authentication service by its Service, because it serves HTTP without TLS.
func CheckTLS(service *corev1.Service) error {
	if len(service.Spec.Ports) > 0 && service.Spec.Ports[0].Name == PlainPort {
		return fmt.Errorf("the authentication service of Service %s/%s serves no TLS (value auth.tls=false), so consumers reach it only through a proxy that does: "+
			"give the URL of the proxy with --auth-url, and --trusted-certificate or --auth-certificate", service.Namespace, service.Name)
	}
	return nil
}

// CheckURL returns an error if text can't be the URL of an authentication service.
func CheckURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%q is not the URL of an authentication service, want https://host[:port]", text)
	}
	return nil
}

const httpsPort = 443

// URL returns the URL at which consumers reach the authentication service behind a Service. It takes the first of these sources that
// exists: the annotations of the Service, the address of its load balancer, the address of a node (external before internal) with the
// Service's node port. It prefers ready nodes, in the order of their names, so that the result is stable.
func URL(service *corev1.Service, nodes []corev1.Node) (string, error) {
	name := service.Namespace + "/" + service.Name
	if len(service.Spec.Ports) == 0 {
		return "", fmt.Errorf("finding the authentication service: Service %s has no port", name)
	}
	host, port := enrollmentHost(service, nodes)
	if host == "" {
		return "", fmt.Errorf("consumers can't reach Service %s of type %s: it has no load balancer and no node port. Set auth.service.type to LoadBalancer or NodePort, "+
			"or set auth.config.addressOverride to the address at which consumers reach it", name, service.Spec.Type)
	}
	if text := service.Annotations[AnnotationPort]; text != "" {
		override, err := strconv.ParseUint(text, 10, 16)
		if err != nil || override == 0 {
			return "", fmt.Errorf("annotation %s of Service %s is %q, want a port", AnnotationPort, name, text)
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
	if address := service.Annotations[AnnotationAddress]; address != "" {
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
