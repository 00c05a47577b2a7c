package cli

import (
	"context"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// peerInBandCommand returns the command peer in-band, the older form of peer --in-band.
func peerInBandCommand(a *session.Session) *cobra.Command {
	var o peerOptions
	command := &cobra.Command{
		Use:     "in-band",
		Aliases: []string{"ib"},
		Short:   "Peer through the tunnel, if the API server of the provider is not reachable directly",
		Long: "Peer the local cluster, the consumer, with the remote one, the provider, and send the traffic of their control planes through the\n" +
			"tunnel. Then only the gateways must reach each other. The command is the same as peer --in-band. If it was interrupted, run it again:\n" +
			"it resumes where it stopped.",
		Example: cmdline.Example(`
			# The API server of milan can be reached from here, but not from the cluster rome
			%[1]s peer in-band --context rome --remote-context milan
			# Let the administrator of milan use rome too (peer rome, run there)
			%[1]s peer in-band --context rome --remote-context milan --invite
			# And rome's resources become a node of milan too
			%[1]s peer in-band --context rome --remote-context milan --bidirectional`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	flags.BoolVar(&o.bidirectional, "bidirectional", false, "Also peer the remote cluster with the local one")
	o.addBoth(command)
	a.AddDryRun(flags)
	o.auth.AddForce(flags)
	o.auth.AddInvite(flags)
	o.auth.InBand, o.auth.Given = true, func(name string) bool { return name == "in-band" }
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, _ []string) error {
		p, err := runPeer(ctx, a, remote, &o)
		if err != nil || !o.bidirectional {
			return err
		}
		resources, err := o.resources.List()
		if err != nil {
			return err
		}
		// The reverse peering uses the same tunnel, so the gateway server stays in its cluster.
		o.network.Located, o.bidirectional, o.auth.Invite = false, false, false
		back := p.Reversed()
		return session.ExplainPair(back, peerPair(ctx, back, &o, resources))
	})
	return command
}
