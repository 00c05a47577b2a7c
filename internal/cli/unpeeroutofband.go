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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
	"liqo.io/liqo/internal/cli/undo"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
)

// leaveOptions holds the flags of the commands that end a peering.
type leaveOptions struct {
	timeout          time.Duration
	wait             bool
	deleteNamespaces bool
}

// add registers the flags that all commands which end a peering have. --delete-namespaces is not among them, because its text differs.
func (o *leaveOptions) add(a *session.Session, flags *pflag.FlagSet) {
	a.AddDryRun(flags)
	deletevolumes.AddFlag(a, flags)
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	flags.BoolVar(&o.wait, "wait", true, "Wait until all objects are deleted. Without it, the command only waits for the steps that later steps depend on")
}

func unpeerOutOfBandCommand(a *session.Session) *cobra.Command {
	var o leaveOptions
	command := &cobra.Command{
		Use:     "out-of-band [NAME]",
		Aliases: []string{"oob"},
		Short:   "Undo a peering without the kubeconfig of the provider",
		Long: "Undo peer with access to the local cluster only. The virtual nodes of the provider are drained and removed. Then the control plane of\n" +
			"the local cluster reports the end of the peering to the provider, which revokes the granted resources. A peering in the other direction\n" +
			"stays.\n\n" +
			"Without NAME, the command ends the peering with the only provider; it fails if there are several. It waits until the provider has\n" +
			"received the report. If the provider is gone for good, run force unpeer instead.\n\n" +
			"The command checks only the volumes of the local cluster. If the provider has other data of it, such as that of namespaces of before the restore of\n" +
			"a backup, that data stays in the provider, and its administrator decides about it: with access to both clusters, unpeer lists it before the first change.",
		Example: cmdline.Example(`
			# Give the resources of milan back
			%[1]s unpeer out-of-band milan
			# The same
			%[1]s unpeer milan`),
		Args: cmdline.AtMostOne("the name of the provider"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return leaveProvider(a, cmd, strings.Join(args, ""), &o)
		},
		ValidArgsFunction: a.CompleteFirst(peersOf),
	}
	flags := command.Flags()
	o.add(a, flags)
	flags.BoolVar(&o.deleteNamespaces, "delete-namespaces", false, "Delete the tenant namespace of the local cluster too")
	return command
}

// unpeerInBandCommand returns the command that removes the peerings in both directions and the network between the clusters.
func unpeerInBandCommand(a *session.Session) *cobra.Command {
	var o leaveOptions
	command := &cobra.Command{
		Use:     "in-band",
		Aliases: []string{"ib"},
		Short:   "Undo the peerings of two clusters in both directions, and their network",
		Long: "Undo peer in-band: in both clusters, release the resources that the other cluster uses, delete the objects of the peering, and remove\n" +
			"the network between the clusters.",
		Example: cmdline.Example(`
			# Nothing of rome and milan belongs together any more
			%[1]s unpeer in-band --context rome --remote-context milan`),
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	remote := session.RemoteFlags(flags)
	o.add(a, flags)
	flags.BoolVar(&o.deleteNamespaces, "delete-namespaces", false, "Delete the tenant namespaces too")
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, _ []string) error {
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return orForce(err)
		}
		bothWays, err := hasBothWays(ctx, p)
		if err != nil {
			return err
		}
		if bothWays {
			back := p.Reversed()
			back.EndsBoth = true
			// Problems in either direction are found before the first change.
			for _, direction := range []*session.Pair{p, back} {
				namespace, err := session.FindTenantNamespace(ctx, direction.Local, direction.Remote.ID)
				if err != nil {
					return err
				}
				if err := undo.CheckBoth(ctx, direction, namespace); err != nil {
					return err
				}
			}
			if err := halfDone(back, runUnpeer(ctx, back, true, false)); err != nil {
				return err
			}
		}
		if err := halfDone(p, runUnpeer(ctx, p, o.wait, o.deleteNamespaces)); err != nil || o.deleteNamespaces {
			return err
		}
		return reportLeft(ctx, p, withNamespaces(command, nil))
	})
	return command
}

// peersOf returns the names of all peers, for completion.
func peersOf(ctx context.Context, c *session.Cluster) ([]string, error) {
	var list corev1beta1.ForeignClusterList
	err := c.List(ctx, &list)
	return session.NamesOf(list.Items, func(fc corev1beta1.ForeignCluster) string { return fc.Name }), err
}

// leaveProvider removes the peering with the provider of the given name. An empty name means the only provider.
func leaveProvider(a *session.Session, cmd *cobra.Command, name string, o *leaveOptions) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	c, err := a.Installed(ctx)
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = session.OnlyProvider(ctx, c, "name it (liqoctl unpeer NAME)"); err != nil {
			return err
		}
	}
	provider, namespace, err := peerCalled(ctx, c, name)
	if err != nil {
		return err
	}
	used, err := isConsumer(ctx, c, provider)
	if err != nil {
		return err
	}
	if used && o.deleteNamespaces {
		return fmt.Errorf("cluster %s also uses resources of %s, and both directions share the tenant namespace %s: leave --delete-namespaces out",
			provider, c.ID, namespace)
	}
	if o.deleteNamespaces {
		if err := withoutNamespaces(requireRemovable(ctx, c, namespace)); err != nil {
			return err
		}
	}
	if err := undo.Check(ctx, c, provider, namespace); err != nil {
		return err
	}
	return explainHalfDone(c, provider, returnResources(ctx, c, provider, namespace, used, o, withNamespaces(cmd, []string{name})))
}

