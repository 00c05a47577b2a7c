package cli

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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
	"liqo.io/liqo/internal/kube"
)

// listOfPeer lists the objects of a peer, in order of their names. The list is empty if the cluster does not have the kind.
func (c *cluster) listOfPeer(ctx context.Context, list client.ObjectList, namespace, peer string) error {
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{api.LabelRemoteClusterID: peer})
	if err != nil && !absent(err) {
		return c.error(fmt.Errorf("listing %s in %s: %w", kube.KindsOf(list), namespaceText(namespace), err))
	}
	return nil
}

// ownNetworks returns the Networks of one type that describe this cluster itself, sorted by name.
func (c *cluster) ownNetworks(ctx context.Context, of ipamv1alpha1.NetworkType) ([]ipamv1alpha1.Network, error) {
	var list ipamv1alpha1.NetworkList
	err := c.List(ctx, &list, client.InNamespace(c.namespace), client.MatchingLabels{ipamv1alpha1.LabelNetworkType: of})
	if err != nil && !absent(err) {
		return nil, c.error(fmt.Errorf("reading Networks of type %s in namespace %s: %w", of, c.namespace, err))
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// cidrs returns the pod and external CIDRs of this cluster for its peers. It waits until each is allocated.
func (c *cluster) cidrs(ctx context.Context) (networkingv1beta1.CIDRs, error) {
	var out networkingv1beta1.CIDRs
	for _, part := range []struct {
		of ipamv1alpha1.NetworkType
		to *[]string
	}{{ipamv1alpha1.NetworkTypePod, &out.Pod}, {ipamv1alpha1.NetworkTypeExternal, &out.External}} {
		networks, err := c.ownNetworks(ctx, part.of)
		if err != nil {
			return out, err
		}
		if len(networks) == 0 {
			return out, c.error(fmt.Errorf("namespace %s has no Network labelled %s=%s: install again with networking.enabled=true and the address ranges of the cluster",
				c.namespace, ipamv1alpha1.LabelNetworkType, part.of))
		}
		for i := range networks {
			cidr, err := c.given(ctx, &networks[i])
			if err != nil {
				return out, err
			}
			*part.to = append(*part.to, cidr)
		}
	}
	return out, nil
}

// given waits until the Network has a CIDR in its status, and returns it.
func (c *cluster) given(ctx context.Context, network *ipamv1alpha1.Network) (string, error) {
	step := c.Start("Waiting for the range of Network %s", network.Name)
	defer step.End()
	err := c.wait(ctx, step, network, func() verdict {
		if network.Status.CIDR == "" {
			return notYet("it has no range in status.cidr yet%s", reasons(network.Status.Conditions))
		}
		return yes()
	}, func() { network.Status.CIDR = orDefault(network.Spec.CIDR, "192.0.2.0/24") })
	return network.Status.CIDR, err
}

// configuration returns the Configuration with the address ranges of a peer.
func configuration(namespace, name, peer string, remote networkingv1beta1.CIDRs) *networkingv1beta1.Configuration {
	out := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	setLabel(out, api.LabelRemoteClusterID, peer)
	out.Spec.Remote.CIDR = remote
	return out
}

// configured waits until the ranges of the remote cluster are mapped in this cluster.
func (c *cluster) configured(ctx context.Context, object *networkingv1beta1.Configuration) error {
	step := c.Start("Waiting for a place for the ranges of cluster %s", object.Labels[api.LabelRemoteClusterID])
	defer step.End()
	err := c.wait(ctx, step, object, func() verdict {
		condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1beta1.ConditionCIDRsConfigured)
		switch {
		case condition == nil || condition.ObservedGeneration < object.Generation:
			return notYet("the controller manager has not looked at it")
		case condition.Status != metav1.ConditionTrue || object.Status.Remote == nil:
			return notYet("its ranges have no place yet%s", reasons(object.Status.Conditions))
		}
		return yes()
	}, func() { object.Status.Remote = object.Spec.Remote.DeepCopy() })
	if err == nil {
		step.Done("Network configuration is applied")
	}
	return err
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

func (a *app) createConfigurationCommand() *cobra.Command {
	var peer string
	var remote networkingv1beta1.CIDRs
	var output outputFlag
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Create the Configuration with the CIDRs of a peer",
		Long: "Create a Configuration: tell this cluster the address ranges of a peer's pods and the peer's external CIDR, as that cluster\n" +
			"knows them. Its name is the peer's cluster ID.",
		Example: example(`
			# What generate configuration printed in the cluster milan, typed in
			%[1]s create configuration --remote-cluster-id milan --pod-cidr 10.244.0.0/16 --external-cidr 10.70.0.0/16 --wait`),
		Args: cobra.NoArgs,
	}
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		for _, err := range []error{output.validate(), parseCIDRs("pod-cidr", remote.Pod), parseCIDRs("external-cidr", remote.External)} {
			if err != nil {
				return err
			}
		}
		local, err := a.installed(ctx)
		if err != nil {
			return err
		}
		if output.format != "" {
			return local.printObject(configuration(api.TenantNamespace(peer), peer, peer, remote), output.format)
		}
		namespace, err := local.ensureTenantNamespace(ctx, peer)
		if err != nil {
			return err
		}
		object := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
		if err := local.created(ctx, object, func() {
			setLabel(object, api.LabelRemoteClusterID, peer)
			object.Spec.Remote.CIDR = remote
		}); err != nil || !wait {
			return err
		}
		return local.configured(ctx, object)
	}
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

// created creates the object or updates it to what the user wants, and reports which of the two it did.
func (c *cluster) created(ctx context.Context, object client.Object, fill func()) error {
	existed := false
	changed, err := c.ensure(ctx, object, func() error {
		if object.GetDeletionTimestamp() != nil {
			return c.leaving(object)
		}
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

func (a *app) generateConfigurationCommand() *cobra.Command {
	var namespace string
	var timeout time.Duration
	var output outputFlag
	command := &cobra.Command{
		Use:     "configuration",
		Aliases: []string{"config", "conf"},
		Short:   "Generate the Configuration of this cluster, to be applied on a peer",
		Long: "Print the Configuration that tells a peer the address ranges of this cluster. It holds no secret. It goes into the peer's tenant\n" +
			"namespace for this cluster, which has to exist there.",
		Example: example(`
			# Run in rome, to be applied in milan: kubectl apply -f rome.yaml
			%[1]s generate configuration > rome.yaml`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := output.validate(); err != nil {
				return err
			}
			local, err := a.installed(ctx)
			if err != nil {
				return err
			}
			own, err := local.cidrs(ctx)
			if err != nil {
				return err
			}
			return local.printObject(configuration(orDefault(namespace, api.TenantNamespace(local.id)), local.id, local.id, own), output.format)
		},
	}
	addGenerateFlags(command.Flags(), &output, &namespace, &timeout)
	return command
}
