package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/handshake"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/cli/undo"
)

func authenticateCommand(a *session.Session) *cobra.Command {
	var auth handshake.Flags
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "authenticate",
		Aliases: []string{"auth"},
		Short:   "Authenticate the local cluster with a provider",
		Long: "Run the handshake with the remote cluster, the provider. This is the first part of peer. Afterwards the local cluster may\n" +
			"request resources from the provider (create resourceslice).",
		Example: cmdline.Example(`
			# The first step of peering, by itself
			%[1]s authenticate --remote-kubeconfig milan.yaml`),
		Args: cobra.NoArgs,
	}
	remote := session.RemoteFlags(command.Flags())
	auth.Add(command.Flags())
	a.AddDryRun(command.Flags())
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	command.RunE = session.WithTimeout(&timeout, func(ctx context.Context, _ []string) error {
		if err := auth.Validate(); err != nil {
			return err
		}
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		if err := checkIdentities(ctx, p, auth.Force); err != nil {
			return err
		}
		return session.ExplainPair(p, handshake.Authenticate(ctx, p, &auth))
	})
	return command
}

func unauthenticateCommand(a *session.Session) *cobra.Command {
	var o leaveOptions
	command := &cobra.Command{
		Use:     "unauthenticate",
		Aliases: []string{"unauth"},
		Short:   "Revoke the identity issued by a provider",
		Long: "Undo authenticate: delete the Tenant of the local cluster in the provider, and the Identity in the local cluster. The command\n" +
			"fails while the local cluster uses resources of the provider, or requests a network from it; unpeer releases both first.",
		Example: cmdline.Example(`
			# The last step of unpeering, by itself
			%[1]s unauthenticate --remote-kubeconfig milan.yaml`),
		Args: cobra.NoArgs,
	}
	remote := session.RemoteFlags(command.Flags())
	o.add(a, command.Flags())
	command.RunE = session.WithTimeout(&o.timeout, func(ctx context.Context, _ []string) error {
		p, err := a.Pair(ctx, remote)
		if err != nil {
			return err
		}
		namespace, err := session.FindTenantNamespace(ctx, p.Local, p.Remote.ID)
		if err != nil {
			return err
		}
		if err := undo.Check(ctx, p.Local, p.Remote.ID, namespace); err != nil {
			return err
		}
		if err := halfDone(p, endAuthentication(ctx, p, o.wait)); err != nil {
			return err
		}
		return reportLeft(ctx, p, strings.Replace(withNamespaces(command, nil), "unauthenticate", "unpeer", 1))
	})
	return command
}
