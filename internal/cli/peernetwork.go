package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// peerNetwork connects the networks of a peering and waits until the tunnel is connected. It returns nil if the peering has no network.
func peerNetwork(ctx context.Context, p *session.Pair, o *peerOptions) (*tunnel.Tunnel, error) {
	if o.networkingDisabled {
		p.Local.Info("The networks are not connected (--networking-disabled): offloaded pods reach the pods of this cluster only if the infrastructure routes the traffic")
		if both := sharedRanges(ctx, p); both != "" {
			p.Local.Warn("Pods of both clusters have addresses of %s, so the same address can mean different pods: pods offloaded to %s have no address in their status. They have one if the networks are connected (without --networking-disabled)", both, p.Remote.ID)
		}
		tunnel.WarnWithoutEffect(p, &o.network)
		return nil, nil
	}
	for _, c := range []*session.Cluster{p.Local, p.Remote} {
		why, err := tunnel.WhyNone(ctx, c)
		if err != nil {
			return nil, err
		}
		if why == "" {
			continue
		}
		if o.auth.InBand {
			return nil, c.Err(fmt.Errorf("--in-band needs a tunnel, and no tunnel to cluster %s is possible: %s", c.ID, why))
		}
		c.Warn("The networks are not connected because of cluster %s: %s. Until then offloaded pods reach the pods of the consumer only if the infrastructure routes the traffic", c.ID, why)
		tunnel.WarnWithoutEffect(p, &o.network)
		return nil, nil
	}
	t, err := tunnel.Connect(ctx, p, &o.network)
	if err != nil {
		return nil, err
	}
	return t, t.Connected(ctx)
}

// sharedRanges returns the local pod ranges that overlap those of the remote cluster. It is empty if none overlap or the user may not read
// them.
func sharedRanges(ctx context.Context, p *session.Pair) string {
	var ranges [2][]netip.Prefix
	for i, c := range []*session.Cluster{p.Local, p.Remote} {
		networks, err := tunnel.OwnNetworks(ctx, c, ipamv1alpha1.NetworkTypePod)
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
