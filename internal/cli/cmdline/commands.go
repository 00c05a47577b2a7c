package cmdline

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Group returns a command that only has subcommands. It fails if it is called without a known subcommand.
func Group(command *cobra.Command, children ...*cobra.Command) *cobra.Command {
	command.Args = UnknownCommand
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s needs a subcommand: %s --help lists them", cmd.CommandPath(), cmd.CommandPath())
	}
	command.AddCommand(children...)
	return command
}

// ExactlyOne requires one argument. Its error names the missing argument.
func ExactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one argument, %s, got %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// Required marks flags as required.
func Required(command *cobra.Command, names ...string) {
	for _, name := range names {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(fmt.Sprintf("command %s has no flag %s", command.Name(), name)) // a programming error
		}
	}
}

// Write prints data as JSON or YAML.
func Write(w io.Writer, data any, format string) error {
	var text []byte
	var err error
	if strings.EqualFold(format, "json") {
		if text, err = json.MarshalIndent(data, "", "  "); err == nil {
			text = append(text, '\n')
		}
	} else {
		text, err = yaml.Marshal(data)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", format, err)
	}
	_, err = w.Write(text)
	return err
}

// AtMostOne allows at most one argument.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("want at most one argument, %s, got %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}
