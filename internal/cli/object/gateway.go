package object

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

var createServerFlags = tunnel.ServerFlagNames{ServiceType: "service-type", Port: "port", NodePort: "node-port", LoadBalancerIP: "load-balancer-ip"}

func createGatewayServerCommand(a *session.Session) *cobra.Command {
	var f creation
	var server tunnel.ServerFlags
	var mtu int
	command := &cobra.Command{
		Use:     "gatewayserver [NAME]",
		Aliases: []string{"server", "gws"},
		Short:   "Create the server side of a tunnel",
		Long: "Create a GatewayServer, the side of a tunnel that waits for the peer's connection. Its default name is the peer's cluster ID. Create\n" +
			"the other side in the peer with create gatewayclient. Each cluster needs the public key of the other gateway (generate publickey).",
		Example: cmdline.Example(`
			# Where nothing gives load balancers their addresses
			%[1]s create gatewayserver --remote-cluster-id milan --service-type NodePort --wait`),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = a.OnInstalled(&f.timeout, func() error {
		return cmp.Or(f.output.Validate(), server.Validate(createServerFlags), tunnel.ValidateMTU(mtu))
	}, func(ctx context.Context, local *session.Cluster, args []string) error {
		template, err := server.Template.Reference(local)
		if err != nil {
			return err
		}
		kind, err := server.Choose(ctx, local, template)
		if err != nil {
			return err
		}
		object := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Name: nameOr(args, f.peer)}}
		if err := f.create(ctx, local, object, func() { server.Fill(object, template, kind, f.peer, mtu) }); err != nil || !f.waits() {
			return err
		}
		endpoint, err := tunnel.ServerEndpoint(ctx, local, object)
		if err != nil {
			return tunnel.WithBalancerHint(err, command, args, f.timeout, server.ServiceType)
		}
		local.Did("In cluster %s: liqoctl create gatewayclient --remote-cluster-id %s --addresses %s --port %d",
			f.peer, local.ID, endpoint.Addresses[0], endpoint.Port)
		return nil
	})
	f.add(a, command, "peer", tunnel.GatewayTimeout, "Wait for the address of the gateway server and print it")
	flags := command.Flags()
	server.Template.Add(flags, "", tunnel.ServerTemplates, networkingv1beta1.ServerTemplateDefault)
	server.Add(flags, createServerFlags)
	flags.IntVar(&mtu, "mtu", tunnel.DefaultMTU, "Upper bound of the tunnel's MTU (0: the MTU of the path)")
	session.CompleteOneOf(command, "service-type", "LoadBalancer", "NodePort", "ClusterIP")
	return command
}

func createGatewayClientCommand(a *session.Session) *cobra.Command {
	var f creation
	var dialer tunnel.ClientFlags
	var mtu int
	command := &cobra.Command{
		Use:     "gatewayclient [NAME]",
		Aliases: []string{"client", "gwc"},
		Short:   "Create the client side of a tunnel",
		Long: "Create a GatewayClient, the side of a tunnel that connects to the peer's GatewayServer, at the address in the status of that\n" +
			"GatewayServer. Its default name is the peer's cluster ID. Each cluster needs the public key of the other gateway (generate publickey).",
		Example: cmdline.Example(`
			# Where milan's GatewayServer has status.endpoint 203.0.113.7, port 30840
			%[1]s create gatewayclient --remote-cluster-id milan --addresses 203.0.113.7 --port 30840 --wait`),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = a.OnInstalled(&f.timeout, func() error {
		return cmp.Or(f.output.Validate(), tunnel.ValidateAddresses("addresses", dialer.Addresses), tunnel.ValidatePort("port", dialer.Port), tunnel.ValidateProtocol(dialer.Protocol),
			tunnel.ValidateMTU(mtu))
	}, func(ctx context.Context, local *session.Cluster, args []string) error {
		template, err := dialer.Template.Reference(local)
		if err != nil {
			return err
		}
		endpoint := networkingv1beta1.Endpoint{Addresses: dialer.Addresses, Port: dialer.Port, Protocol: corev1.Protocol(dialer.Protocol)}
		object := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Name: nameOr(args, f.peer)}}
		if err := f.create(ctx, local, object, func() { tunnel.FillClient(object, template, f.peer, endpoint, mtu) }); err != nil || !f.waits() {
			return err
		}
		one := &tunnel.End{Cluster: local, Peer: f.peer, TenantNamespace: object.Namespace, Gateways: tunnel.Gateways{Client: object}}
		began := time.Now()
		if err := local.Reach(ctx, one.ConnectedGoal()); err != nil {
			if trouble := tunnel.GatewayTrouble(local, one.TenantNamespace, &one.Gateways); trouble != "" {
				return fmt.Errorf("%w; %s", err, trouble)
			}
			return fmt.Errorf("%w\nNo handshake with %s for %s: is %s open from here to %s, and does each cluster know the key of the other (liqoctl generate publickey)?", err,
				tunnel.EndpointText(&endpoint), time.Since(began).Round(time.Second), tunnel.OpenPort(tunnel.EndpointText(&endpoint)), f.peer)
		}
		local.Did("Connection is established")
		return nil
	})
	f.add(a, command, "peer", 2*time.Minute, "Wait until the tunnel is connected")
	flags := command.Flags()
	dialer.Template.Add(flags, "", tunnel.ClientTemplates, networkingv1beta1.ClientTemplateDefault)
	flags.StringSliceVar(&dialer.Addresses, "addresses", nil, "Addresses or host names of the peer's gateway server, the best first (required)")
	flags.Int32Var(&dialer.Port, "port", 0, "Port of the peer's gateway server (required)")
	flags.StringVar(&dialer.Protocol, "protocol", string(corev1.ProtocolUDP), "Protocol of the tunnel, always UDP")
	flags.IntVar(&mtu, "mtu", tunnel.DefaultMTU, "Upper bound of the tunnel's MTU (0: the MTU of the path)")
	cmdline.Required(command, "addresses", "port")
	session.CompleteOneOf(command, "protocol", "UDP")
	return command
}
