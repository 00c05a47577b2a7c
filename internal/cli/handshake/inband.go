package handshake

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// ProxyService is the name of the Service of the API server proxy.
const ProxyService = "liqo-proxy"

// ProxyURL returns the proxy URL for the identity: the value of the user's flag, or, for in-band, the provider's proxy as reached through
// the tunnel. nil keeps the current one.
func ProxyURL(ctx context.Context, p *session.Pair, auth *Flags) (*string, error) {
	if auth.InBand {
		url, err := inBandURL(ctx, p)
		return &url, err
	}
	if auth.Given("proxy-url") || auth.Given("in-band") {
		return &auth.ProxyURL, nil
	}
	return nil, nil
}

// inBandURL returns the URL of the provider's proxy as seen from the consumer.
func inBandURL(ctx context.Context, p *session.Pair) (string, error) {
	at, err := ThroughTunnel(ctx, p, ipamv1alpha1.IPAPIServerProxy, ProxyService, "the API-server proxy")
	if err != nil {
		return "", fmt.Errorf("%w; the proxy is installed with proxy.enabled=true", err)
	}
	url := "http://" + at.String()
	p.Local.Info("The API server of %s is reached in-band, through %s", p.Remote.ID, url)
	return url, nil
}

// ThroughTunnel returns the address and port at which the consumer reaches a Service of the provider through the tunnel.
func ThroughTunnel(ctx context.Context, p *session.Pair, ip, name, what string) (netip.AddrPort, error) {
	exposed := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: p.Remote.Namespace, Name: ip}}
	err := p.Remote.Reach(ctx, &session.Goal{Object: exposed, Doing: "Waiting for the address of " + what, Met: func() session.Verdict {
		if exposed.Status.IP == "" {
			return session.NotYet("it has no address in status.ip%s", session.Unmet(exposed.Status.Conditions))
		}
		return session.Yes()
	}})
	if err != nil {
		return netip.AddrPort{}, err
	}
	if exposed.UID == "" { // in a dry run: it assumes only objects that peering creates
		return netip.AddrPort{}, p.Remote.Err(fmt.Errorf("there is no %s", p.Remote.Name(exposed)))
	}
	if exposed.Status.IP == "" { // in a dry run: no controller assigns the address
		return netip.AddrPortFrom(netip.MustParseAddr(session.PlannedAddress), networkingv1beta1.GatewayPort), nil
	}
	var service corev1.Service
	if err := p.Remote.Get(ctx, client.ObjectKey{Namespace: p.Remote.Namespace, Name: name}, &service); err != nil {
		return netip.AddrPort{}, p.Remote.Err(fmt.Errorf("reading Service %s in namespace %s: %w", name, p.Remote.Namespace, err))
	}
	if len(service.Spec.Ports) == 0 {
		return netip.AddrPort{}, p.Remote.Err(fmt.Errorf("service %s in namespace %s has no port", name, p.Remote.Namespace))
	}
	var configuration *networkingv1beta1.Configuration
	if p.Here != "" {
		var err error
		e := &tunnel.End{Cluster: p.Local, Peer: p.Remote.ID, TenantNamespace: p.Here}
		if configuration, err = e.Configuration(ctx); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if configuration == nil {
		return netip.AddrPort{}, p.Local.Err(fmt.Errorf("--in-band needs the network of cluster %s: liqoctl network connect", p.Remote.ID))
	}
	address, err := tunnel.ViewOf(configuration, exposed.Status.IP)
	if err != nil {
		return netip.AddrPort{}, p.Local.Err(fmt.Errorf("finding the address of %s of cluster %s: %w", what, p.Remote.ID, err))
	}
	return netip.AddrPortFrom(address, uint16(service.Spec.Ports[0].Port)), nil
}
