package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// end is one end of a tunnel: a cluster, and its gateway for a peer.
type end struct {
	*cluster
	// peer is the ID of the cluster at the other end, namespace that of the peering with it.
	peer, namespace string
	gateways        gateways
}

// tunnel is what connects two clusters.
type tunnel struct {
	server, client *end
	// at is where the client dials the server.
	at networkingv1beta1.Endpoint
}

// connectNetwork completes the network between the clusters: it makes what is missing, and changes what exists only where a flag that was
// given asks for it.
func (p *pair) connectNetwork(ctx context.Context, o *networkOptions) (*tunnel, error) {
	if !o.skipValidation {
		if err := both(func() error { return p.local.canConnect(ctx) }, func() error { return p.remote.canConnect(ctx) }); err != nil {
			return nil, err
		}
	}
	t, err := p.ends(ctx, o, true)
	if err != nil {
		return nil, err
	}
	if err := t.exchangeRanges(ctx); err != nil {
		return nil, err
	}
	if err := t.server.ensureServer(ctx, o); err != nil {
		return nil, err
	}
	if t.at, err = t.endpoint(ctx, o); err != nil {
		return nil, err
	}
	if err := t.client.ensureClient(ctx, t.at, o); err != nil {
		return nil, err
	}
	if o.keysNotShared {
		t.client.Info("The keys are not shared (--disable-sharing-keys): liqoctl generate publickey prints that of each gateway")
		return t, nil
	}
	return t, t.exchangeKeys(ctx)
}

// whyNoNetwork tells why a cluster can't be connected; empty when it can.
func (c *cluster) whyNoNetwork(ctx context.Context) (string, error) {
	networks, err := c.ownNetworks(ctx, ipamv1alpha1.NetworkTypeExternal)
	if apierrors.IsForbidden(err) {
		return "the user of the kubeconfig may not read its Networks", nil
	}
	if err != nil {
		return "", err
	}
	if len(networks) == 0 {
		return "it is installed without networking (networking.enabled=false)", nil
	}
	var templates networkingv1beta1.WgGatewayServerTemplateList
	if err := c.List(ctx, &templates); err != nil && !absent(err) {
		return "", c.error(fmt.Errorf("reading WgGatewayServerTemplates: %w", err))
	}
	if len(templates.Items) == 0 {
		return "its network is somebody else's (networking.internal=false)", nil
	}
	return "", nil
}

func (c *cluster) canConnect(ctx context.Context) error {
	why, err := c.whyNoNetwork(ctx)
	if err == nil && why != "" {
		err = c.error(fmt.Errorf("no tunnel can be made, %s: the cluster has to be installed with networking.enabled=true and networking.internal=true, and its user be an administrator", why))
	}
	return err
}

// ends finds out which cluster has which end: what exists decides, then the user, then the habit that the provider has the server.
func (p *pair) ends(ctx context.Context, o *networkOptions, makeNamespaces bool) (*tunnel, error) {
	local, remote := &end{cluster: p.local, peer: p.remote.id}, &end{cluster: p.remote, peer: p.local.id}
	look := func(e *end) (err error) {
		if makeNamespaces {
			e.namespace, err = e.ensureTenantNamespace(ctx, e.peer)
		} else {
			e.namespace, err = e.findTenantNamespace(ctx, e.peer)
		}
		if err != nil || e.namespace == "" {
			return err
		}
		found, err := e.findGateways(ctx, e.namespace, e.peer)
		if err == nil {
			e.gateways = *found
		}
		return err
	}
	if err := both(func() error { return look(local) }, func() error { return look(remote) }); err != nil {
		return nil, err
	}
	switch {
	case local.gateways.server != nil && remote.gateways.server != nil, local.gateways.client != nil && remote.gateways.client != nil:
		return nil, fmt.Errorf("both clusters have the same end of the tunnel, %s in %s and %s in %s: delete one of them", local.gateways.describe(), local.id,
			remote.gateways.describe(), remote.id)
	case local.gateways.server != nil || remote.gateways.client != nil:
		if o.located && !o.serverHere {
			p.local.Warn("The tunnel exists with its server in %s and stays so: liqoctl network disconnect takes it down", local.id)
		}
		return &tunnel{server: local, client: remote}, nil
	case local.gateways.client != nil || remote.gateways.server != nil:
		if o.located && o.serverHere {
			p.local.Warn("The tunnel exists with its server in %s and stays so: liqoctl network disconnect takes it down", remote.id)
		}
		return &tunnel{server: remote, client: local}, nil
	case o.serverHere:
		return &tunnel{server: local, client: remote}, nil
	default:
		return &tunnel{server: remote, client: local}, nil
	}
}

