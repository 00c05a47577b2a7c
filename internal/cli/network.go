package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// networkOptions holds the flags about the network between two clusters.
type networkOptions struct {
	dialed
	server         serverFlags
	client         templateFlags
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
	o.addDialed(flags, "Address the gateway client connects to (default: that of the server's Service)"+removesEarlier,
		"Port the gateway client connects to (default: that of the server's Service); 0 removes an earlier one")
	flags.IntVar(&o.mtu, "mtu", defaultMTU, "Upper bound of the tunnel's MTU (0: the MTU of the path)")
	session.CompleteOneOf(command, "gw-server-service-type", "LoadBalancer", "NodePort", "ClusterIP")
	// Only network connect has flags for custom templates.
	o.server.template = templateFlags{resource: serverTemplates, name: networkingv1beta1.ServerTemplateDefault}
	o.client = templateFlags{resource: clientTemplates, name: networkingv1beta1.ClientTemplateDefault}
}

func (o *networkOptions) validate() error {
	if err := o.server.validate(connectServerFlags); err != nil {
		return err
	}
	if err := o.dialed.validate(); err != nil {
		return err
	}
	return validateMTU(o.mtu)
}

// dialed holds the user's flags for the endpoint that the gateway client connects to. Empty parts are those of the server's Service.
type dialed struct {
	clientAddress string
	clientPort    int32
	// changed reports whether the user set a flag, also to an empty value. nil means that only flags with a value are set.
	changed func(name string) bool
}

// removesEarlier says in the help of a flag how a value of an earlier command is removed.
const removesEarlier = "; an empty value removes an earlier one"

func (d *dialed) addDialed(flags *pflag.FlagSet, address, port string) {
	d.changed = flags.Changed
	flags.StringVar(&d.clientAddress, "gw-client-address", "", address)
	flags.Int32Var(&d.clientPort, "gw-client-port", 0, port)
}

func (d *dialed) validate() error {
	if d.clientAddress != "" {
		if err := validateAddresses("gw-client-address", []string{d.clientAddress}); err != nil {
			return err
		}
	}
	if d.clientPort != 0 {
		return validatePort("gw-client-port", d.clientPort)
	}
	return nil
}

// apply returns the field of a NetworkRequest after the user's flags. Each flag that the user set changes its part of the field. An empty value removes it.
func (d *dialed) apply(before *networkingv1beta1.DialedEndpoint) *networkingv1beta1.DialedEndpoint {
	out := networkingv1beta1.DialedEndpoint{}
	if before != nil {
		out = *before.DeepCopy()
	}
	set := func(name string) bool { return d.changed != nil && d.changed(name) }
	if d.clientAddress != "" {
		out.Addresses = []string{d.clientAddress}
	} else if set("gw-client-address") {
		out.Addresses = nil
	}
	if d.clientPort != 0 || set("gw-client-port") {
		out.Port = d.clientPort
	}
	if len(out.Addresses) == 0 && out.Port == 0 {
		return nil
	}
	return &out
}

// arguments returns the flags as text, for a command that another administrator runs.
func (d *dialed) arguments() string { return dialArguments(d.apply(nil)) }

// dialArguments returns the flags that enter an endpoint. It is empty for nil.
func dialArguments(dial *networkingv1beta1.DialedEndpoint) (out string) {
	if dial == nil {
		return ""
	}
	if len(dial.Addresses) > 0 {
		out += " --gw-client-address " + strings.Join(dial.Addresses, ",")
	}
	if dial.Port != 0 {
		out += fmt.Sprintf(" --gw-client-port %d", dial.Port)
	}
	return out
}

// dialText describes spec.dial of a NetworkRequest in messages.
func dialText(dial *networkingv1beta1.DialedEndpoint) string {
	return cmp.Or(strings.TrimSpace(dialArguments(dial)), "empty (what the provider reports)")
}

// Values of the flag for where the gateway server of a peering runs.
const (
	locationProvider = "Provider"
	locationConsumer = "Consumer"
)

// locate sets where the gateway server runs, from the value of the flag. The local cluster is the consumer.
func (o *networkOptions) locate(location string) error {
	o.located = o.given("gw-server-service-location")
	switch location {
	case locationConsumer:
		o.serverHere = true
	case locationProvider:
	default:
		return cmdline.OneOf("gw-server-service-location", location, locationProvider, locationConsumer)
	}
	return nil
}

// warnWithoutEffect warns about flags for a tunnel that this command does not create. It skips the flags in except.
func warnWithoutEffect(p *session.Pair, o *networkOptions, except ...string) {
	for _, name := range []string{
		"gw-server-service-location", connectServerFlags.serviceType, connectServerFlags.port, connectServerFlags.nodePort, connectServerFlags.loadBalancerIP,
		"gw-client-address", "gw-client-port", "mtu",
	} {
		if slices.Contains(except, name) {
			continue
		}
		if o.given(name) {
			p.Local.Warn("--%s has no effect: this command creates no gateways", name)
		}
	}
}

// gatewayTimeout is the default timeout of the commands for networks. The gateway may wait as long for a load balancer (value
// networking.gatewayTemplates.server.service.loadBalancerTimeout) before it falls back to its node port: see withBalancerHint.
const gatewayTimeout = 2 * time.Minute

// balancerTimeout is long enough for the timeout of a load balancer, and then for the node port that replaces it.
const balancerTimeout = 5 * time.Minute

