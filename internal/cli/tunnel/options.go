package tunnel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// Options holds the flags about the network between two clusters.
type Options struct {
	Dialed
	Server         ServerFlags
	Client         TemplateFlags
	mtu            int
	KeysNotShared  bool
	SkipValidation bool
	// serverHere places the gateway server in the local cluster. Located means that the user set the location explicitly.
	serverHere, Located bool
	// Given reports whether the user set a flag. Only such flags change existing objects.
	Given func(name string) bool
}

// ConnectServerFlags holds the names of the flags for the gateway server in the commands that connect two clusters.
var ConnectServerFlags = ServerFlagNames{
	"gw-server-service-type", "gw-server-service-port", "gw-server-service-nodeport", "gw-server-service-loadbalancerip",
}

// Add registers the flags that peer and network connect have in common.
func (o *Options) Add(command *cobra.Command) {
	flags := command.Flags()
	o.Given = flags.Changed
	o.Server.Add(flags, ConnectServerFlags)
	o.AddDialed(flags, "Address the gateway client connects to (default: that of the server's Service)"+RemovesEarlier,
		"Port the gateway client connects to (default: that of the server's Service); 0 removes an earlier one")
	flags.IntVar(&o.mtu, "mtu", DefaultMTU, "Upper bound of the tunnel's MTU (0: the MTU of the path)")
	session.CompleteOneOf(command, "gw-server-service-type", "LoadBalancer", "NodePort", "ClusterIP")
	// Only the command "network connect" also registers flags for custom templates. The command "peer" uses these defaults.
	o.Server.Template = TemplateFlags{resource: ServerTemplates, name: networkingv1beta1.ServerTemplateDefault}
	o.Client = TemplateFlags{resource: ClientTemplates, name: networkingv1beta1.ClientTemplateDefault}
}

// Validate returns an error that names the first flag with a wrong value.
func (o *Options) Validate() error {
	if err := o.Server.Validate(ConnectServerFlags); err != nil {
		return err
	}
	if err := o.Dialed.Validate(); err != nil {
		return err
	}
	return ValidateMTU(o.mtu)
}

// Dialed holds the user's flags for the endpoint that the gateway client connects to. For an empty address or port, the one of the server's Service is used.
type Dialed struct {
	ClientAddress string
	ClientPort    int32
	// changed reports whether the user set a flag, even to an empty value. If changed is nil, only flags with a value count as set.
	changed func(name string) bool
}

// RemovesEarlier is appended to the help of a flag. It says that an empty value removes the value that an earlier command has set.
const RemovesEarlier = "; an empty value removes an earlier one"

// AddDialed registers the flags, with these help texts.
func (d *Dialed) AddDialed(flags *pflag.FlagSet, address, port string) {
	d.changed = flags.Changed
	flags.StringVar(&d.ClientAddress, "gw-client-address", "", address)
	flags.Int32Var(&d.ClientPort, "gw-client-port", 0, port)
}

// Validate returns an error that names the first flag with a wrong value.
func (d *Dialed) Validate() error {
	if d.ClientAddress != "" {
		if err := ValidateAddresses("gw-client-address", []string{d.ClientAddress}); err != nil {
			return err
		}
	}
	if d.ClientPort != 0 {
		return ValidatePort("gw-client-port", d.ClientPort)
	}
	return nil
}

// Apply returns spec.dial of a NetworkRequest after the user's flags are applied to before, its current value. Each flag that the user set changes its part.
// An empty value removes the part.
func (d *Dialed) Apply(before *networkingv1beta1.DialedEndpoint) *networkingv1beta1.DialedEndpoint {
	out := networkingv1beta1.DialedEndpoint{}
	if before != nil {
		out = *before.DeepCopy()
	}
	set := func(name string) bool { return d.changed != nil && d.changed(name) }
	if d.ClientAddress != "" {
		out.Addresses = []string{d.ClientAddress}
	} else if set("gw-client-address") {
		out.Addresses = nil
	}
	if d.ClientPort != 0 || set("gw-client-port") {
		out.Port = d.ClientPort
	}
	if len(out.Addresses) == 0 && out.Port == 0 {
		return nil
	}
	return &out
}

// Arguments returns the flags as text, for a command that another administrator runs.
func (d *Dialed) Arguments() string { return dialArguments(d.Apply(nil)) }

// dialArguments returns the flags that produce an endpoint. It is empty for nil.
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

// DialText describes spec.dial of a NetworkRequest in messages.
func DialText(dial *networkingv1beta1.DialedEndpoint) string {
	return cmp.Or(strings.TrimSpace(dialArguments(dial)), "empty (what the provider reports)")
}

// Values of the flag for where the gateway server of a peering runs.
const (
	LocationProvider = "Provider"
	LocationConsumer = "Consumer"
)

// Locate sets where the gateway server runs, from the value of the flag. The local cluster is the consumer.
func (o *Options) Locate(location string) error {
	o.Located = o.Given("gw-server-service-location")
	switch location {
	case LocationConsumer:
		o.serverHere = true
	case LocationProvider:
	default:
		return cmdline.OneOf("gw-server-service-location", location, LocationProvider, LocationConsumer)
	}
	return nil
}

// WarnWithoutEffect warns about flags for a tunnel that this command does not create. It skips the flags in except.
func WarnWithoutEffect(p *session.Pair, o *Options, except ...string) {
	for _, name := range []string{
		"gw-server-service-location", ConnectServerFlags.ServiceType, ConnectServerFlags.Port, ConnectServerFlags.NodePort, ConnectServerFlags.LoadBalancerIP,
		"gw-client-address", "gw-client-port", "mtu",
	} {
		if slices.Contains(except, name) {
			continue
		}
		if o.Given(name) {
			p.Local.Warn("--%s has no effect: this command creates no gateways", name)
		}
	}
}
