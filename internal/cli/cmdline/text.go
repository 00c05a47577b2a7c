package cmdline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ProgramName returns the name by which the user runs liqoctl: kubectl runs a plugin under its file name.
func ProgramName(args []string) string {
	if len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "kubectl-liqo") {
		return "kubectl liqo"
	}
	return "liqoctl"
}

// Example converts an indented literal to the form for the help text, and replaces %[1]s by the name of the program.
func Example(text string) string {
	text = strings.Trim(text, "\n")
	lines := strings.Split(text, "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], "\t"))
	for i, line := range lines {
		lines[i] = "  " + strings.TrimPrefix(line, strings.Repeat("\t", indent))
	}
	return fmt.Sprintf(strings.TrimRight(strings.Join(lines, "\n"), " \t\n"), ProgramName(os.Args))
}

// The annotations of a command with an alias that the list of commands shows on a line of its own, and the text of that line. The usage template reads them.
const annotationListed, annotationListedShort = "listed", "listedShort"

// ListAlias makes the list of commands show an alias of a command on a line of its own.
func ListAlias(command *cobra.Command, alias, short string) {
	if command.Annotations == nil {
		command.Annotations = map[string]string{}
	}
	command.Annotations[annotationListed], command.Annotations[annotationListedShort] = alias, short
}

// ListedAlias returns the alias that ListAlias marked, and the text of its line. It is empty if there is none.
func ListedAlias(command *cobra.Command) (alias, short string) {
	return command.Annotations[annotationListed], command.Annotations[annotationListedShort]
}

// Unique returns each of the words once, in the order in which they first occur.
func Unique(words []string) []string {
	var out []string
	for _, word := range words {
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}
