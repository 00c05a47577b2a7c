package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/cli/cmdline"
)

// AddPeerFlag registers the required flag with the cluster ID of the peer.
func AddPeerFlag(command *cobra.Command, peer *string) {
	command.Flags().StringVar(peer, "remote-cluster-id", "", "Cluster ID of the peer (required)")
	cmdline.Required(command, "remote-cluster-id")
	BeginsPeering(command)
}

// AddGenerateFlags registers the common flags of all commands that print an object for a peer.
func AddGenerateFlags(flags *pflag.FlagSet, output *cmdline.Output, namespace *string, timeout *time.Duration) {
	cmdline.AddTimeout(flags, timeout)
	flags.StringVarP(&output.Format, "output", "o", "yaml", "How to print the object: json or yaml")
	flags.StringVar(namespace, "remote-tenant-namespace", "", "Namespace of the object in the peer (default: liqo-tenant- and the ID of this cluster)")
}

// AddIgnoreNotFound registers --ignore-not-found.
func AddIgnoreNotFound(flags *pflag.FlagSet, ignore *bool) {
	flags.BoolVar(ignore, "ignore-not-found", false, "Succeed if there is nothing to delete")
}

// MayBeGone returns nil for a missing object if the user passed --ignore-not-found. Otherwise it adds a hint to the error.
func MayBeGone(c *Cluster, ignore bool, err error) error {
	none := (*NoneError)(nil)
	switch {
	case !errors.As(err, &none):
		return err
	case ignore:
		c.Info("%v", none)
		return nil
	}
	return fmt.Errorf("%w\nThere is nothing to delete, or it was deleted meanwhile (with --ignore-not-found this is no error)", err)
}
