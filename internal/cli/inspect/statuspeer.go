package inspect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
)

func statusPeerCommand(a *session.Session) *cobra.Command {
	var output cmdline.Output
	command := &cobra.Command{
		Use:     "peer [CLUSTER-ID...]",
		Aliases: []string{"peers"},
		Short:   "Show the state of peerings: directions, connection, resources",
		Long: "Show the peerings with the named clusters, or with all: which cluster uses resources of the other, how the clusters are connected and\n" +
			"authenticated, and the resources acquired from and shared with each peer. With --verbose, also show each request and virtual node, as\n" +
			"info peer does.",
		Example: cmdline.Example(`
			%[1]s status peer
			%[1]s status peer milan`),
		Args: cobra.ArbitraryArgs,
		RunE: a.OnInstalled(nil, output.Validate, func(ctx context.Context, c *session.Cluster, args []string) error {
			peers, err := gatherPeers(ctx, c, args)
			if err != nil {
				return err
			}
			if output.Format != "" {
				return cmdline.Write(c.Out(), peersByID(peers), output.Format)
			}
			if len(peers) == 0 {
				c.Info("This cluster has no peers")
			}
			for _, peer := range peers {
				if err := peer.writeStatus(c.Console); err != nil {
					return err
				}
				if a.Verbose {
					if err := peer.write(c.Console); err != nil {
						return err
					}
				}
			}
			return nil
		}),
		ValidArgsFunction: a.Complete(session.PeerIDs),
	}
	output.Add(command.Flags(), "Print everything for programs")
	return command
}

func peersByID(peers []*peerInfo) map[string]*peerInfo {
	out := map[string]*peerInfo{}
	for _, peer := range peers {
		out[peer.ClusterID] = peer
	}
	return out
}

func (p *peerInfo) writeStatus(c *console.Console) error {
	box := console.Box{Title: p.ClusterID}
	if p.Former {
		box.Line(0, "Former peer: the peering was undone", "")
		return box.Write(c.Out())
	}
	problems(&box, 0, p.Problems)
	phase := func(value corev1beta1.Phase) string { return cmp.Or(string(value), string(corev1beta1.PhaseNone)) }
	box.Line(0, "Type", string(p.summary.Type))
	box.Line(0, "Direction", "")
	box.Line(1, "Outgoing", phase(p.summary.Outgoing))
	box.Line(1, "Incoming", phase(p.summary.Incoming))
	box.Line(0, "Authentication", "")
	box.Line(1, "Status", phase(p.summary.Authentication))
	Alerts(&box, p.Authentication.Alerts)
	box.Line(0, "Network", "")
	box.Line(1, "Status", phase(p.summary.Networking))
	Alerts(&box, p.Network.Alerts)
	p.Network.lines(&box)
	if p.Authentication.APIServerAddr != "" {
		box.Line(0, "API server", "")
		box.Line(1, "URL", p.Authentication.APIServerAddr)
		if p.proxyURL != "" {
			box.Line(1, "Proxy URL", p.proxyURL)
		}
	}
	box.Line(0, "Resources", "")
	Alerts(&box, p.Offloading.Alerts)
	for _, of := range []struct{ title, action string }{{"Total acquired", "Consuming"}, {"Total shared", "Providing"}} {
		total, _ := totalOf(p.Authentication.ResourceSlices, of.action)
		if len(total) == 0 {
			box.Line(1, of.title, "none")
			continue
		}
		box.Line(1, of.title, "")
		Amounts(&box, total)
	}
	return box.Write(c.Out())
}

// Alerts adds a line to a box for each problem.
func Alerts(box *console.Box, texts []string) {
	for _, text := range texts {
		box.Line(1, fmt.Sprintf("✖ %s", text), "")
	}
}