// exchangeRanges tells each cluster the ranges of the other, and waits until they have a place there.
func (t *tunnel) exchangeRanges(ctx context.Context) error {
	learn := func(ctx context.Context, e, other *end) error {
		ranges, err := other.cidrs(ctx)
		if err != nil {
			return err
		}
		object, err := e.ensureConfiguration(ctx, ranges)
		if err != nil {
			return err
		}
		return e.configured(ctx, object)
	}
	return together(ctx, func(ctx context.Context) error { return learn(ctx, t.client, t.server) },
		func(ctx context.Context) error { return learn(ctx, t.server, t.client) })
}

// configuration is that of the peer, nil when there is none.
func (e *end) configuration(ctx context.Context) (*networkingv1beta1.Configuration, error) {
	var list networkingv1beta1.ConfigurationList
	if err := e.listOfPeer(ctx, &list, e.namespace, e.peer); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

func (e *end) ensureConfiguration(ctx context.Context, ranges networkingv1beta1.CIDRs) (*networkingv1beta1.Configuration, error) {
	object, err := e.configuration(ctx)
	if err != nil {
		return nil, err
	}
	if object == nil {
		object = configuration(e.namespace, e.peer, e.peer, ranges)
		if _, err := e.ensure(ctx, object, func() error { return nil }); err != nil {
			return nil, err
		}
		e.Info("Configuration %s correctly ensured", object.Name)
		return object, nil
	}
	if object.DeletionTimestamp != nil {
		return nil, e.error(e.leaving(object))
	}
	if differs := differences(object.Spec.Remote.CIDR, ranges); differs != "" {
		e.Warn("Cluster %s has %s as %s says, which stays as it is: liqoctl network reset, then connect, takes the new ranges", e.peer, differs, e.name(object))
	} else {
		e.Verbose("Configuration %s is there already", object.Name)
	}
	return object, nil
}

// change sets a field to what a flag asks for and notes it.
func change[T comparable](notes *[]string, field string, at *T, want T) {
	if *at != want {
		*notes = append(*notes, fmt.Sprintf("%s is %v, was %v", field, want, *at))
		*at = want
	}
}

// report says what became of a gateway that should be there.
func (c *cluster) report(object client.Object, existed bool, notes []string) {
	switch {
	case !existed:
		c.Info("%s correctly ensured", c.name(object))
	case len(notes) > 0:
		c.Info("%s exists already and was changed: %s", c.name(object), strings.Join(notes, "; "))
	default:
		c.Info("%s exists already", c.name(object))
	}
}

func (e *end) ensureServer(ctx context.Context, o *networkOptions) error {
	object := e.gateways.server
	existed := object != nil
	if !existed {
		object = &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.peer}}
	}
	var template corev1.ObjectReference
	if !existed || o.given("gw-server-template-name") || o.given("gw-server-template-namespace") || o.given("gw-server-type") {
		var err error
		if template, err = o.server.template.reference(e.cluster); err != nil {
			return err
		}
		if !o.skipValidation {
			if err := e.templateExists(ctx, &networkingv1beta1.WgGatewayServerTemplate{}, template, serverTemplates); err != nil {
				return err
			}
		}
	}
	var notes []string
	_, err := e.ensure(ctx, object, func() error {
		if object.DeletionTimestamp != nil {
			return e.leaving(object)
		}
		notes = nil
		if existed = object.ResourceVersion != ""; !existed {
			o.server.fill(object, template, e.peer, o.mtu)
			return nil
		}
		to := &object.Spec.Endpoint
		if o.given("gw-server-service-type") {
			change(&notes, "spec.endpoint.serviceType", &to.ServiceType, corev1.ServiceType(o.server.serviceType))
		}
		if o.given("gw-server-service-port") {
			change(&notes, "spec.endpoint.port", &to.Port, o.server.port)
			to.Ports = nil
		}
		if o.given("gw-server-service-nodeport") {
			change(&notes, "spec.endpoint.nodePort", &to.NodePort, o.server.nodePort)
			to.NodePorts = nil
		}
		if o.given("gw-server-service-loadbalancerip") {
			change(&notes, "spec.endpoint.loadBalancerIP", &to.LoadBalancerIP, o.server.loadBalancerIP)
		}
		if o.given("mtu") {
			change(&notes, "spec.mtu", &object.Spec.MTU, o.mtu)
		}
		if template.Name != "" {
			change(&notes, "spec.serverTemplateRef", &object.Spec.ServerTemplateRef, template)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.gateways.server = object
	e.report(object, existed, notes)
	return nil
}

// templateExists looks for the template of a kind that we know.
func (e *end) templateExists(ctx context.Context, template client.Object, reference corev1.ObjectReference, resource string) error {
	if reference.APIVersion != networkingv1beta1.GroupVersion.String() || !strings.HasPrefix(reference.Kind, "WgGateway") {
		return nil // somebody else's
	}
	err := e.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, template)
	if absent(err) {
		return e.error(fmt.Errorf("there is no %s %s in namespace %s, of which gateways are made (%s): name another, or install again", reference.Kind, reference.Name, reference.Namespace, resource))
	}
	if err != nil {
		return e.error(fmt.Errorf("reading %s %s: %w", reference.Kind, reference.Name, err))
	}
	return nil
}

// endpoint is where the client is to dial: what the user says, the rest from the server.
func (t *tunnel) endpoint(ctx context.Context, o *networkOptions) (networkingv1beta1.Endpoint, error) {
	out := networkingv1beta1.Endpoint{Port: o.clientPort, Protocol: corev1.ProtocolUDP}
	if o.clientAddress != "" {
		out.Addresses = []string{o.clientAddress}
	}
	if out.Port != 0 && len(out.Addresses) > 0 {
		return out, nil
	}
	published, err := t.server.serverEndpoint(ctx, t.server.gateways.server)
	if err != nil {
		return out, err
	}
	if len(out.Addresses) == 0 {
		out.Addresses = published.Addresses
	}
	if out.Port == 0 {
		out.Port, out.Ports = published.Port, published.Ports
	}
	out.Protocol = published.Protocol
	return out, nil
}

// serverEndpoint waits until a GatewayServer tells where it is reached.
func (c *cluster) serverEndpoint(ctx context.Context, server *networkingv1beta1.GatewayServer) (*networkingv1beta1.Endpoint, error) {
	step := c.Start("Waiting for the address of GatewayServer %s", server.Name)
	defer step.End()
	err := c.wait(ctx, step, server, func() verdict {
		endpoint := server.Status.Endpoint
		if endpoint == nil || len(endpoint.Addresses) == 0 || (endpoint.Port == 0 && len(endpoint.Ports) == 0) || stale(server) {
			return notYet("it has no address to dial in status.endpoint%s%s", reasons(readiness(server.Status.Conditions)), balancerHint(server))
		}
		return yes()
	})
	if err != nil {
		if trouble := c.gatewayTrouble(server.Namespace, &gateways{server: server}); trouble != "" {
			return nil, fmt.Errorf("%w; %s", err, trouble)
		}
		return nil, err
	}
	step.Done("GatewayServer %s is reached at %s", server.Name, endpointText(server.Status.Endpoint))
	return server.Status.Endpoint, nil
}

// stale tells whether a GatewayServer's status is older than what its spec asks for.
func stale(server *networkingv1beta1.GatewayServer) bool {
	for _, condition := range server.Status.Conditions {
		if condition.ObservedGeneration < server.Generation {
			return true
		}
	}
	return false
}

// readiness are the conditions without the one about the tunnel, which has to wait for what is waited for here.
func readiness(conditions []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return c.Type == networkingv1beta1.Connected })
}

