package session

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/cli/cmdline"
)

// AddClusterFlag registers the required flag with the cluster ID of the other cluster. role is peer, provider or consumer.
func AddClusterFlag(command *cobra.Command, id *string, role string) {
	command.Flags().StringVar(id, "remote-cluster-id", "", "Cluster ID of the "+role+" (required)")
	cmdline.Required(command, "remote-cluster-id")
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
