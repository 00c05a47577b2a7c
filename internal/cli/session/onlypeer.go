package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/doctor"
)

// beginsPeering is the annotation of commands that may start a new peering.
const beginsPeering = "begins-peering"

// BeginsPeering marks a command that may start a new peering. ChoosePeer does not use the only known peer as its default.
func BeginsPeering(command *cobra.Command) {
	if command.Annotations == nil {
		command.Annotations = map[string]string{}
	}
	command.Annotations[beginsPeering] = "true"
}

// ErrUnnamed is wrapped by the error of a command without a peer argument, if there is not exactly one peer.
var ErrUnnamed = errors.New("no peer is named")

// currentPeers returns the sorted IDs of the current peers for which the predicate holds.
func currentPeers(ctx context.Context, c *Cluster, which func(*corev1beta1.ForeignCluster) bool) ([]string, error) {
	var list corev1beta1.ForeignClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, c.Err(fmt.Errorf("listing ForeignClusters: %w", err))
	}
	var out []string
	for i := range list.Items {
		if foreign := &list.Items[i]; !doctor.Former(foreign) && which(foreign) {
			out = append(out, foreign.Spec.ClusterID)
		}
	}
	slices.Sort(out)
	return out, nil
}

func anyPeer(*corev1beta1.ForeignCluster) bool { return true }

func isProvider(foreign *corev1beta1.ForeignCluster) bool {
	return foreign.Status.Role != corev1beta1.RoleConsumer
}

// OnlyName returns the only known name, for a command without a name, and reports its choice. It fails if there is no name or more than one. what describes the
// names, for example "providers of cluster rome", and how says how the user passes one.
func OnlyName(c *Cluster, known []string, what, how string) (string, error) {
	switch len(known) {
	case 0:
		return "", c.Err(fmt.Errorf("%w, and there are no %s: %s", ErrUnnamed, what, how))
	case 1:
		c.Info("No name was given: using %s, the only one of the %s", known[0], what)
		return known[0], nil
	}
	return "", c.Err(fmt.Errorf("%w, and there are several %s: %s: %s", ErrUnnamed, what, strings.Join(known, ", "), how))
}

// OnlyProvider returns the only provider of a cluster, or fails.
func OnlyProvider(ctx context.Context, c *Cluster, how string) (string, error) {
	known, err := currentPeers(ctx, c, isProvider)
	if err != nil {
		return "", err
	}
	return OnlyName(c, known, "providers of cluster "+c.ID, how)
}

// ChoosePeer sets a required --remote-cluster-id to the only peer, if the user did not set it. If there are several peers, it fails and
// lists them. If there is no peer, or the peers cannot be read, it does nothing: the check of required flags then fails.
func ChoosePeer(cmd *cobra.Command, a *Session) error {
	flag := cmd.Flags().Lookup("remote-cluster-id")
	if flag == nil || flag.Changed || len(flag.Annotations[cobra.BashCompOneRequiredFlag]) == 0 {
		return nil
	}
	c, err := a.Installed(cmd.Context())
	if err != nil {
		return nil //nolint:nilerr // the missing flag is the user's first problem
	}
	known, err := currentPeers(cmd.Context(), c, anyPeer)
	if err != nil || len(known) == 0 {
		return nil //nolint:nilerr // as above
	}
	how := "name one with --remote-cluster-id"
	if cmd.Annotations[beginsPeering] != "" {
		return fmt.Errorf("%w: %s (this cluster has as peers: %s)", ErrUnnamed, how, strings.Join(known, ", "))
	}
	id, err := OnlyName(c, known, "peers of cluster "+c.ID, how)
	if err != nil {
		return err
	}
	return cmd.Flags().Set(flag.Name, id)
}
