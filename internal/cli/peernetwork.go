package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/doctor"
	"liqo.io/liqo/internal/network"
)

// Values of the flag for where the gateway server of a peering runs.
const (
	locationProvider = "Provider"
	locationConsumer = "Consumer"
)

// proxyService is the name of the Service of the API server proxy.
const proxyService = "liqo-proxy"

// locate sets where the gateway server runs, from the value of the flag. The local cluster is the consumer.
func (o *networkOptions) locate(location string) error {
	o.located = o.given("gw-server-service-location")
	switch location {
	case locationConsumer:
		o.serverHere = true
	case locationProvider:
	default:
		return oneOfThese("gw-server-service-location", location, locationProvider, locationConsumer)
	}
	return nil
}

// peerNetwork connects the networks of a peering and waits until the tunnel is connected. It returns nil if the peering has no network.
func (p *pair) peerNetwork(ctx context.Context, o *peerOptions) (*tunnel, error) {
	if o.networkingDisabled {
		p.local.Info("The networks are not connected (--networking-disabled): offloaded pods reach those of this cluster only where the infrastructure routes them")
		if both := p.sharedRanges(ctx); both != "" {
			p.local.Warn("Pods of both clusters have addresses of %s, which mean other pods here: pods that are offloaded to %s show no address. With a network (without --networking-disabled) they have one", both, p.remote.id)
		}
		p.withoutEffect(&o.network)
		return nil, nil
	}
	for _, c := range []*cluster{p.local, p.remote} {
		why, err := c.whyNoNetwork(ctx)
		if err != nil {
			return nil, err
		}
		if why == "" {
			continue
		}
		if o.auth.inBand {
			return nil, c.error(fmt.Errorf("--in-band goes through a tunnel that can not be made with cluster %s: %s", c.id, why))
		}
		c.Warn("The networks are not connected because of cluster %s: %s. Until then offloaded pods reach those of the consumer only where the infrastructure routes them", c.id, why)
		p.withoutEffect(&o.network)
		return nil, nil
	}
	t, err := p.connectNetwork(ctx, &o.network)
	if err != nil {
		return nil, err
	}
	return t, t.connected(ctx)
}

// sharedRanges returns the local pod ranges that overlap those of the remote cluster. It is empty if none overlap or the user may not read
// them.
func (p *pair) sharedRanges(ctx context.Context) string {
	var ranges [2][]netip.Prefix
	for i, c := range []*cluster{p.local, p.remote} {
		networks, err := c.ownNetworks(ctx, ipamv1alpha1.NetworkTypePod)
		if err != nil {
			return "" // the result is only used for a warning, so an error does not stop the command
		}
		for _, n := range networks {
			if prefix, err := netip.ParsePrefix(n.Status.CIDR); err == nil {
				ranges[i] = append(ranges[i], prefix)
			}
		}
	}
	var shared []string
	for _, ours := range ranges[0] {
		if slices.ContainsFunc(ranges[1], ours.Overlaps) {
			shared = append(shared, ours.String())
		}
	}
	return strings.Join(shared, ", ")
}

// withoutEffect warns about flags for a tunnel that this command does not create. It skips the flags in except.
func (p *pair) withoutEffect(o *networkOptions, except ...string) {
	for _, name := range []string{
		"gw-server-service-location", connectServerFlags.serviceType, connectServerFlags.port, connectServerFlags.nodePort, connectServerFlags.loadBalancerIP,
		"gw-client-address", "gw-client-port", "mtu",
	} {
		if slices.Contains(except, name) {
			continue
		}
		if o.given(name) {
			p.local.Warn("--%s has no effect: this command makes no gateways", name)
		}
	}
}

// proxyURL returns the proxy URL for the identity: the value of the user's flag, or, for in-band, the provider's proxy as reached through
// the tunnel. nil keeps the current one.
func (p *pair) proxyURL(ctx context.Context, auth *authFlags) (*string, error) {
	if auth.inBand {
		url, err := p.inBandURL(ctx)
		return &url, err
	}
	if auth.given("proxy-url") || auth.given("in-band") {
		return &auth.proxyURL, nil
	}
	return nil, nil
}

// inBandURL returns the URL of the provider's proxy as seen from the consumer.
func (p *pair) inBandURL(ctx context.Context) (string, error) {
	at, err := p.throughTunnel(ctx, ipamv1alpha1.IPAPIServerProxy, proxyService, "the API-server proxy")
	if err != nil {
		return "", fmt.Errorf("%w; the proxy is installed with proxy.enabled=true", err)
	}
	url := "http://" + at.String()
	p.local.Info("The API server of %s is reached in-band, through %s", p.remote.id, url)
	return url, nil
}

