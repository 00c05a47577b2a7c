package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/version"
)

// docsCommand writes the reference of all commands from their help texts.
func docsCommand() *cobra.Command {
	man := false
	command := &cobra.Command{
		Use:     "docs DIRECTORY",
		Hidden:  true,
		Short:   "Write the reference of all commands",
		Long:    "Write the reference of all commands as Markdown into a directory: one page for each command with its subcommands. With --man, write manual pages.",
		Example: cmdline.Example("\t%[1]s docs docs/reference/liqoctl"),
		Args:    cmdline.ExactlyOne("the directory to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if man {
				return manual(cmd.Root(), args[0])
			}
			for name, text := range reference(cmd.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil { //nolint:gosec // a page for everybody to read
					return fmt.Errorf("writing the reference: %w", err)
				}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&man, "man", false, "Write manual pages, dated by the environment variable SOURCE_DATE_EPOCH")
	return command
}

// manual writes a manual page for each command that is not hidden. The pages differ only by the date, which SOURCE_DATE_EPOCH sets.
func manual(root *cobra.Command, directory string) error {
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "Liqo " + version.Version, Manual: "Liqo"}
	if err := doc.GenManTree(root, header, directory); err != nil {
		return fmt.Errorf("writing the manual pages: %w", err)
	}
	return nil
}

// reference returns the text of each page, keyed by file name.
func reference(root *cobra.Command) map[string]string {
	root.InitDefaultCompletionCmd()
	var index strings.Builder
	fmt.Fprintf(&index, "# %s\n\n%s\n\n%s", root.Name(), root.Long, block(root.Example))
	pages := map[string]string{}
	list := func(title, group string) {
		lines := ""
		for _, command := range root.Commands() {
			if command.GroupID == group && !command.Hidden {
				lines += fmt.Sprintf("| [%s](%s.md) | %s |\n", command.Name(), command.Name(), command.Short)
				if alias, short := cmdline.ListedAlias(command); alias != "" {
					lines += fmt.Sprintf("| [%s](%s.md) | %s |\n", alias, command.Name(), short)
				}
			}
		}
		if lines != "" {
			fmt.Fprintf(&index, "\n## %s\n\n| command | what it does |\n|---|---|\n%s", title, lines)
		}
	}
	for _, group := range root.Groups() {
		list(strings.TrimSuffix(group.Title, ":"), group.ID)
	}
	list("More", "")
	fmt.Fprintf(&index, "\n## Flags of every command\n\n%s", flagTable(root.PersistentFlags()))
	pages["README.md"] = index.String()
	for _, command := range root.Commands() {
		if !command.Hidden {
			pages[command.Name()+".md"] = page(command)
		}
	}
	return pages
}

// page returns the page of a command and its subcommands.
func page(command *cobra.Command) string {
	var b strings.Builder
	var write func(command *cobra.Command)
	write = func(command *cobra.Command) {
		title := "#"
		if command.Parent().HasParent() {
			title = "##"
		}
		command.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "%s %s\n\n%s\n\n", title, command.CommandPath(), description(command))
		if !command.HasSubCommands() || command.HasAvailableLocalFlags() { // a group only has subcommands
			fmt.Fprintf(&b, "%s\n", block("  "+command.UseLine()))
		}
		if len(command.Aliases) > 0 {
			fmt.Fprintf(&b, "Also: `%s`.\n\n", strings.Join(command.Aliases, "`, `"))
		}
		if command.Example != "" {
			fmt.Fprintf(&b, "%s\n", block(command.Example))
		}
		if table := flagTable(command.LocalFlags()); table != "" {
			fmt.Fprintf(&b, "%s\n", table)
		}
		for _, child := range command.Commands() {
			if !child.Hidden {
				write(child)
			}
		}
	}
	write(command)
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// description returns the long help text of a command. It removes the Markdown headings from cobra's texts about shell completion.
func description(command *cobra.Command) string {
	text := strings.TrimSpace(command.Long)
	if command.Parent().Name() == "completion" {
		return strings.ReplaceAll(text, "#### ", "")
	}
	return text
}

// block returns text as a Markdown code block, without the indentation of the help.
func block(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

// flagTable returns a Markdown table of the flags. It is empty if there is no flag to list.
func flagTable(flags *pflag.FlagSet) string {
	lines := ""
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", " + name
		}
		value := ""
		if flag.DefValue != "" && flag.DefValue != "[]" && flag.DefValue != "false" {
			value = "`" + flag.DefValue + "`"
		}
		_, usage := pflag.UnquoteUsage(flag)
		lines += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`), flag.Value.Type(), value)
	})
	if lines == "" {
		return ""
	}
	return "| flag | meaning | type | default |\n|---|---|---|---|\n" + lines
}