// balancerHint tells why a Service of type LoadBalancer may stay without an address.
func balancerHint(server *networkingv1beta1.GatewayServer) string {
	if server.Spec.Endpoint.ServiceType != corev1.ServiceTypeLoadBalancer {
		return ""
	}
	return "; its Service is of type LoadBalancer: where nothing gives those an address, use type NodePort (--gw-server-service-type NodePort)"
}

func (e *end) ensureClient(ctx context.Context, at networkingv1beta1.Endpoint, o *networkOptions) error {
	object := e.gateways.client
	existed := object != nil
	if !existed {
		object = &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.peer}}
	}
	var template corev1.ObjectReference
	if !existed || o.given("gw-client-template-name") || o.given("gw-client-template-namespace") || o.given("gw-client-type") {
		var err error
		if template, err = o.client.reference(e.cluster); err != nil {
			return err
		}
		if !o.skipValidation {
			if err := e.templateExists(ctx, &networkingv1beta1.WgGatewayClientTemplate{}, template, clientTemplates); err != nil {
				return err
			}
		}
	}
	var notes []string
	_, err := e.ensure(ctx, object, func() error {
		if object.DeletionTimestamp != nil {
			return e.leaving(object)
		}
		notes = nil
		if existed = object.ResourceVersion != ""; !existed {
			fillClient(object, template, e.peer, at, o.mtu)
			return nil
		}
		to := &object.Spec.Endpoint
		if o.given("gw-client-address") && !slices.Equal(to.Addresses, at.Addresses) {
			notes = append(notes, fmt.Sprintf("spec.endpoint.addresses is %v, was %v", at.Addresses, to.Addresses))
			to.Addresses = at.Addresses
		}
		if o.given("gw-client-port") {
			change(&notes, "spec.endpoint.port", &to.Port, at.Port)
			to.Ports = nil
		}
		if o.given("mtu") {
			change(&notes, "spec.mtu", &object.Spec.MTU, o.mtu)
		}
		if template.Name != "" {
			change(&notes, "spec.clientTemplateRef", &object.Spec.ClientTemplateRef, template)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.gateways.client = object
	e.report(object, existed, notes)
	if dials := endpointText(&object.Spec.Endpoint); dials != endpointText(&at) {
		e.Warn("%s dials %s, while the server is reached at %s: it stays so; --gw-client-address %s --gw-client-port %d changes it", e.name(object), dials,
			endpointText(&at), at.Addresses[0], at.Port)
	}
	return nil
}

// exchangeKeys tells each cluster the public key of the other's gateway.
func (t *tunnel) exchangeKeys(ctx context.Context) error {
	tell := func(ctx context.Context, from, to *end) error {
		key, err := from.gatewayKey(ctx, from.namespace, &from.gateways)
		if err != nil {
			if trouble := from.gatewayTrouble(from.namespace, &from.gateways); trouble != "" {
				err = fmt.Errorf("%w; %s", err, trouble)
			}
			return err
		}
		return to.ensureKey(ctx, to.namespace, to.peer, key, "held another key than the gateway has: replaced")
	}
	return together(ctx, func(ctx context.Context) error { return tell(ctx, t.server, t.client) },
		func(ctx context.Context) error { return tell(ctx, t.client, t.server) })
}

// planNetwork tells what connectNetwork would find and make.
func (p *pair) planNetwork(ctx context.Context, o *networkOptions) error {
	if err := both(func() error { return p.local.canConnect(ctx) }, func() error { return p.remote.canConnect(ctx) }); err != nil {
		return err
	}
	t, err := p.ends(ctx, o, false)
	if err != nil {
		return err
	}
	show := func(e *end, kind, name string) {
		if name != "" {
			e.Info("%s %s exists", kind, name)
			return
		}
		e.Info("%s %s would be created", kind, e.peer)
	}
	for _, e := range []*end{t.server, t.client} {
		if show(e, "Tenant namespace", e.namespace); e.namespace == "" {
			show(e, "Configuration", "")
		} else if object, err := e.configuration(ctx); err != nil {
			return err
		} else if object != nil {
			show(e, "Configuration", object.Name)
		} else {
			show(e, "Configuration", "")
		}
		if e == t.server {
			show(e, "GatewayServer", e.gateways.name())
		} else {
			show(e, "GatewayClient", e.gateways.name())
		}
		var keys networkingv1beta1.PublicKeyList
		if e.namespace != "" {
			if err := e.listOfPeer(ctx, &keys, e.namespace, e.peer); err != nil {
				return err
			}
		}
		if len(keys.Items) > 0 {
			show(e, "PublicKey", keys.Items[0].Name)
		} else if !o.keysNotShared {
			show(e, "PublicKey", "")
		}
	}
	return nil
}

// connected waits until both ends of the tunnel say so.
func (t *tunnel) connected(ctx context.Context) error {
	began := time.Now()
	if err := together(ctx, t.client.connected, t.server.connected); err != nil {
		if why := t.evidence(time.Since(began)); why != "" {
			return fmt.Errorf("%w\n%s", err, why)
		}
		return err
	}
	t.client.Info("Connection is established")
	t.client.Verbose("Both ends of the tunnel were connected after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}
