package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/install/installer"
	"liqo.io/liqo/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	var clientOnly bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of liqoctl and of the installation",
		Long:  "Print the version of liqoctl and that of Liqo in the cluster. It fails when the latter is not known.",
		Example: example(`
			%[1]s version
			# Without asking the cluster
			%[1]s version --client`),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			out := a.console()
			fmt.Fprintf(out.Out(), "Client version: %s\n", version.Version)
			if clientOnly {
				return nil
			}
			c, err := a.local()
			if err != nil {
				return err
			}
			release, err := installer.NewRelease(c.getter, c.namespace, helmLog(a))
			if err != nil {
				return err
			}
			server, err := release.Version()
			if err != nil {
				return err
			}
			if server == "" {
				fmt.Fprintln(out.Out(), "Server version: Unknown")
				return fmt.Errorf("liqo is not installed in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig", c.namespace, c.config.Host)
			}
			fmt.Fprintf(out.Out(), "Server version: %s\n", server)
			if server != version.Version {
				out.Warn("liqoctl is %s, the installation %s: use the liqoctl of the same version", version.Version, server)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "Only print the version of liqoctl")
	return command
}
