package tunnel

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// End is one side of a tunnel: a cluster and its gateway for a peer.
type End struct {
	*session.Cluster
	// Peer is the cluster ID of the other end. TenantNamespace is the tenant namespace of the peering with it.
	Peer, TenantNamespace string
	Gateways              Gateways
}

// Tunnel is the connection of two clusters through their gateways.
type Tunnel struct {
	Server, Client *End
	options        *Options
	// at is the endpoint of the server that the client dials.
	at networkingv1beta1.Endpoint
}

// Connect sets up the network between the clusters. It creates missing objects. It changes existing objects only where the user set a flag. The comment at
// each step says what holds when that step ends.
func Connect(ctx context.Context, p *session.Pair, o *Options) (*Tunnel, error) {
	if err := p.EnsureNamespaces(ctx); err != nil {
		return nil, err
	}
	t, err := Between(ctx, p, o)
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

// WhyNone returns the reason why the network of a cluster cannot be connected, with the cure; empty if it can be connected.
func WhyNone(ctx context.Context, c *session.Cluster) (string, error) {
	networks, err := OwnNetworks(ctx, c, ipamv1alpha1.NetworkTypeExternal)
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("the user of its kubeconfig may not read Networks in namespace %s. An administrator of both clusters must connect them (liqoctl network connect)", c.Namespace), nil
	}
	if err != nil {
		return "", err
	}
	if len(networks) == 0 {
		return "it is installed without the network of Liqo. If no other network connects its pods, install it with networking.enabled=true and networking.internal=true", nil
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
		return "it has no templates of gateways. A tunnel needs networking.internal=true", nil
	}
	return "", nil
}

// Check fails if the network of one of the clusters cannot be connected, unless the user skips this check.
func Check(ctx context.Context, p *session.Pair, skip bool) error {
	check := func(c *session.Cluster) error {
		why, err := WhyNone(ctx, c)
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

// Between determines which cluster has the server of the tunnel, and which has the client. Existing gateways decide this. Without any, the user's flag
// decides. Without the flag, the provider has the server. A cluster without a tenant namespace has no gateways.
func Between(ctx context.Context, p *session.Pair, o *Options) (*Tunnel, error) {
	local, remote := &End{Cluster: p.Local, Peer: p.Remote.ID, TenantNamespace: p.Here}, &End{Cluster: p.Remote, Peer: p.Local.ID, TenantNamespace: p.There}
	look := func(e *End) error {
		if e.TenantNamespace == "" { // so it has no gateways: an empty namespace would mean all namespaces
			return nil
		}
		found, err := FindGateways(ctx, e.Cluster, e.TenantNamespace, e.Peer)
		if err == nil {
			e.Gateways = *found
		}
		return err
	}
	if err := session.Both(func() error { return look(local) }, func() error { return look(remote) }); err != nil {
		return nil, err
	}
	switch {
	case local.Gateways.Server != nil && remote.Gateways.Server != nil, local.Gateways.Client != nil && remote.Gateways.Client != nil:
		return nil, fmt.Errorf("both clusters have the same side of the tunnel, %s in %s and %s in %s: delete one of them",
			local.Gateways.describe(), local.ID,
			remote.Gateways.describe(), remote.ID)
	case local.Gateways.Server != nil || remote.Gateways.Client != nil:
		if o.Located && !o.serverHere {
			p.Local.Warn("The existing tunnel has its server in %s and is not changed: to move the server, delete the tunnel first with liqoctl network disconnect", local.ID)
		}
		return &Tunnel{Server: local, Client: remote, options: o}, nil
	case local.Gateways.Client != nil || remote.Gateways.Server != nil:
		if o.Located && o.serverHere {
			p.Local.Warn("The existing tunnel has its server in %s and is not changed: to move the server, delete the tunnel first with liqoctl network disconnect", remote.ID)
		}
		return &Tunnel{Server: remote, Client: local, options: o}, nil
	case o.serverHere:
		return &Tunnel{Server: local, Client: remote, options: o}, nil
	default:
		return &Tunnel{Server: remote, Client: local, options: o}, nil
	}
}

// exchangeRanges creates a Configuration in each cluster with the ranges of the other cluster. It waits until both clusters have mapped them.
func (t *Tunnel) exchangeRanges(ctx context.Context) error {
	return t.atBothEnds(ctx, func(ctx context.Context, e, other *End) error {
		ranges, err := OwnCIDRs(ctx, other.Cluster)
		if err != nil {
			return err
		}
		object, err := e.ensureConfiguration(ctx, ranges)
		if err != nil {
			return err
		}
		return e.Reach(ctx, MappedGoal(object))
	})
}

// atBothEnds runs a step at both ends of the tunnel concurrently.
func (t *Tunnel) atBothEnds(ctx context.Context, step func(ctx context.Context, e, other *End) error) error {
	return session.Together(ctx, func(ctx context.Context) error { return step(ctx, t.Client, t.Server) },
		func(ctx context.Context) error { return step(ctx, t.Server, t.Client) })
}

// exchangeKeys waits until each gateway has keys, and stores the public key of each gateway in the other cluster.
func (t *Tunnel) exchangeKeys(ctx context.Context) error {
	if t.options.KeysNotShared {
		t.Client.Info("The keys are not shared (--disable-sharing-keys): liqoctl generate publickey prints the key of each gateway")
		return nil
	}
	return t.atBothEnds(ctx, func(ctx context.Context, e, other *End) error {
		keys := other.Gateways.Keys(other.TenantNamespace)
		if err := other.Reach(ctx, KeysGoal(other.Cluster, keys, &other.Gateways)); err != nil {
			return err
		}
		return ensureKey(ctx, e.Cluster, e.TenantNamespace, e.Peer, keys.Data[networkingv1beta1.SecretPublicKey], "held another key than the gateway has: replaced")
	})
}

// Connected waits until both ends report the tunnel as connected.
func (t *Tunnel) Connected(ctx context.Context) error {
	began := time.Now()
	if err := session.Together(ctx, t.Client.ToReach(t.Client.ConnectedGoal()), t.Server.ToReach(t.Server.ConnectedGoal())); err != nil {
		if why := t.evidence(time.Since(began)); why != "" {
			return fmt.Errorf("%w\n%s", err, why)
		}
		return err
	}
	t.Client.Did("Connection is established")
	t.Client.Verbose("Both ends of the tunnel were connected after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}
