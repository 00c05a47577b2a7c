package object

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
)

func createResourceSliceCommand(a *session.Session) *cobra.Command {
	request := handshake.SliceRequest{}
	var resources cmdline.Resources
	var output cmdline.Output
	var noVirtualNode bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "rslice"},
		Short:   "Request resources from a provider",
		Long: "Create a ResourceSlice: request resources from the provider. They become a virtual node of the same name.\n" +
			"The provider chooses the amounts that are not given.",
		Example: cmdline.Example(`
			# A second virtual node on the provider milan
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan --cpu 4 --memory 16Gi --resource nvidia.com/gpu=1
			# Only print the object
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan -o yaml`),
		Args:              cmdline.ExactlyOne("the name of the ResourceSlice"),
		ValidArgsFunction: cobra.NoFileCompletions, // a new name
		RunE: session.WithTimeout(&timeout, func(ctx context.Context, args []string) error {
			var err error
			if err = output.Validate(); err != nil {
				return err
			}
			if request.Resources, err = resources.List(); err != nil {
				return err
			}
			request.Name, request.VirtualNode = args[0], !noVirtualNode
			local, err := a.Installed(ctx)
			if err != nil {
				return err
			}
			if request.Namespace, err = session.RequireTenantNamespace(ctx, local, request.Provider); err != nil {
				return err
			}
			if output.Format != "" {
				return session.PrintObject(local, request.Object(), output.Format)
			}
			if request.VirtualNode {
				if err := handshake.CheckNodeName(ctx, local, request.Name, request.Provider, "give the ResourceSlice another name, or --no-virtual-node"); err != nil {
					return err
				}
			}
			_, err = handshake.EnsureSlice(ctx, local, &request)
			return err
		}),
	}
	flags := command.Flags()
	session.AddClusterFlag(command, &request.Provider, "provider")
	flags.StringVar(&request.Class, "class", authv1beta1.ResourceSliceClassDefault, "Class of the ResourceSlice")
	flags.BoolVar(&noVirtualNode, "no-virtual-node", false, "Do not create a virtual node for the ResourceSlice")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait for the provider")
	resources.Add(flags)
	output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	return command
}
