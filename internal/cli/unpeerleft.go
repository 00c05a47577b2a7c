package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/tunnel"
)

// explainHalfDone extends the error of a failed wait of an unpeer by the reason why the provider may be unreachable, and by the command that ends the
// peering without the provider.
func explainHalfDone(c *session.Cluster, provider string, err error) error {
	if waiting := (*session.WaitError)(nil); !errors.As(err, &waiting) {
		return err
	}
	return fmt.Errorf("%w\nIf cluster %s is gone for good: liqoctl force unpeer %s", session.ExplainUnreached(c, provider, err), provider, provider)
}

// describeLeft describes the remaining objects of a peering: the tenant namespace and its network objects. It is empty if there are none. If they
// cannot be read, it only warns, because nothing depends on the result.
func describeLeft(ctx context.Context, c *session.Cluster, peer string) string {
	namespace, err := session.FindTenantNamespace(ctx, c, peer)
	if err != nil {
		c.Warn("Reading the remaining objects of the peering with %s failed: %v", peer, err)
		return ""
	}
	if namespace == "" {
		return ""
	}
	text := "namespace " + namespace
	network, err := tunnel.RemainsOf(ctx, c, peer, false)
	if err != nil {
		c.Warn("Reading the remaining objects of the network with %s failed: %v", peer, err)
		return text
	}
	var names []string
	for _, object := range network.InOrder() {
		name, _, _ := strings.Cut(c.Name(object), " in namespace ")
		names = append(names, name)
	}
	if len(names) > 0 {
		text += " with " + strings.Join(names, ", ")
	}
	return text
}

// halfDone calls explainHalfDone for the local cluster.
func halfDone(p *session.Pair, err error) error { return explainHalfDone(p.Local, p.Remote.ID, err) }

// reportLeft prints what an unpeer leaves in both clusters, and the command that removes it. It prints nothing if the remote cluster is a
// consumer too, because that peering needs the objects.
func reportLeft(ctx context.Context, p *session.Pair, command string) error {
	if shared, err := hasBothWays(ctx, p); err != nil || shared {
		return err
	}
	var all []string
	for _, side := range []struct {
		c    *session.Cluster
		peer string
	}{{p.Local, p.Remote.ID}, {p.Remote, p.Local.ID}} {
		if left := describeLeft(ctx, side.c, side.peer); left != "" {
			all = append(all, left+" (cluster "+side.c.ID+")")
		}
	}
	if len(all) > 0 {
		p.Local.Info("Kept: %s. To delete it, run: %s", strings.Join(all, ", "), command)
	}
	return nil
}

// withNamespaces returns the command line with its arguments, the flags that select the clusters, and --delete-namespaces.
func withNamespaces(command *cobra.Command, args []string) string {
	return strings.Join(append(cmdline.SameClusters(command, args), "--delete-namespaces"), " ")
}
