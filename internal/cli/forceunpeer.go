package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/loss"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

func forceCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "force",
		Short: "Undo a peering without contacting the peer",
		Long:  "Run a command on the local cluster only, although it normally changes both clusters of a peering. Use this if the peer is gone for good.",
		Example: cmdline.Example(`
			# The cluster milan will never come back
			%[1]s force unpeer milan`),
	}, forceUnpeerCommand(a))
}

func forceUnpeerCommand(a *session.Session) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "unpeer CLUSTER-ID",
		Short: "Unpeer without contacting the peer",
		Long: "Delete everything in the local cluster that belongs to the peerings with another cluster, in both directions, without contacting\n" +
			"that cluster: virtual nodes and their pods, identities, granted resources and the pods that use them, the network between the\n" +
			"clusters, and the tenant namespace. The objects in the other cluster stay. If the other cluster still responds, run unpeer instead.\n" +
			"If the other cluster has claims in the local one, the command lists them and refuses, unless --delete-volumes is given. It also refuses\n" +
			"while the tenant namespace holds claims, or workloads that are not Liqo's.",
		Example: cmdline.Example(`
			# The cluster milan will never come back
			%[1]s force unpeer milan`),
		Args: cmdline.AtMostOne("the ID of the cluster that is gone"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Installed(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 { // the peer is required: the command is irreversible
				known, err := session.PeerIDs(cmd.Context(), c)
				if err != nil {
					return fmt.Errorf("listing ForeignClusters: %w", err)
				}
				return fmt.Errorf("%w: name the cluster that is gone for good (known: %s): %s",
					session.ErrUnnamed, cmp.Or(strings.Join(known, ", "), "none"), cmd.UseLine())
			}
			namespace, foreign, err := forgettable(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			abandoned, err := loss.Volumes(cmd.Context(), c, func(_, provider string) bool { return provider == args[0] }, false)
			if err != nil {
				return err
			}
			if len(abandoned) > 0 {
				c.Warn("This command abandons the data of these volumes, even if cluster %s still has it:\n  - %s", args[0], strings.Join(abandoned, "\n  - "))
			}
			if err := deletevolumes.CheckConsumer(cmd.Context(), c, namespace); err != nil {
				return err
			}
			if err := requireRemovable(cmd.Context(), c, namespace); err != nil {
				return err
			}
			if err := a.Confirm(giveUpQuestion(args[0], foreign)); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return forgetPeer(ctx, c, args[0], namespace)
		},
		ValidArgsFunction: a.CompleteFirst(peersOf),
	}
	a.AddDryRun(command.Flags())
	command.Flags().BoolVar(&a.DeleteVolumes, "delete-volumes", false, "Also delete the claims of the other cluster in the local one, with their data")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	return command
}

// orForce adds a hint about force unpeer to the error of a connection that could not be established.
func orForce(err error) error {
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w\nIf a cluster is gone for good, run on the other one: liqoctl force unpeer ID, with the ID of the lost cluster", err)
	}
	return err
}

// forgettable returns the tenant namespace and the ForeignCluster of a peering. The namespace is empty if it does not exist any more.
func forgettable(ctx context.Context, c *session.Cluster, peer string) (string, *corev1beta1.ForeignCluster, error) {
	if peer == c.ID {
		return "", nil, fmt.Errorf("%s is the local cluster itself: name the cluster that is lost", peer)
	}
	foreign := &corev1beta1.ForeignCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: peer}, foreign)
	if client.IgnoreNotFound(err) != nil {
		return "", nil, fmt.Errorf("reading ForeignCluster %s: %w", peer, err)
	}
	namespace, found := "", err == nil
	if namespace, err = session.FindTenantNamespace(ctx, c, peer); err != nil {
		return "", nil, err
	}
	if namespace == "" && !found {
		known, _ := session.PeerIDs(ctx, c) // only for a suggestion in the error
		return "", nil, cmdline.DidYouMean(fmt.Errorf("there is no peering with cluster %s, nor a record of one: liqoctl info lists the peers", peer), peer, known)
	}
	return namespace, foreign, nil
}

// giveUpQuestion returns the confirmation question. If the peer is reachable, the question recommends liqoctl unpeer.
func giveUpQuestion(peer string, foreign *corev1beta1.ForeignCluster) string {
	if condition := session.APIServerCondition(foreign); condition != nil && condition.Status == corev1beta1.StatusEstablished {
		return fmt.Sprintf("Cluster %s is reachable, so liqoctl unpeer would also remove what belongs to the peering there. Remove only what is in this cluster?", peer)
	}
	return fmt.Sprintf("Remove the peering with cluster %[1]s, and all of its pods in this cluster? Nothing is removed in cluster %[1]s.", peer)
}

// forgetPeer removes the peering. An annotation on the ForeignCluster keeps the controllers from contacting the peer meanwhile. forgetPeer removes
// the annotation at the end, so that a cluster with the same ID can peer again.
func forgetPeer(ctx context.Context, c *session.Cluster, peer, namespace string) error {
	if namespace != "" {
		if err := markLost(ctx, c, peer, true); err != nil {
			return err
		}
		if err := releaseResources(ctx, c, peer, namespace); err != nil {
			return err
		}
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer}}
		if err := deletevolumes.Allow(ctx, c, tenant.DeepCopy()); err != nil {
			return err
		}
		if err := c.DeleteAll(ctx, []client.Object{tenant}, true); err != nil {
			return err
		}
		if err := deleteNamespace(ctx, c, namespace); err != nil {
			return err
		}
	}
	if err := markLost(ctx, c, peer, false); err != nil {
		return err
	}
	c.Did("Cluster %s is forgotten", peer)
	c.Info("Kept: the objects of the peering in cluster %s. If that cluster is reachable again, its administrator deletes them there: liqoctl force unpeer %s", peer, c.ID)
	return nil
}

// markLost adds or removes the annotation that marks a peer as gone for good.
func markLost(ctx context.Context, c *session.Cluster, peer string, lost bool) error {
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}}
	changed, err := c.EnsureAny(ctx, foreign, func() error {
		foreign.Spec.ClusterID = peer
		if !lost {
			delete(foreign.Annotations, peering.AnnotationUnreachable)
			return nil
		}
		kube.AddAnnotations(foreign, map[string]string{peering.AnnotationUnreachable: api.True})
		return nil
	})
	if changed && lost {
		c.Did("ForeignCluster %s is marked as gone for good", peer)
	}
	return err
}

// deleteNamespace deletes a namespace and waits until it is gone. If that takes too long, the error lists the remaining contents.
func deleteNamespace(ctx context.Context, c *session.Cluster, name string) error {
	if err := requireRemovable(ctx, c, name); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := kube.Delete(ctx, c, namespace); err != nil {
		return c.Err(err)
	}
	step := c.Start("Waiting for namespace %s to be gone", name)
	err := c.WaitGone(ctx, step, namespace)
	step.End()
	if err == nil {
		c.Did("Namespace %s correctly deleted", name)
		return nil
	}
	if left := contentOf(namespace); left != "" {
		return fmt.Errorf("%w; in it are left: %s", err, left)
	}
	return err
}

// contentOf returns the messages of the conditions that keep a namespace from being deleted.
func contentOf(namespace *corev1.Namespace) string {
	var left []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			left = append(left, condition.Message)
		}
	}
	return strings.Join(left, "; ")
}
