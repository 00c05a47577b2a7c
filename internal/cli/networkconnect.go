package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/network"
)

// end is one side of a tunnel: a cluster and its gateway for a peer.
type end struct {
	*session.Cluster
	// peer is the cluster ID of the other end. namespace is the tenant namespace of the peering with it.
	peer, namespace string
	gateways        gateways
}

// tunnel is the connection of two clusters through their gateways.
type tunnel struct {
	server, client *end
	options        *networkOptions
	// at is the endpoint of the server that the client dials.
	at networkingv1beta1.Endpoint
}

// connectNetwork sets up the network between the clusters. It creates missing objects. It changes existing objects only where the user set
// a flag. A comment says what a step waits for.
func connectNetwork(ctx context.Context, p *session.Pair, o *networkOptions) (*tunnel, error) {
	if err := p.EnsureNamespaces(ctx); err != nil {
		return nil, err
	}
	t, err := tunnelBetween(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return t, session.InOrder(ctx,
		t.exchangeRanges, // each cluster has mapped the ranges of the other
		t.ensureServer,   // the GatewayServer has an address, unless the user gives it
		t.ensureClient,
		t.exchangeKeys, // each gateway has keys, unless the user exchanges them
	)
}

// peerNetwork connects the networks of a peering and waits until the tunnel is connected. It returns nil if the peering has no network.
func peerNetwork(ctx context.Context, p *session.Pair, o *peerOptions) (*tunnel, error) {
	if o.networkingDisabled {
		p.Local.Info("The networks are not connected (--networking-disabled): offloaded pods reach the pods of this cluster only if the infrastructure routes the traffic")
		if both := sharedRanges(ctx, p); both != "" {
			p.Local.Warn("Pods of both clusters have addresses of %s, so the same address can mean different pods: pods offloaded to %s have no address in their status. They have one if the networks are connected (without --networking-disabled)", both, p.Remote.ID)
		}
		warnWithoutEffect(p, &o.network)
		return nil, nil
	}
	for _, c := range []*session.Cluster{p.Local, p.Remote} {
		why, err := whyNoNetwork(ctx, c)
		if err != nil {
			return nil, err
		}
		if why == "" {
			continue
		}
		if o.auth.inBand {
			return nil, c.Err(fmt.Errorf("--in-band needs a tunnel, and no tunnel to cluster %s is possible: %s", c.ID, why))
		}
		c.Warn("The networks are not connected because of cluster %s: %s. Until then offloaded pods reach the pods of the consumer only if the infrastructure routes the traffic", c.ID, why)
		warnWithoutEffect(p, &o.network)
		return nil, nil
	}
	t, err := connectNetwork(ctx, p, &o.network)
	if err != nil {
		return nil, err
	}
	return t, t.connected(ctx)
}

// sharedRanges returns the local pod ranges that overlap those of the remote cluster. It is empty if none overlap or the user may not read
// them.
func sharedRanges(ctx context.Context, p *session.Pair) string {
	var ranges [2][]netip.Prefix
	for i, c := range []*session.Cluster{p.Local, p.Remote} {
		networks, err := ownNetworks(ctx, c, ipamv1alpha1.NetworkTypePod)
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

// whyNoNetwork returns the reason why the network of a cluster cannot be connected, with the cure; empty if it can be connected.
func whyNoNetwork(ctx context.Context, c *session.Cluster) (string, error) {
	networks, err := ownNetworks(ctx, c, ipamv1alpha1.NetworkTypeExternal)
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("the user of its kubeconfig may not read Networks in namespace %s. An administrator of both clusters must connect them (liqoctl network connect)", c.Namespace), nil
	}
	if err != nil {
		return "", err
	}
	if len(networks) == 0 {
		return "it is installed without networking. Install it with networking.enabled=true", nil
	}
	var templates networkingv1beta1.WgGatewayServerTemplateList
	err = c.List(ctx, &templates)
	if apierrors.IsForbidden(err) {
		return "the user of its kubeconfig may not read WgGatewayServerTemplates. It takes an administrator of both clusters to connect them (liqoctl network connect)", nil
	}
	if err != nil && !kube.Absent(err) {
		return "", c.Err(fmt.Errorf("reading WgGatewayServerTemplates: %w", err))
	}
	if len(templates.Items) == 0 {
		return "another network connects its pods. A tunnel needs networking.internal=true", nil
	}
	return "", nil
}

// checkNetworks fails if the network of one of the clusters cannot be connected, unless the user skips this check.
func checkNetworks(ctx context.Context, p *session.Pair, skip bool) error {
	check := func(c *session.Cluster) error {
		why, err := whyNoNetwork(ctx, c)
		if err == nil && why != "" {
			err = c.Err(fmt.Errorf("no tunnel to cluster %s is possible: %s", c.ID, why))
		}
		return err
	}
	if skip {
		return nil
	}
	return session.Both(func() error { return check(p.Local) }, func() error { return check(p.Remote) })
}

// tunnelBetween determines which cluster has the server and which the client. Existing gateways decide, then the user's flag. By default the
// provider has the server. A cluster without a tenant namespace has no gateways.
func tunnelBetween(ctx context.Context, p *session.Pair, o *networkOptions) (*tunnel, error) {
	local, remote := &end{Cluster: p.Local, peer: p.Remote.ID, namespace: p.Here}, &end{Cluster: p.Remote, peer: p.Local.ID, namespace: p.There}
	look := func(e *end) error {
		if e.namespace == "" { // so it has no gateways: an empty namespace would mean all namespaces
			return nil
		}
		found, err := findGateways(ctx, e.Cluster, e.namespace, e.peer)
		if err == nil {
			e.gateways = *found
		}
		return err
	}
	if err := session.Both(func() error { return look(local) }, func() error { return look(remote) }); err != nil {
		return nil, err
	}
	switch {
	case local.gateways.server != nil && remote.gateways.server != nil, local.gateways.client != nil && remote.gateways.client != nil:
		return nil, fmt.Errorf("both clusters have the same side of the tunnel, %s in %s and %s in %s: delete one of them",
			local.gateways.describe(), local.ID,
			remote.gateways.describe(), remote.ID)
	case local.gateways.server != nil || remote.gateways.client != nil:
		if o.located && !o.serverHere {
			p.Local.Warn("The existing tunnel has its server in %s and is not changed: to move the server, delete the tunnel first with liqoctl network disconnect", local.ID)
		}
		return &tunnel{server: local, client: remote, options: o}, nil
	case local.gateways.client != nil || remote.gateways.server != nil:
		if o.located && o.serverHere {
			p.Local.Warn("The existing tunnel has its server in %s and is not changed: to move the server, delete the tunnel first with liqoctl network disconnect", remote.ID)
		}
		return &tunnel{server: remote, client: local, options: o}, nil
	case o.serverHere:
		return &tunnel{server: local, client: remote, options: o}, nil
	default:
		return &tunnel{server: remote, client: local, options: o}, nil
	}
}

// exchangeRanges creates in each cluster the Configuration with the ranges of the other, and waits until both are mapped.
func (t *tunnel) exchangeRanges(ctx context.Context) error {
	return t.atBothEnds(ctx, func(ctx context.Context, e, other *end) error {
		ranges, err := ownCIDRs(ctx, other.Cluster)
		if err != nil {
			return err
		}
		object, err := e.ensureConfiguration(ctx, ranges)
		if err != nil {
			return err
		}
		return e.Reach(ctx, mappedGoal(object))
	})
}

// atBothEnds runs a step at both ends of the tunnel concurrently.
func (t *tunnel) atBothEnds(ctx context.Context, step func(ctx context.Context, e, other *end) error) error {
	return session.Together(ctx, func(ctx context.Context) error { return step(ctx, t.client, t.server) },
		func(ctx context.Context) error { return step(ctx, t.server, t.client) })
}

// ownNetworks returns the Networks of one type that describe this cluster itself, sorted by name.
func ownNetworks(ctx context.Context, c *session.Cluster, of ipamv1alpha1.NetworkType) ([]ipamv1alpha1.Network, error) {
	var list ipamv1alpha1.NetworkList
	err := c.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingLabels{ipamv1alpha1.LabelNetworkType: of})
	if err != nil && !kube.Absent(err) {
		return nil, c.Err(fmt.Errorf("reading Networks of type %s in namespace %s: %w", of, c.Namespace, err))
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// ownCIDRs returns the pod and external CIDRs of this cluster for its peers. It waits until each is allocated.
func ownCIDRs(ctx context.Context, c *session.Cluster) (networkingv1beta1.CIDRs, error) {
	var out networkingv1beta1.CIDRs
	for _, part := range []struct {
		of ipamv1alpha1.NetworkType
		to *[]string
	}{{ipamv1alpha1.NetworkTypePod, &out.Pod}, {ipamv1alpha1.NetworkTypeExternal, &out.External}} {
		networks, err := ownNetworks(ctx, c, part.of)
		if err != nil {
			return out, err
		}
		if len(networks) == 0 {
			return out, c.Err(fmt.Errorf("namespace %s has no Network labelled %s=%s: install again with networking.enabled=true and the address ranges of the cluster",
				c.Namespace, ipamv1alpha1.LabelNetworkType, part.of))
		}
		for i := range networks {
			if err := c.Reach(ctx, rangeGoal(&networks[i])); err != nil {
				return out, err
			}
			*part.to = append(*part.to, networks[i].Status.CIDR)
		}
	}
	return out, nil
}

// configuration returns the Configuration that Liqo uses for the peer, or nil if there is none. If all Configurations of the peer are being
// deleted, it returns one of them.
func (e *end) configuration(ctx context.Context) (*networkingv1beta1.Configuration, error) {
	var list networkingv1beta1.ConfigurationList
	if err := session.ListOfPeer(ctx, e.Cluster, &list, e.namespace, e.peer); err != nil {
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
		// The peer reports its own ranges, so they are checked like those of a NetworkRequest: here, and by the controllers wherever the annotation is set.
		if err := network.CheckFacts(&networkingv1beta1.NetworkFacts{CIDR: ranges}); err != nil {
			return nil, e.Err(fmt.Errorf("reading the ranges of cluster %s: %w", e.peer, err))
		}
		object = configuration(e.namespace, e.peer, e.peer, ranges)
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
		if _, err := e.Ensure(ctx, object, func() error { return nil }); err != nil {
			return nil, err
		}
		e.Did("Configuration %s correctly ensured", object.Name)
		return object, nil
	}
	if object.DeletionTimestamp != nil {
		return nil, e.Err(e.Leaving(object))
	}
	if differs := differences(object.Spec.Remote.CIDR, ranges); differs != "" {
		e.Warn("Cluster %s has %s in %s, which is not changed: run liqoctl network reset, then connect, to use the new ranges",
			e.peer, differs, e.Name(object))
	} else {
		e.Verbose("Configuration %s is there already", object.Name)
	}
	return object, nil
}

// exchangeKeys waits until each gateway has keys, and stores its public key in the other cluster.
func (t *tunnel) exchangeKeys(ctx context.Context) error {
	if t.options.keysNotShared {
		t.client.Info("The keys are not shared (--disable-sharing-keys): liqoctl generate publickey prints the key of each gateway")
		return nil
	}
	return t.atBothEnds(ctx, func(ctx context.Context, e, other *end) error {
		keys := other.gateways.keys(other.namespace)
		if err := other.Reach(ctx, keysGoal(other.Cluster, keys, &other.gateways)); err != nil {
			return err
		}
		return ensureKey(ctx, e.Cluster, e.namespace, e.peer, keys.Data[networkingv1beta1.SecretPublicKey], "held another key than the gateway has: replaced")
	})
}

// connected waits until both ends report the tunnel as connected.
func (t *tunnel) connected(ctx context.Context) error {
	began := time.Now()
	if err := session.Together(ctx, t.client.ToReach(t.client.connectedGoal()), t.server.ToReach(t.server.connectedGoal())); err != nil {
		if why := t.evidence(time.Since(began)); why != "" {
			return fmt.Errorf("%w\n%s", err, why)
		}
		return err
	}
	t.client.Did("Connection is established")
	t.client.Verbose("Both ends of the tunnel were connected after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}
