package object

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/kube"
)

// parseCIDRs validates the ranges that a user passes with a flag.
func parseCIDRs(flag string, texts []string) error {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return fmt.Errorf("--%s %s: want a range in CIDR notation, for example 10.244.0.0/16", flag, text)
		case !prefix.Addr().Is4():
			return fmt.Errorf("--%s %s: want an IPv4 range", flag, text)
		case prefix != prefix.Masked():
			return fmt.Errorf("--%s %s: bits are set beyond its length, did you mean %s?", flag, text, prefix.Masked())
		}
	}
	return nil
}

func createConfigurationCommand(a *session.Session) *cobra.Command {
	var peer string
	var remote networkingv1beta1.CIDRs
	var output cmdline.Output
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Create the Configuration with the CIDRs of a peer",
		Long: "Create a Configuration with the address ranges of a peer: its pod CIDRs and its external CIDR, as they are in the peer.\n" +
			"The name of the Configuration is the peer's cluster ID.",
		Example: cmdline.Example(`
			# What generate configuration printed in the cluster milan, typed in
			%[1]s create configuration --remote-cluster-id milan --pod-cidr 10.244.0.0/16 --external-cidr 10.70.0.0/16 --wait`),
		Args: cobra.NoArgs,
	}
	command.RunE = a.OnInstalled(&timeout, func() error {
		return cmp.Or(output.Validate(), parseCIDRs("pod-cidr", remote.Pod), parseCIDRs("external-cidr", remote.External))
	}, func(ctx context.Context, local *session.Cluster, _ []string) error {
		if output.Format != "" {
			return session.PrintObject(local, tunnel.Configuration(api.TenantNamespace(peer), peer, peer, remote), output.Format)
		}
		namespace, err := session.EnsureTenantNamespace(ctx, local, peer)
		if err != nil {
			return err
		}
		object := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
		if err := createOrUpdate(ctx, local, object, func() {
			kube.AddLabels(object, map[string]string{api.LabelRemoteClusterID: peer})
			object.Spec.Remote.CIDR = remote
		}); err != nil || !wait {
			return err
		}
		return local.Reach(ctx, tunnel.MappedGoal(object))
	})
	flags := command.Flags()
	session.AddPeerFlag(command, &peer)
	flags.StringSliceVar(&remote.Pod, "pod-cidr", nil, "Pod CIDRs of the peer, as configured there (required)")
	flags.StringSliceVar(&remote.External, "external-cidr", nil, "External CIDR of the peer (required)")
	flags.BoolVar(&wait, "wait", false, "Wait until the CIDRs are remapped in this cluster")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait")
	output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	cmdline.Required(command, "pod-cidr", "external-cidr")
	return command
}

// createOrUpdate creates the object or updates it to what the user wants, and reports which of the two it did.
func createOrUpdate(ctx context.Context, c *session.Cluster, object client.Object, fill func()) error {
	existed := false
	changed, err := c.Ensure(ctx, object, func() error {
		existed = object.GetResourceVersion() != ""
		fill()
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case !existed:
		c.Did("%s created", c.Name(object))
	case changed:
		c.Did("%s existed already and was changed", c.Name(object))
	default:
		c.Info("%s exists already", c.Name(object))
	}
	return nil
}

// nameOr returns the name that the user passed as an argument, or else the default name.
func nameOr(args []string, usual string) string {
	if len(args) > 0 {
		return args[0]
	}
	return usual
}

func generateConfigurationCommand(a *session.Session) *cobra.Command {
	var namespace string
	var timeout time.Duration
	var output cmdline.Output
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Generate the Configuration of this cluster, to be applied on a peer",
		Long: "Print a Configuration with the address ranges of this cluster, to be applied on a peer. It holds no secret. Apply it in the peer's\n" +
			"tenant namespace for this cluster, which must exist.",
		Example: cmdline.Example(`
			# Run in rome, to be applied in milan: kubectl apply -f rome.yaml
			%[1]s generate configuration > rome.yaml`),
		Args: cobra.NoArgs,
		RunE: a.OnInstalled(&timeout, output.Validate, func(ctx context.Context, local *session.Cluster, _ []string) error {
			own, err := tunnel.OwnCIDRs(ctx, local)
			if err != nil {
				return err
			}
			return session.PrintObject(local, tunnel.Configuration(cmp.Or(namespace, api.TenantNamespace(local.ID)), local.ID, local.ID, own), output.Format)
		}),
	}
	session.AddGenerateFlags(command.Flags(), &output, &namespace, &timeout)
	return command
}
