package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

type peerOptions struct {
	auth               handshake.Flags
	network            tunnel.Options
	resources          cmdline.Resources
	timeout            time.Duration
	networkingDisabled bool
	// bidirectional means that the provider is to become a consumer too.
	bidirectional                   bool
	createResourceSlice, createNode bool
	class                           string
	// location is the value of the flag for where the gateway server runs.
	location string
}

func peerCommand(a *session.Session) *cobra.Command {
	var o peerOptions
	command := &cobra.Command{
		Use:   "peer [NAME]",
		Short: "Peer with a provider: its resources become a node of the local cluster",
		Long: "Peer the local cluster, the consumer, with the remote one, the provider: connect their networks, authenticate, request resources, and\n" +
			"wait until the virtual node is Ready and the peering is healthy. If the command was interrupted, run it again: it resumes where it\n" +
			"stopped.\n\n" +
			"Without a remote kubeconfig, NAME is a consumer of the local cluster that has invited the local cluster to use its resources in turn.\n" +
			"The consumer invites with peer out-of-band --invite or peer --in-band --invite. After an in-band invitation, the new peering uses the\n" +
			"existing tunnel.\n\n" +
			"With --networking-disabled, or if a cluster was installed without networking, offloaded pods run, but they reach the pods and services\n" +
			"of the local cluster only if the infrastructure routes the traffic.",
		Example: cmdline.Example(`
			# Pods of this cluster may run in the one of milan.yaml
			%[1]s peer --remote-kubeconfig milan.yaml
			# The provider has no load balancers, and only its tunnel can be reached from here, its API server can not
			%[1]s peer --remote-kubeconfig milan.yaml --gw-server-service-type NodePort --in-band
			# Two contexts of one kubeconfig, and amounts of one's own
			%[1]s peer --context rome --remote-context milan --cpu 8 --memory 32Gi
			# The other way round: on milan, which rome uses and has invited (peer out-of-band --invite, or peer --in-band --invite)
			%[1]s peer rome
			# Only authenticate, the resources are asked for later
			%[1]s peer --remote-kubeconfig milan.yaml --create-resource-slice=false`),
		Args:              cmdline.AtMostOne("the name of a cluster that has invited this one"),
		ValidArgsFunction: a.CompleteFirst(peersOf),
	}
	remote := session.RemoteFlags(command.Flags())
	o.auth.Add(command.Flags())
	o.auth.AddInvite(command.Flags())
	o.addBoth(command)
	a.AddDryRun(command.Flags())
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			if err := aloneWith(command, args[0]); err != nil {
				return err
			}
			return peerInvited(ctx, a, args[0], &o)
		}
		_, err := runPeer(ctx, a, remote, &o)
		return err
	})
	command.AddCommand(peerOutOfBandCommand(a), peerInBandCommand(a))
	return command
}

// add registers the flags of all commands that peer.
func (o *peerOptions) add(flags *pflag.FlagSet) {
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "Maximum time for the whole command")
	flags.BoolVar(&o.networkingDisabled, "networking-disabled", false, "Do not connect the networks of the clusters")
	flags.BoolVar(&o.createResourceSlice, "create-resource-slice", true, "Request resources from the provider by a ResourceSlice")
	flags.StringVar(&o.class, "resource-slice-class", authv1beta1.ResourceSliceClassDefault, "Class of the ResourceSlice")
	flags.BoolVar(&o.createNode, "create-virtual-node", true, "Create a virtual node with the granted resources")
	o.resources.Add(flags)
}

// addBoth registers these flags and those of commands with access to both clusters.
func (o *peerOptions) addBoth(command *cobra.Command) {
	flags := command.Flags()
	o.add(flags)
	flags.BoolVar(&o.network.SkipValidation, "skip-validation", false, "Skip the check whether the networks of both clusters can be connected")
	flags.StringVar(&o.location, "gw-server-service-location", tunnel.LocationProvider, "Where the gateway server runs: Provider or Consumer")
	session.CompleteOneOf(command, "gw-server-service-location", tunnel.LocationProvider, tunnel.LocationConsumer)
	o.network.Add(command)
}

func runPeer(ctx context.Context, a *session.Session, remote *genericclioptions.ConfigFlags, o *peerOptions) (*session.Pair, error) {
	resources, err := o.resources.List()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(o.network.Locate(o.location), o.auth.Validate(), o.network.Validate()); err != nil {
		return nil, err
	}
	if o.auth.InBand && o.networkingDisabled {
		return nil, errors.New("--in-band needs a tunnel, and --networking-disabled creates none: leave one of them out")
	}
	p, err := a.Pair(ctx, remote)
	if err != nil {
		return nil, err
	}
	return p, session.ExplainPair(p, peerPair(ctx, p, o, resources))
}

// peerPair runs the steps of a peering between two connected clusters. A comment says what a step waits for.
func peerPair(ctx context.Context, p *session.Pair, o *peerOptions, resources corev1.ResourceList) error {
	if err := checkNetworkRights(p, o); err != nil {
		return err
	}
	// A peering user may not create gateways in the provider. For such a user, the command creates a NetworkRequest after it has authenticated, and
	// the control planes connect the networks.
	asks := mustAskForNetwork(p, o)
	r := &peerRun{Pair: p, use: use{Cluster: p.Local, provider: p.Remote.ID, nodeName: p.Remote.ID, options: o, resources: resources}}
	return session.InOrder(ctx,
		r.check,
		session.When(asks, r.warnOfFlags),
		session.When(!asks, r.connect), // both ends of the tunnel are connected
		r.authenticate,                 // the provider has admitted the local cluster, whose Identity has a kubeconfig
		session.When(o.auth.Invite, func(ctx context.Context) error { return inviteBack(ctx, r.Pair) }),
		session.When(asks, r.use.requestNetwork),                   // the provider has answered the NetworkRequest
		session.When(o.createResourceSlice, r.use.askForResources), // the provider has granted the resources, and the virtual node is Ready
		r.use.becomeHealthy, // the ForeignCluster reports each module as healthy
	)
}

// peerRun is one run of a command that peers two connected clusters. Its steps share it.
type peerRun struct {
	*session.Pair
	use use
}

// check runs checkPeer before any change is made.
func (r *peerRun) check(ctx context.Context) error { return checkPeer(ctx, r.Pair, r.use.options) }

// warnOfFlags warns about flags for a tunnel that the control planes create, not this command.
func (r *peerRun) warnOfFlags(context.Context) error {
	except := []string{"gw-server-service-location"}
	if r.use.options.location == tunnel.LocationConsumer {
		except = append(except, tunnel.ConnectServerFlags.ServiceType)
	}
	tunnel.WarnWithoutEffect(r.Pair, &r.use.options.network, except...)
	return nil
}

// connect connects the networks.
func (r *peerRun) connect(ctx context.Context) error {
	t, err := peerNetwork(ctx, r.Pair, r.use.options)
	r.use.connected = t != nil
	return err
}

// authenticate gives the local cluster an identity in the remote one, and both their tenant namespaces.
func (r *peerRun) authenticate(ctx context.Context) error {
	err := handshake.Authenticate(ctx, r.Pair, &r.use.options.auth)
	r.use.namespace = r.Here
	return err
}
