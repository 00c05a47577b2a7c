package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// end is one end of a tunnel: a cluster and its gateway for a peer.
type end struct {
	*cluster
	// peer is the cluster ID of the other end. namespace is the tenant namespace of the peering with it.
	peer, namespace string
	gateways        gateways
}

// tunnel is the connection of two clusters through their gateways.
type tunnel struct {
	server, client *end
	// at is the endpoint of the server that the client dials.
	at networkingv1beta1.Endpoint
}

// connectNetwork sets up the network between the clusters. It creates missing objects. It changes existing objects only where the user set
// a flag.
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

// whyNoNetwork says why the network of a cluster cannot be connected, and the cure. It is empty if it can be connected.
func (c *cluster) whyNoNetwork(ctx context.Context) (string, error) {
	networks, err := c.ownNetworks(ctx, ipamv1alpha1.NetworkTypeExternal)
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("the user of its kubeconfig may not read Networks in namespace %s. It takes an administrator of both clusters to connect them (liqoctl network connect)", c.namespace), nil
	}
	if err != nil {
		return "", err
	}
	if len(networks) == 0 {
		return "it is installed without networking. It takes networking.enabled=true", nil
	}
	var templates networkingv1beta1.WgGatewayServerTemplateList
	err = c.List(ctx, &templates)
	if apierrors.IsForbidden(err) {
		return "the user of its kubeconfig may not read WgGatewayServerTemplates. It takes an administrator of both clusters to connect them (liqoctl network connect)", nil
	}
	if err != nil && !absent(err) {
		return "", c.error(fmt.Errorf("reading WgGatewayServerTemplates: %w", err))
	}
	if len(templates.Items) == 0 {
		return "its network is somebody else's. A tunnel takes networking.internal=true", nil
	}
	return "", nil
}

func (c *cluster) canConnect(ctx context.Context) error {
	why, err := c.whyNoNetwork(ctx)
	if err == nil && why != "" {
		err = c.error(fmt.Errorf("no tunnel can be made with cluster %s: %s", c.id, why))
	}
	return err
}

// ends determines which cluster has the server and which the client. Existing gateways decide, then the user's flag. By default the
// provider has the server.
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

// exchangeRanges creates in each cluster the Configuration with the ranges of the other, and waits until both are mapped.
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

// configuration returns the Configuration of the peer that counts, or nil if there is none. It returns one that is being deleted only if there is no
// other.
func (e *end) configuration(ctx context.Context) (*networkingv1beta1.Configuration, error) {
	var list networkingv1beta1.ConfigurationList
	if err := e.listOfPeer(ctx, &list, e.namespace, e.peer); err != nil {
		return nil, err
	}
	inUse := network.ConfigurationInUse(list.Items, e.peer)
	if inUse == nil && len(list.Items) > 0 {
		return &list.Items[0], nil
	}
	return inUse, nil
}

func (e *end) ensureConfiguration(ctx context.Context, ranges networkingv1beta1.CIDRs) (*networkingv1beta1.Configuration, error) {
	object, err := e.configuration(ctx)
	if err != nil {
		return nil, err
	}
	if object == nil {
		// The peer reports its own ranges. Traffic to public addresses must not be routed to it, unless an administrator of this cluster
		// configures that.
		for _, text := range slices.Concat(ranges.Pod, ranges.External) {
			if _, err := network.CheckRange(text); err != nil {
				return nil, e.error(fmt.Errorf("reading the ranges of cluster %s: %w", e.peer, err))
			}
		}
		object = configuration(e.namespace, e.peer, e.peer, ranges)
		if _, err := e.ensure(ctx, object, func() error { return nil }); err != nil {
			return nil, err
		}
		e.Did("Configuration %s correctly ensured", object.Name)
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

// exchangeKeys waits until both gateways have keys, and stores each public key in the other cluster.
func (t *tunnel) exchangeKeys(ctx context.Context) error {
	keys := map[*end][]byte{}
	var mu sync.Mutex
	read := func(ctx context.Context, e *end) error {
		key, err := e.gatewayKey(ctx, e.namespace, &e.gateways)
		if err != nil {
			if trouble := e.gatewayTrouble(e.namespace, &e.gateways); trouble != "" {
				err = fmt.Errorf("%w; %s", err, trouble)
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		keys[e] = key
		return nil
	}
	if err := together(ctx, func(ctx context.Context) error { return read(ctx, t.server) },
		func(ctx context.Context) error { return read(ctx, t.client) }); err != nil {
		return err
	}
	tell := func(ctx context.Context, from, to *end) error {
		return to.ensureKey(ctx, to.namespace, to.peer, keys[from], "held another key than the gateway has: replaced")
	}
	return together(ctx, func(ctx context.Context) error { return tell(ctx, t.server, t.client) },
		func(ctx context.Context) error { return tell(ctx, t.client, t.server) })
}

// connected waits until both ends report the tunnel as connected.
func (t *tunnel) connected(ctx context.Context) error {
	began := time.Now()
	if err := together(ctx, t.client.connected, t.server.connected); err != nil {
		if why := t.evidence(time.Since(began)); why != "" {
			return fmt.Errorf("%w\n%s", err, why)
		}
		return err
	}
	t.client.Did("Connection is established")
	t.client.Verbose("Both ends of the tunnel were connected after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}
