package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// rangeGoal waits until a Network has a CIDR in its status.
func rangeGoal(network *ipamv1alpha1.Network) *goal {
	return &goal{
		object: network, doing: "Waiting for the range of Network " + network.Name,
		met: func() verdict {
			if network.Status.CIDR == "" {
				return notYet("it has no range in status.cidr yet%s", reasons(network.Status.Conditions))
			}
			return yes()
		},
		answer: func() { network.Status.CIDR = orDefault(network.Spec.CIDR, "192.0.2.0/24") },
	}
}

// configuration returns the Configuration with the address ranges of a peer.
func configuration(namespace, name, peer string, remote networkingv1beta1.CIDRs) *networkingv1beta1.Configuration {
	out := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	setLabel(out, api.LabelRemoteClusterID, peer)
	out.Spec.Remote.CIDR = remote
	return out
}

// mappedGoal waits until a cluster has mapped the ranges of the remote cluster.
func mappedGoal(object *networkingv1beta1.Configuration) *goal {
	return &goal{
		object: object, doing: fmt.Sprintf("Waiting until the ranges of cluster %s are mapped", object.Labels[api.LabelRemoteClusterID]),
		done: "Network configuration is applied",
		met: func() verdict {
			condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
			switch {
			case condition == nil || condition.ObservedGeneration < object.Generation:
				return notYet("the controller manager has not reconciled it yet")
			case condition.Status != metav1.ConditionTrue || object.Status.Remote == nil:
				return notYet("its ranges are not mapped yet%s", reasons(object.Status.Conditions))
			}
			return yes()
		},
		answer: func() { object.Status.Remote = object.Spec.Remote.DeepCopy() },
	}
}

// differences describes how two sets of ranges differ. It is empty if they are equal.
func differences(have, want networkingv1beta1.CIDRs) string {
	var out []string
	for _, part := range []struct {
		name       string
		have, want []string
	}{{"pod CIDR", have.Pod, want.Pod}, {"external CIDR", have.External, want.External}} {
		if !equality.Semantic.DeepEqual(part.have, part.want) {
			out = append(out, fmt.Sprintf("%s %s, not %s", part.name, orDefault(strings.Join(part.want, ", "), "none"), orDefault(strings.Join(part.have, ", "), "none")))
		}
	}
	return strings.Join(out, " and ")
}

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

func createConfigurationCommand(a *app) *cobra.Command {
	var peer string
	var remote networkingv1beta1.CIDRs
	var output outputFlag
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Create the Configuration with the CIDRs of a peer",
		Long: "Create a Configuration with the address ranges of a peer: its pod CIDRs and its external CIDR, as they are in the peer.\n" +
			"The name of the Configuration is the peer's cluster ID.",
		Example: example(`
			# What generate configuration printed in the cluster milan, typed in
			%[1]s create configuration --remote-cluster-id milan --pod-cidr 10.244.0.0/16 --external-cidr 10.70.0.0/16 --wait`),
		Args: cobra.NoArgs,
	}
	command.RunE = a.onInstalled(&timeout, func() error {
		return cmp.Or(output.validate(), parseCIDRs("pod-cidr", remote.Pod), parseCIDRs("external-cidr", remote.External))
	}, func(ctx context.Context, local *cluster, _ []string) error {
		if output.format != "" {
			return printObject(local, configuration(api.TenantNamespace(peer), peer, peer, remote), output.format)
		}
		namespace, err := ensureTenantNamespace(ctx, local, peer)
		if err != nil {
			return err
		}
		object := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
		if err := createOrUpdate(ctx, local, object, func() {
			setLabel(object, api.LabelRemoteClusterID, peer)
			object.Spec.Remote.CIDR = remote
		}); err != nil || !wait {
			return err
		}
		return local.reach(ctx, mappedGoal(object))
	})
	flags := command.Flags()
	a.addPeerFlag(command, &peer)
	flags.StringSliceVar(&remote.Pod, "pod-cidr", nil, "Pod CIDRs of the peer, as configured there (required)")
	flags.StringSliceVar(&remote.External, "external-cidr", nil, "External CIDR of the peer (required)")
	flags.BoolVar(&wait, "wait", false, "Wait until the CIDRs are remapped in this cluster")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait")
	output.add(flags, "Only print the object, do not create it")
	a.addDryRun(flags)
	required(command, "pod-cidr", "external-cidr")
	return command
}

// createOrUpdate creates the object or updates it to what the user wants, and reports which of the two it did.
func createOrUpdate(ctx context.Context, c *cluster, object client.Object, fill func()) error {
	existed := false
	changed, err := c.ensure(ctx, object, func() error {
		existed = object.GetResourceVersion() != ""
		fill()
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case !existed:
		c.Did("%s created", c.name(object))
	case changed:
		c.Did("%s existed already and was changed", c.name(object))
	default:
		c.Info("%s exists already", c.name(object))
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

func generateConfigurationCommand(a *app) *cobra.Command {
	var namespace string
	var timeout time.Duration
	var output outputFlag
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Generate the Configuration of this cluster, to be applied on a peer",
		Long: "Print a Configuration with the address ranges of this cluster, to be applied on a peer. It holds no secret. Apply it in the peer's\n" +
			"tenant namespace for this cluster, which must exist.",
		Example: example(`
			# Run in rome, to be applied in milan: kubectl apply -f rome.yaml
			%[1]s generate configuration > rome.yaml`),
		Args: cobra.NoArgs,
		RunE: a.onInstalled(&timeout, output.validate, func(ctx context.Context, local *cluster, _ []string) error {
			own, err := ownCIDRs(ctx, local)
			if err != nil {
				return err
			}
			return printObject(local, configuration(orDefault(namespace, api.TenantNamespace(local.id)), local.id, local.id, own), output.format)
		}),
	}
	addGenerateFlags(command.Flags(), &output, &namespace, &timeout)
	return command
}
