package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// networkOptions holds the flags about the network between two clusters.
type networkOptions struct {
	server         serverFlags
	client         templateFlags
	clientAddress  string
	clientPort     int32
	mtu            int
	keysNotShared  bool
	skipValidation bool
	// serverHere places the gateway server in the local cluster. located means that the user set the location explicitly.
	serverHere, located bool
	// given reports whether the user set a flag. Only such flags change existing objects.
	given func(name string) bool
}

var connectServerFlags = serverFlagNames{
	"gw-server-service-type", "gw-server-service-port", "gw-server-service-nodeport", "gw-server-service-loadbalancerip",
}

// add registers the flags that peer and network connect have in common.
func (o *networkOptions) add(command *cobra.Command) {
	flags := command.Flags()
	o.given = flags.Changed
	o.server.add(flags, connectServerFlags)
	flags.StringVar(&o.clientAddress, "gw-client-address", "", "Address the gateway client connects to (default: that of the server's Service)")
	flags.Int32Var(&o.clientPort, "gw-client-port", 0, "Port the gateway client connects to (default: that of the server's Service)")
	flags.IntVar(&o.mtu, "mtu", defaultMTU, "Upper bound of the tunnel's MTU (0: what the path allows)")
	oneOf(command, "gw-server-service-type", "LoadBalancer", "NodePort", "ClusterIP")
	// Only network connect has flags for custom templates.
	o.server.template = templateFlags{resource: serverTemplates, name: networkingv1beta1.ServerTemplateDefault}
	o.client = templateFlags{resource: clientTemplates, name: networkingv1beta1.ClientTemplateDefault}
}

func (o *networkOptions) validate() error {
	if err := o.server.validate(connectServerFlags); err != nil {
		return err
	}
	if o.clientAddress != "" {
		if err := validateAddresses("gw-client-address", []string{o.clientAddress}); err != nil {
			return err
		}
	}
	if o.clientPort != 0 {
		if err := validatePort("gw-client-port", o.clientPort); err != nil {
			return err
		}
	}
	return validateMTU(o.mtu)
}

// gatewayTimeout is the default timeout of commands that wait for the address of a gateway. A load balancer may take two minutes (value
// networking.gatewayTemplates.server.service.loadBalancerTimeout) before the gateway falls back to its node port. Only then does the tunnel start.
const gatewayTimeout = 5 * time.Minute

// networkCommonFlags holds the flags of all network commands.
type networkCommonFlags struct {
	timeout              time.Duration
	wait, skipValidation bool
}

func (f *networkCommonFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.timeout, "timeout", gatewayTimeout, "Maximum time for the whole command")
	flags.BoolVar(&f.wait, "wait", false, "Wait until the tunnel is connected, or everything is deleted")
	flags.BoolVar(&f.skipValidation, "skip-validation", false, "Skip the check whether both clusters can be connected")
}

func (a *app) networkCommand() *cobra.Command {
	var common networkCommonFlags
	command := group(&cobra.Command{
		Use:   "network",
		Short: "Connect the networks of two clusters",
		Long: "Connect the networks of the local and the remote cluster, so that pods reach each other whatever their address ranges are,\n" +
			"or take that back. peer and unpeer do this by themselves.",
		Example: example(`
			# Pods of this cluster and of the one of milan.yaml reach each other; milan has no load balancers
			%[1]s network connect --remote-kubeconfig milan.yaml --gw-server-service-type NodePort --wait`),
	}, a.networkConnectCommand(&common), a.networkDisconnectCommand(&common), a.networkResetCommand(&common), a.networkRotateKeysCommand(&common),
		a.networkExplainCommand(&common))
	common.add(command.PersistentFlags())
	return command
}

