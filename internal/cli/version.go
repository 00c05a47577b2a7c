package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/version"
)

func versionCommand(a *app) *cobra.Command {
	var clientOnly bool
	var output outputFlag
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of liqoctl and of the installation",
		Long:  "Print the version of liqoctl and the version of Liqo in the cluster. The command fails if the version of Liqo cannot be read.",
		Example: example(`
			%[1]s version
			# Without asking the cluster
			%[1]s version --client`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.validate(); err != nil {
				return err
			}
			out := a.console()
			versions := versionInfo{Client: version.Version}
			if output.format == "" {
				fmt.Fprintf(out.Out(), "Client version: %s\n", versions.Client)
			}
			var err error
			if !clientOnly {
				versions.Server, err = serverVersion(cmd.Context(), a)
			}
			switch {
			case output.format != "":
				err = errors.Join(write(out.Out(), versions, output.format), err)
			case versions.Server != "":
				fmt.Fprintf(out.Out(), "Server version: %s\n", versions.Server)
			case errors.Is(err, errNotInstalled):
				fmt.Fprintln(out.Out(), "Server version: Unknown")
			}
			switch {
			case err != nil || versions.Server == "" || versions.Server == versions.Client:
			case versions.Server == unknownVersion:
				out.Warn("Deployment %s has no label %s with the version of the installation: liqoctl upgrade sets it", deploymentName, labelVersion)
			default:
				out.Warn("liqoctl is %s, the installation %s: use the liqoctl of the same version", versions.Client, versions.Server)
			}
			return err
		},
	}
	output.add(command.Flags(), "Print the versions for programs")
	command.Flags().BoolVar(&clientOnly, "client", false, "Only print the version of liqoctl")
	return command
}

// labelVersion is the label with the version of an installation. Every way of installing Liqo sets it.
const labelVersion = "app.kubernetes.io/version"

// unknownVersion is the version of an installation whose Deployment lacks the label.
const unknownVersion = "unknown"

// installedVersion returns the version in the label of the controller manager's Deployment. It is empty if there is no such Deployment.
func installedVersion(ctx context.Context, c *cluster) (string, error) {
	var deployment appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: deploymentName}, &deployment)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", c.error(fmt.Errorf("reading Deployment %s in namespace %s at %s: %w", deploymentName, c.namespace, c.config.Host, err))
	}
	return orDefault(deployment.Labels[labelVersion], unknownVersion), nil
}

// versionInfo is the JSON and YAML output of version. Server is empty if it is unknown.
type versionInfo struct {
	Client string `json:"clientVersion"`
	Server string `json:"serverVersion,omitempty"`
}

var errNotInstalled = errors.New("liqo is not installed")

// serverVersion returns the version of the installation.
func serverVersion(ctx context.Context, a *app) (string, error) {
	c, err := a.local()
	if err != nil {
		return "", err
	}
	if _, err := c.locate(ctx); err != nil && !apierrors.IsForbidden(err) {
		return "", err
	}
	server, err := installedVersion(ctx, c)
	if err == nil && server == "" {
		err = fmt.Errorf("%w in namespace %s of %s: install it (liqoctl install), or name the right kubeconfig",
			errNotInstalled, c.namespace, c.config.Host)
	}
	return server, err
}
