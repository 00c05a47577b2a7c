// Package networking has the command that connects the networks of two clusters: network connect, disconnect, reset, rotate-keys and explain.
package networking

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/explain"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// commonFlags holds the flags of all network commands.
type commonFlags struct {
	timeout              time.Duration
	wait, skipValidation bool
}

func (f *commonFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.timeout, "timeout", tunnel.GatewayTimeout, "Maximum time for the whole command")
	flags.BoolVar(&f.wait, "wait", false, "Wait until the tunnel is connected, or everything is deleted")
	flags.BoolVar(&f.skipValidation, "skip-validation", false, "Skip the check whether both clusters can be connected")
}

// Command returns the command. ask lets the control planes of two clusters that have peered connect their networks, for users who may not create gateways
// in the remote cluster. With wait, it waits until the tunnel is connected.
func Command(a *session.Session, ask func(ctx context.Context, p *session.Pair, wait bool) error) *cobra.Command {
	var common commonFlags
	command := cmdline.Group(&cobra.Command{
		Use:   "network",
		Short: "Connect the networks of two clusters",
		Long: "Connect the networks of the local and the remote cluster, so that pods reach each other even if the address ranges overlap, or\n" +
			"disconnect them. peer and unpeer also do this.",
		Example: cmdline.Example(`
			# Pods of this cluster and of the one of milan.yaml reach each other; milan has no load balancers
			%[1]s network connect --remote-kubeconfig milan.yaml --gw-server-service-type NodePort --wait`),
	}, connectCommand(a, ask, &common), disconnectCommand(a, &common), resetCommand(a, &common), rotateKeysCommand(a, &common),
		explain.Command(a, &common.timeout))
	common.add(command.PersistentFlags())
	return command
}

func connectCommand(a *session.Session, ask func(ctx context.Context, p *session.Pair, wait bool) error, common *commonFlags) *cobra.Command {
	var o tunnel.Options
	command := &cobra.Command{
		Use:   "connect",
		Short: "Create a tunnel between two clusters",
		Long: "Connect the networks of the local and the remote cluster: exchange their address ranges, and create a tunnel with its server in the\n" +
			"remote cluster and its client in the local one. Objects that exist already are not changed, unless a flag requests a change, and\n" +
			"missing objects are created. So the command can be run again at any time.",
		Example: cmdline.Example(`
			# A tunnel to milan, which has load balancers
			%[1]s network connect --remote-kubeconfig milan.yaml --wait
			# The server behind a port of milan's nodes, reached through the address of a firewall
			%[1]s network connect --remote-kubeconfig milan.yaml --gw-server-service-type NodePort \
			    --gw-server-service-nodeport 30840 --gw-client-address 203.0.113.7 --gw-client-port 51840
			# Only show what would be done
			%[1]s network connect --remote-kubeconfig milan.yaml --dry-run`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	o.Add(command)
	o.Server.Template.Add(flags, "gw-server-", tunnel.ServerTemplates, networkingv1beta1.ServerTemplateDefault)
	o.Client.Add(flags, "gw-client-", tunnel.ClientTemplates, networkingv1beta1.ClientTemplateDefault)
	flags.BoolVar(&o.KeysNotShared, "disable-sharing-keys", false, "Do not exchange the public keys of the gateways")
	a.AddDryRun(flags)
	connect := func(cmd *cobra.Command) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		o.SkipValidation = common.skipValidation
		if err := o.Validate(); err != nil {
			return err
		}
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		if session.IsPeeringUser(p) {
			tunnel.WarnWithoutEffect(p, &o, "gw-server-service-location")
			return ask(ctx, p, common.wait)
		}
		if err := tunnel.Check(ctx, p, o.SkipValidation); err != nil {
			return err
		}
		t, err := tunnel.Connect(ctx, p, &o)
		if err != nil {
			return err
		}
		if !common.wait {
			p.Local.Did("The tunnel is set up: liqoctl info peer %s shows when it is connected (--wait waits for that)", p.Remote.ID)
			return nil
		}
		return t.Connected(ctx)
	}
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return tunnel.WithBalancerHint(connect(cmd), cmd, nil, common.timeout, o.Server.ServiceType)
	}
	return command
}

func disconnectCommand(a *session.Session, common *commonFlags) *cobra.Command {
	return removalCommand(a, common, &cobra.Command{
		Use:   "disconnect",
		Short: "Delete the tunnel between two clusters",
		Long: "Delete the tunnel between the local and the remote cluster: its gateways and their keys, in both clusters. The address ranges and\n" +
			"their remapping are kept, so every pod has the same address after connecting again.",
		Example: cmdline.Example(`
			%[1]s network disconnect --remote-kubeconfig milan.yaml`),
	}, "Take the tunnel between %s and %s down? Their pods will not reach each other any more", false)
}

func resetCommand(a *session.Session, common *commonFlags) *cobra.Command {
	return removalCommand(a, common, &cobra.Command{
		Use:   "reset",
		Short: "Remove the network between two clusters",
		Long: "Delete the network between the local and the remote cluster: the tunnel, and the address ranges that each cluster stores about the\n" +
			"other. Pods may have other addresses after connecting again.",
		Example: cmdline.Example(`
			%[1]s network reset --remote-kubeconfig milan.yaml --wait`),
	}, "Remove the network between %s and %s? Their pods will not reach each other any more", true)
}

func removalCommand(a *session.Session, common *commonFlags, command *cobra.Command, question string, configurations bool) *cobra.Command {
	remote := session.RemoteFlags(command.Flags())
	a.AddDryRun(command.Flags())
	command.Args = cobra.NoArgs
	command.RunE = session.WithTimeout(&common.timeout, func(ctx context.Context, _ []string) error {
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		requested, err := tunnel.IsRequested(ctx, p)
		if err != nil {
			return err
		}
		if !requested && !session.IsPeeringUser(p) {
			reset := strings.Replace(strings.Join(cmdline.SameClusters(command, nil), " "), " disconnect", " reset", 1)
			return tunnel.Remove(ctx, a, p, question, configurations, common.wait, reset)
		}
		if err := a.Confirm(fmt.Sprintf(question, p.Local.ID, p.Remote.ID)); err != nil {
			return err
		}
		return tunnel.WithdrawRequest(ctx, p)
	})
	return command
}

func rotateKeysCommand(a *session.Session, common *commonFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Replace the keys of this cluster's side of a tunnel",
		Long: "Replace the pair of keys of the local cluster's gateway. The remote cluster first receives the new public key and accepts both keys\n" +
			"until the gateway uses the new one, so the connection is not interrupted. The command waits until the tunnel works with the new keys.\n" +
			"To replace the keys of the other side, exchange the two clusters on the command line.",
		Example: cmdline.Example(`
			%[1]s network rotate-keys --remote-kubeconfig milan.yaml`),
		Args: cobra.NoArgs,
	}
	remote := session.RemoteFlags(command.Flags())
	a.AddDryRun(command.Flags())
	command.RunE = session.WithTimeout(&common.timeout, func(ctx context.Context, _ []string) error {
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		return tunnel.RotateKeys(ctx, p)
	})
	return command
}