func (a *app) networkConnectCommand(common *networkCommonFlags) *cobra.Command {
	var o networkOptions
	command := &cobra.Command{
		Use:   "connect",
		Short: "Create a tunnel between two clusters",
		Long: "Connect the networks of the local and the remote cluster: tell each the address ranges of the other, and make a tunnel whose\n" +
			"server is in the remote cluster and whose client is in the local one. What exists already stays as it is, unless a flag asks\n" +
			"for something else; what is missing is made. So it can be run again at any point.",
		Example: example(`
			# A tunnel to milan, which has load balancers
			%[1]s network connect --remote-kubeconfig milan.yaml --wait
			# The server behind a port of milan's nodes, reached through the address of a firewall
			%[1]s network connect --remote-kubeconfig milan.yaml --gw-server-service-type NodePort \
			    --gw-server-service-nodeport 30840 --gw-client-address 203.0.113.7 --gw-client-port 51840
			# Only tell what would be done
			%[1]s network connect --remote-kubeconfig milan.yaml --dry-run`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := remoteFlags(flags)
	o.add(command)
	o.server.template.add(flags, "gw-server-", serverTemplates, networkingv1beta1.ServerTemplateDefault)
	o.client.add(flags, "gw-client-", clientTemplates, networkingv1beta1.ClientTemplateDefault)
	flags.BoolVar(&o.keysNotShared, "disable-sharing-keys", false, "Do not exchange the public keys of the gateways")
	a.addDryRun(flags)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		o.skipValidation = common.skipValidation
		if err := o.validate(); err != nil {
			return err
		}
		p, err := a.pair(ctx, remote)
		if err != nil {
			return err
		}
		if p.isPeeringUser() {
			p.withoutEffect(&o, "gw-server-service-location")
			connected, err := p.askForNetwork(ctx, &peerOptions{location: locationProvider})
			if err != nil || !connected || !common.wait {
				return err
			}
			return p.local.healthy(ctx, p.remote.id, true, false)
		}
		t, err := p.connectNetwork(ctx, &o)
		if err != nil {
			return err
		}
		if !common.wait {
			p.local.Did("The tunnel is set up: liqoctl info peer %s tells when it is connected (--wait waits for that)", p.remote.id)
			return nil
		}
		return t.connected(ctx)
	}
	return command
}

func (a *app) networkDisconnectCommand(common *networkCommonFlags) *cobra.Command {
	return a.networkRemovalCommand(common, &cobra.Command{
		Use:   "disconnect",
		Short: "Delete the tunnel between two clusters",
		Long: "Take the tunnel between the local and the remote cluster down: the gateways and their keys are deleted in both. The address ranges\n" +
			"stay known and keep their places, so that connecting again gives every pod the address it had.",
		Example: example(`
			%[1]s network disconnect --remote-kubeconfig milan.yaml`),
	}, "Take the tunnel between %s and %s down? Their pods will not reach each other any more", false)
}

func (a *app) networkResetCommand(common *networkCommonFlags) *cobra.Command {
	return a.networkRemovalCommand(common, &cobra.Command{
		Use:   "reset",
		Short: "Remove the network between two clusters",
		Long: "Remove the network between the local and the remote cluster: the tunnel, and what each knows of the address ranges of the other.\n" +
			"Connecting again may give pods other addresses.",
		Example: example(`
			%[1]s network reset --remote-kubeconfig milan.yaml --wait`),
	}, "Remove the network between %s and %s? Their pods will not reach each other any more", true)
}

func (a *app) networkRemovalCommand(common *networkCommonFlags, command *cobra.Command, question string, configurations bool) *cobra.Command {
	remote := remoteFlags(command.Flags())
	a.addDryRun(command.Flags())
	command.Args = cobra.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		p, err := a.pair(ctx, remote)
		if err != nil {
			return err
		}
		if !p.isPeeringUser() {
			reset := strings.Replace(strings.Join(sameClusters(cmd, nil), " "), " disconnect", " reset", 1)
			return a.removeNetwork(ctx, p, question, configurations, common.wait, reset)
		}
		if err := a.confirm(fmt.Sprintf(question, p.local.id, p.remote.id)); err != nil {
			return err
		}
		return p.withdraw(ctx)
	}
	return command
}

func (a *app) networkRotateKeysCommand(common *networkCommonFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Replace the keys of this cluster's side of a tunnel",
		Long: "Give the gateway of the local cluster a new pair of keys. The remote cluster is told the new public key first and lets both in until\n" +
			"the new one is used, so nothing is interrupted. It waits until the tunnel works with the new keys. To change the keys of the other\n" +
			"end, run it with the clusters exchanged.",
		Example: example(`
			%[1]s network rotate-keys --remote-kubeconfig milan.yaml`),
		Args: cobra.NoArgs,
	}
	remote := remoteFlags(command.Flags())
	a.addDryRun(command.Flags())
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		p, err := a.pair(ctx, remote)
		if err != nil {
			return err
		}
		return p.rotateKeys(ctx)
	}
	return command
}
