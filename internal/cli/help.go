package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
)

// usage is cobra's usage template without the flags of every command. An alias that cmdline.ListAlias marked has a line of its own. As in kubectl, the last line says how to list them.
const usage = `Usage:{{if and .Runnable .HasParent}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$commands := .Commands}}{{if eq (len .Groups) 0}}

Available Commands:{{range $commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $commands}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{if .Annotations.listed}}
  {{rpad .Annotations.listed .NamePadding}} {{.Annotations.listedShort}}{{end}}{{end}}{{end}}{{end}}

Additional Commands:{{range $commands}}{{if and (eq .GroupID "") .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{if .HasAvailableSubCommands}}
Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}
Use "{{.Root.CommandPath}} options" for the flags of every command.
`

func optionsCommand(a *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of all commands",
		Long:  "List the flags that every command has. They choose the cluster, the user and the namespace, like the same flags of kubectl.",
		Example: cmdline.Example(`
			%[1]s options`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(a.Console().Out(), "Every command has these flags:\n\n%s", cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}
