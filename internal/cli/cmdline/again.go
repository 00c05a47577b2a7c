package cmdline

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// SameClusters returns the command line with its arguments, and the flags that select the clusters. Each word can be pasted into a shell.
func SameClusters(command *cobra.Command, args []string) []string {
	return commandLine(command, args, func(name string) bool {
		return slices.Contains([]string{"kubeconfig", "context", "cluster", "user", "namespace"}, strings.TrimPrefix(name, "remote-"))
	})
}

// SameCommand returns the command line with its arguments and all given flags except some. Each word can be pasted into a shell.
func SameCommand(command *cobra.Command, args []string, except ...string) []string {
	return commandLine(command, args, func(name string) bool { return !slices.Contains(except, name) })
}

func commandLine(command *cobra.Command, args []string, with func(flag string) bool) []string {
	words := strings.Fields(command.CommandPath())
	for _, arg := range args {
		words = append(words, quoted(arg))
	}
	command.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			switch {
			case !with(flag.Name):
			case flag.NoOptDefVal != "": // such a flag takes its value only after an equals sign
				words = append(words, "--"+flag.Name+"="+quoted(value))
			default:
				words = append(words, "--"+flag.Name, quoted(value))
			}
		}
	})
	return words
}

// unquoted matches the words that need no quotes in a shell.
var unquoted = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted returns a word for a shell, in quotes if it needs them.
func quoted(word string) string {
	if unquoted.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
