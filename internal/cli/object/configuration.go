package object

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
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
	var f creation
	var remote networkingv1beta1.CIDRs
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
	command.RunE = a.OnInstalled(&f.timeout, func() error {
		return cmp.Or(f.output.Validate(), parseCIDRs("pod-cidr", remote.Pod), parseCIDRs("external-cidr", remote.External))
	}, func(ctx context.Context, local *session.Cluster, _ []string) error {
		object := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Name: f.peer}}
		if err := f.create(ctx, local, object, func() { object.Spec.Remote.CIDR = remote }); err != nil || !f.waits() {
			return err
		}
		return local.Reach(ctx, tunnel.MappedGoal(object))
	})
	f.add(a, command, "peer", 2*time.Minute, "Wait until the CIDRs are remapped in this cluster")
	flags := command.Flags()
	flags.StringSliceVar(&remote.Pod, "pod-cidr", nil, "Pod CIDRs of the peer, as configured there (required)")
	flags.StringSliceVar(&remote.External, "external-cidr", nil, "External CIDR of the peer (required)")
	cmdline.Required(command, "pod-cidr", "external-cidr")
	return command
}

func generateConfigurationCommand(a *session.Session) *cobra.Command {
	var f generation
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
		RunE: a.OnInstalled(&f.timeout, f.output.Validate, func(ctx context.Context, local *session.Cluster, _ []string) error {
			own, err := tunnel.OwnCIDRs(ctx, local)
			if err != nil {
				return err
			}
			return f.print(local, tunnel.Configuration("", local.ID, local.ID, own))
		}),
	}
	f.add(command)
	return command
}
