package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/version"
)

// VersionCommand returns the command that prints the versions of liqoctl and of the installation.
func VersionCommand(a *session.Session) *cobra.Command {
	var clientOnly bool
	var output cmdline.Output
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of liqoctl and of the installation",
		Long:  "Print the version of liqoctl and the version of Liqo in the cluster. The command fails if the version of Liqo cannot be read.",
		Example: cmdline.Example(`
			%[1]s version
			# Without asking the cluster
			%[1]s version --client`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Validate(); err != nil {
				return err
			}
			out := a.Console()
			versions := versionInfo{Client: version.Version}
			if output.Format == "" {
				fmt.Fprintf(out.Out(), "Client version: %s\n", versions.Client)
			}
			var err error
			if !clientOnly {
				versions.Server, err = serverVersion(cmd.Context(), a)
			}
			switch {
			case output.Format != "":
				err = errors.Join(cmdline.Write(out.Out(), versions, output.Format), err)
			case versions.Server != "":
				fmt.Fprintf(out.Out(), "Server version: %s\n", versions.Server)
			case errors.Is(err, errNotInstalled):
				fmt.Fprintln(out.Out(), "Server version: Unknown")
			}
			switch {
			case err != nil || versions.Server == "" || versions.Server == versions.Client:
			case versions.Server == unknownVersion:
				out.Warn("Deployment %s has no label %s with the version of the installation: liqoctl upgrade sets it", session.ControllerManager, session.LabelVersion)
			default:
				out.Warn("liqoctl is %s, the installation %s: use the liqoctl of the same version", versions.Client, versions.Server)
			}
			return err
		},
	}
	output.Add(command.Flags(), "Print the versions for programs")
	command.Flags().BoolVar(&clientOnly, "client", false, "Only print the version of liqoctl")
	return command
}

// unknownVersion is the version of an installation whose Deployment lacks the label.
const unknownVersion = "unknown"

// installedVersion returns the version in the label of the controller manager's Deployment. It is empty if there is no such Deployment.
func installedVersion(ctx context.Context, c *session.Cluster) (string, error) {
	var deployment appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: session.ControllerManager}, &deployment)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", c.Err(fmt.Errorf("reading Deployment %s in namespace %s at %s: %w", session.ControllerManager, c.Namespace, c.Config.Host, err))
	}
	return cmp.Or(deployment.Labels[session.LabelVersion], unknownVersion), nil
}

// versionInfo is the JSON and YAML output of version. Server is empty if it is unknown.
type versionInfo struct {
	Client string `json:"clientVersion"`
	Server string `json:"serverVersion,omitempty"`
}

var errNotInstalled = errors.New("liqo is not installed")

// serverVersion returns the version of the installation.
func serverVersion(ctx context.Context, a *session.Session) (string, error) {
	c, err := a.Local()
	if err != nil {
		return "", err
	}
	if _, err := c.Locate(ctx); err != nil && !apierrors.IsForbidden(err) {
		return "", err
	}
	server, err := installedVersion(ctx, c)
	if err == nil && server == "" {
		err = fmt.Errorf("%w in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig",
			errNotInstalled, c.Namespace, c.Config.Host)
	}
	return server, err
}