// withBalancerHint adds a hint to the error of a command that reached its timeout: a load balancer may take longer. The hint contains a command
// that waits long enough. serviceType is the type of the gateway's Service that the user chose; empty if the user chose none.
func withBalancerHint(err error, cmd *cobra.Command, args []string, timeout time.Duration, serviceType string) error {
	if !errors.Is(err, context.DeadlineExceeded) || timeout >= balancerTimeout || serviceType != "" && serviceType != string(corev1.ServiceTypeLoadBalancer) {
		return err
	}
	return fmt.Errorf("%w\nThe command waited for %s. A load balancer may take longer: the gateway uses its node port if none comes within chart value "+
		"networking.gatewayTemplates.server.service.loadBalancerTimeout (2m by default). To wait longer, run the command again, it resumes where it stopped: %s --timeout %s",
		err, shortDuration(timeout), strings.Join(sameCommand(cmd, args, "timeout"), " "), shortDuration(balancerTimeout))
}

// shortDuration returns a duration without the units that are zero: 5m for 5m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

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

func networkCommand(a *session.Session) *cobra.Command {
	var common networkCommonFlags
	command := cmdline.Group(&cobra.Command{
		Use:   "network",
		Short: "Connect the networks of two clusters",
		Long: "Connect the networks of the local and the remote cluster, so that pods reach each other even if the address ranges overlap, or\n" +
			"disconnect them. peer and unpeer also do this.",
		Example: cmdline.Example(`
			# Pods of this cluster and of the one of milan.yaml reach each other; milan has no load balancers
			%[1]s network connect --remote-kubeconfig milan.yaml --gw-server-service-type NodePort --wait`),
	}, networkConnectCommand(a, &common), networkDisconnectCommand(a, &common), networkResetCommand(a, &common), networkRotateKeysCommand(a, &common),
		networkExplainCommand(a, &common))
	common.add(command.PersistentFlags())
	return command
}

func networkConnectCommand(a *session.Session, common *networkCommonFlags) *cobra.Command {
	var o networkOptions
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
			# Only tell what would be done
			%[1]s network connect --remote-kubeconfig milan.yaml --dry-run`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	o.add(command)
	o.server.template.add(flags, "gw-server-", serverTemplates, networkingv1beta1.ServerTemplateDefault)
	o.client.add(flags, "gw-client-", clientTemplates, networkingv1beta1.ClientTemplateDefault)
	flags.BoolVar(&o.keysNotShared, "disable-sharing-keys", false, "Do not exchange the public keys of the gateways")
	a.AddDryRun(flags)
	connect := func(cmd *cobra.Command) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		o.skipValidation = common.skipValidation
		if err := o.validate(); err != nil {
			return err
		}
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		if isPeeringUser(p) {
			warnWithoutEffect(p, &o, "gw-server-service-location")
			return askForNetwork(ctx, p, common.wait)
		}
		if err := checkNetworks(ctx, p, o.skipValidation); err != nil {
			return err
		}
		t, err := connectNetwork(ctx, p, &o)
		if err != nil {
			return err
		}
		if !common.wait {
			p.Local.Did("The tunnel is set up: liqoctl info peer %s shows when it is connected (--wait waits for that)", p.Remote.ID)
			return nil
		}
		return t.connected(ctx)
	}
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return withBalancerHint(connect(cmd), cmd, nil, common.timeout, o.server.serviceType)
	}
	return command
}

func networkDisconnectCommand(a *session.Session, common *networkCommonFlags) *cobra.Command {
	return networkRemovalCommand(a, common, &cobra.Command{
		Use:   "disconnect",
		Short: "Delete the tunnel between two clusters",
		Long: "Delete the tunnel between the local and the remote cluster: its gateways and their keys, in both clusters. The address ranges and\n" +
			"their remapping are kept, so every pod has the same address after connecting again.",
		Example: cmdline.Example(`
			%[1]s network disconnect --remote-kubeconfig milan.yaml`),
	}, "Take the tunnel between %s and %s down? Their pods will not reach each other any more", false)
}

func networkResetCommand(a *session.Session, common *networkCommonFlags) *cobra.Command {
	return networkRemovalCommand(a, common, &cobra.Command{
		Use:   "reset",
		Short: "Remove the network between two clusters",
		Long: "Delete the network between the local and the remote cluster: the tunnel, and the address ranges that each cluster stores about the\n" +
			"other. Pods may have other addresses after connecting again.",
		Example: cmdline.Example(`
			%[1]s network reset --remote-kubeconfig milan.yaml --wait`),
	}, "Remove the network between %s and %s? Their pods will not reach each other any more", true)
}

func networkRemovalCommand(a *session.Session, common *networkCommonFlags, command *cobra.Command, question string, configurations bool) *cobra.Command {
	remote := session.RemoteFlags(command.Flags())
	a.AddDryRun(command.Flags())
	command.Args = cobra.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), common.timeout)
		defer cancel()
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		requested, err := isNetworkRequested(ctx, p)
		if err != nil {
			return err
		}
		if !requested && !isPeeringUser(p) {
			reset := strings.Replace(strings.Join(sameClusters(cmd, nil), " "), " disconnect", " reset", 1)
			return removeNetwork(ctx, a, p, question, configurations, common.wait, reset)
		}
		if err := a.Confirm(fmt.Sprintf(question, p.Local.ID, p.Remote.ID)); err != nil {
			return err
		}
		return withdrawRequest(ctx, p)
	}
	return command
}

func networkRotateKeysCommand(a *session.Session, common *networkCommonFlags) *cobra.Command {
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
		return rotateKeys(ctx, p)
	})
	return command
}
