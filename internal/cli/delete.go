package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (a *app) deleteCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "delete",
		Short: "Delete single objects",
		Long:  "Delete the objects that a peering is made of, one by one.",
		Example: example(`
			# End the tunnel to milan
			%[1]s delete gatewayclient milan`),
	}, a.deleteObjectCommand(kindConfiguration), a.deleteObjectCommand(kindServer), a.deleteObjectCommand(kindClient), a.deleteObjectCommand(kindPublicKey),
		a.deleteObjectCommand(kindVirtualNode), a.deletePeeringUserCommand())
}

func (a *app) deleteObjectCommand(kind objectKind) *cobra.Command {
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     kind.name + " NAME",
		Aliases: kind.aliases,
		Short:   kind.short,
		Long:    kind.short + ". The object is looked for in all namespaces, unless --namespace names one.",
		Example: example("%[1]s delete " + kind.name + " milan"),
		Args:    exactlyOne("the name of the " + kind.name),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			local, within, err := a.installedWithin(ctx)
			if err != nil {
				return err
			}
			object, err := local.find(ctx, kind, within, args[0])
			if err != nil {
				return err
			}
			if err := local.deleteAll(ctx, []client.Object{object}, wait); err != nil {
				return err
			}
			if !wait {
				local.Did("%s deleted", local.name(object))
			}
			return nil
		},
		ValidArgsFunction: a.names(kind),
	}
	a.addDryRun(command.Flags())
	command.Flags().BoolVar(&wait, "wait", true, "Wait until it is gone")
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "How long to wait")
	return command
}