// throughTunnel returns the address and port at which the consumer reaches a Service of the provider through the tunnel.
func (p *pair) throughTunnel(ctx context.Context, ip, name, what string) (netip.AddrPort, error) {
	exposed := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: p.remote.namespace, Name: ip}}
	step := p.remote.Start("Waiting for the address of %s", what)
	defer step.End()
	err := p.remote.wait(ctx, step, exposed, func() verdict {
		if exposed.Status.IP == "" {
			return notYet("it has no address in status.ip%s", reasons(exposed.Status.Conditions))
		}
		return yes()
	})
	if err != nil {
		return netip.AddrPort{}, err
	}
	if exposed.UID == "" { // in a dry run: it assumes only objects that peering creates
		return netip.AddrPort{}, p.remote.error(fmt.Errorf("there is no %s", p.remote.name(exposed)))
	}
	if exposed.Status.IP == "" { // in a dry run: no controller assigns the address
		return netip.AddrPortFrom(netip.MustParseAddr(plannedAddress), networkingv1beta1.GatewayPort), nil
	}
	step.End()
	var service corev1.Service
	if err := p.remote.Get(ctx, client.ObjectKey{Namespace: p.remote.namespace, Name: name}, &service); err != nil {
		return netip.AddrPort{}, p.remote.error(fmt.Errorf("reading Service %s in namespace %s: %w", name, p.remote.namespace, err))
	}
	if len(service.Spec.Ports) == 0 {
		return netip.AddrPort{}, p.remote.error(fmt.Errorf("service %s in namespace %s has no port", name, p.remote.namespace))
	}
	namespace, err := p.local.requireTenantNamespace(ctx, p.remote.id)
	if err != nil {
		return netip.AddrPort{}, err
	}
	e := &end{cluster: p.local, peer: p.remote.id, namespace: namespace}
	configuration, err := e.configuration(ctx)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if configuration == nil {
		return netip.AddrPort{}, p.local.error(fmt.Errorf("--in-band needs the network of cluster %s: liqoctl network connect", p.remote.id))
	}
	address, err := viewOf(configuration, exposed.Status.IP)
	if err != nil {
		return netip.AddrPort{}, p.local.error(fmt.Errorf("finding the address of %s of cluster %s: %w", what, p.remote.id, err))
	}
	return netip.AddrPortFrom(address, uint16(service.Spec.Ports[0].Port)), nil
}

// viewOf maps an address in a peer to the address at which this cluster reaches it, according to the Configuration.
func viewOf(configuration *networkingv1beta1.Configuration, told string) (netip.Addr, error) {
	address, err := netip.ParseAddr(told)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading an address of the peer: %w", err)
	}
	peer := configuration.Labels[api.LabelRemoteClusterID]
	translation, problems, ok := network.GatherTranslation(&network.Objects{Configurations: []networkingv1beta1.Configuration{*configuration}}, peer)
	if !ok {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.String()
		}
		return netip.Addr{}, fmt.Errorf("cluster %s has no place here yet: %s", peer, strings.Join(texts, "; "))
	}
	return translation.ToView(address)
}

// healthy waits until the ForeignCluster reports every module that was set up as healthy.
func (c *cluster) healthy(ctx context.Context, peer string, network, node bool) error {
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}}
	step := c.Start("Waiting for the peering with %s to be healthy", peer)
	defer step.End()
	err := c.wait(ctx, step, foreign, func() verdict {
		modules := foreign.Status.Modules
		networking, networkAlerts := statusOf(modules.Networking)
		authentication, authenticationAlerts := authenticationOf(foreign)
		offloading, offloadingAlerts := statusOf(modules.Offloading)
		var missing []string
		for _, module := range []struct {
			name   string
			wanted bool
			status moduleStatus
			alerts []string
		}{
			{"networking", network, networking, networkAlerts}, {"authentication", true, authentication, authenticationAlerts},
			{"offloading", node, offloading, offloadingAlerts},
		} {
			if module.status == moduleUnhealthy || (module.wanted && module.status == moduleDisabled) {
				missing = append(missing, strings.TrimSpace(fmt.Sprintf("%s is %s %s", module.name, module.status, strings.Join(module.alerts, "; "))))
			}
		}
		if len(missing) > 0 {
			return notYet("%s", strings.Join(missing, ", "))
		}
		return yes()
	})
	if err != nil {
		return err
	}
	step.End()
	if c.isDryRun() {
		return nil
	}
	return c.conclude(ctx, peer)
}

// New objects may need a moment until all conditions are up to date.
const (
	settleTime  = 5 * time.Second
	settlePause = 500 * time.Millisecond
)

// conclude ends a command that peers. It warns about the doctor's findings for the installation and the peering, or reports that the
// peering is healthy.
func (c *cluster) conclude(ctx context.Context, peer string) error {
	step := c.Start("Waiting for doctor to find the peering with %s healthy", peer)
	defer step.End()
	var found []doctor.Finding
	for end := time.Now().Add(settleTime); ; {
		findings := c.diagnosis(ctx)
		// A mere warning about the installation is not about this peering, for example a namespace that is offloaded to no cluster.
		found = slices.DeleteFunc(doctor.Installation(findings), func(f doctor.Finding) bool { return f.Level != doctor.Fail })
		found = append(found, doctor.OfPeer(findings, peer)...)
		found = slices.DeleteFunc(found, func(f doctor.Finding) bool { return f.Minor() })
		if len(found) == 0 {
			c.Did("The peering with %s is healthy", peer)
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			break
		}
		time.Sleep(settlePause)
	}
	for i := range found {
		c.Warn("%s\nCure: %s", found[i].Evidence, found[i].Cure)
	}
	c.Warn("The peering with %s is established, but not healthy: see above, and liqoctl doctor", peer)
	return nil
}

// bothWays reports whether the remote cluster is also a consumer of the local one. Both peerings then share one network.
func (p *pair) bothWays(ctx context.Context) (bool, error) {
	var tenants authv1beta1.TenantList
	if err := p.local.listOfPeer(ctx, &tenants, "", p.remote.id); err != nil {
		return false, err
	}
	return len(tenants.Items) > 0, nil
}