// returnResources returns all resources to the provider. Then it lets the local control plane notify the provider that the peering is over.
func returnResources(ctx context.Context, c *session.Cluster, provider, namespace string, used bool, o *leaveOptions, purge string) error {
	if err := releaseResources(ctx, c, provider, namespace); err != nil {
		return err
	}
	if stays, err := networkStays(ctx, c, namespace, provider); err != nil || stays {
		return err
	}
	if err := tunnel.Withdraw(ctx, c, namespace, provider); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.KubeconfigSecretName(peering.ControlPlaneIdentityName(provider))}}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", c.Name(secret), err)
	}
	if err == nil && secret.DeletionTimestamp == nil {
		before := secret.DeepCopy()
		kube.AddAnnotations(secret, map[string]string{peering.AnnotationResign: api.True})
		if err := c.Patch(ctx, secret, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("marking %s: %w", c.Name(secret), err)
		}
	}
	invitation := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: invite.Secret}}
	err = c.Get(ctx, client.ObjectKeyFromObject(invitation), invitation)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s: %w", c.Name(invitation), err)
	}
	// An Invitation with an owner belongs to the peering in which the provider is a consumer of this cluster, so it stays.
	if len(invitation.OwnerReferences) == 0 {
		if err := c.DeleteAll(ctx, []client.Object{invitation}, false); err != nil {
			return err
		}
	}
	// It always waits: without the kubeconfig, the control plane could no longer notify the provider.
	if err := forgetIdentity(ctx, c, provider, namespace, true); err != nil {
		return err
	}
	c.Did("Cluster %s was notified that the peering is over", provider)
	if used {
		c.Warn("Cluster %s still uses resources of %s: that peering stays until the administrator of the other cluster undoes it", provider, c.ID)
	}
	if used {
		return nil // the namespace and the network stay too
	}
	left := describeLeft(ctx, c, provider)
	// This cluster may not remove the other side of a network that the administrators of both clusters created.
	network := strings.Contains(left, " with ")
	if !o.deleteNamespaces {
		if left != "" {
			c.Info("Kept: %s. To delete it, run: %s", left, purge)
		}
		if network {
			c.Info("The other side of that network stays in cluster %s. With access to both clusters, this command removes both sides: "+
				"liqoctl unpeer --delete-namespaces --remote-kubeconfig and the kubeconfig of %s", provider, provider)
		}
		return nil
	}
	if err := deleteTenantNamespace(ctx, c, provider, o.wait); err != nil {
		return err
	}
	if network {
		c.Info("The other side of the network stays in cluster %s. To remove it, run there: liqoctl force unpeer %s", provider, c.ID)
	}
	return nil
}

// isConsumer reports whether a peer is a consumer of the local cluster.
func isConsumer(ctx context.Context, c *session.Cluster, peer string) (bool, error) {
	var tenants authv1beta1.TenantList
	if err := c.List(ctx, &tenants, client.MatchingLabels{api.LabelRemoteClusterID: peer}); err != nil {
		return false, c.Err(fmt.Errorf("listing Tenants of cluster %s: %w", peer, err))
	}
	return len(tenants.Items) > 0, nil
}

// peerCalled returns the peer with the given cluster ID, or the peer of the ResourceSlice with the given name.
func peerCalled(ctx context.Context, c *session.Cluster, name string) (id, namespace string, err error) {
	if namespace, err = session.FindTenantNamespace(ctx, c, name); err != nil || namespace != "" {
		return name, namespace, err
	}
	var all authv1beta1.ResourceSliceList
	if err := c.List(ctx, &all, client.MatchingLabels{api.LabelReplication: api.True}); err != nil {
		return "", "", fmt.Errorf("listing ResourceSlices: %w", err)
	}
	for i := range all.Items {
		if slice := &all.Items[i]; slice.Name == name {
			return slice.Labels[api.LabelRemoteID], slice.Namespace, nil
		}
	}
	known, err := peersOf(ctx, c)
	if err != nil {
		return "", "", fmt.Errorf("listing ForeignClusters: %w", err)
	}
	slices.Sort(known)
	return "", "", unknownPeer(name, known)
}

// unknownPeer returns the error for a peer that does not exist.
func unknownPeer(name string, known []string) error {
	return cmdline.DidYouMean(fmt.Errorf("there is no peer %s (known: %s)", name, cmp.Or(strings.Join(known, ", "), "none")), name, known)
}

// aloneWith rejects flags of a remote cluster together with a name. Either the user has access to the remote cluster, or the local control
// plane acts for the user.
func aloneWith(cmd *cobra.Command, name string) error {
	if flag := remoteFlagGiven(cmd); flag != "" {
		return fmt.Errorf("argument %s and flag --%s exclude each other: leave one of them out", name, flag)
	}
	return nil
}

// noOtherCluster reports whether connecting to both clusters failed because no flag selects a remote cluster.
func noOtherCluster(err error) bool {
	missing := (*session.NoKubeconfigError)(nil)
	return errors.Is(err, session.ErrSameCluster) || errors.As(err, &missing) && missing.Side == "remote"
}

// remoteFlagGiven returns the first flag on the command line that selects a remote cluster. It is empty if there is none.
func remoteFlagGiven(cmd *cobra.Command) string {
	for _, flag := range []string{"remote-kubeconfig", "remote-context", "remote-cluster", "remote-user"} {
		if cmd.Flags().Changed(flag) {
			return flag
		}
	}
	return ""
}
