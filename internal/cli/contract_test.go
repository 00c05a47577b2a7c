package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"liqo.io/liqo/internal/cli/session"
)

// TestContract: scripts for earlier versions keep working: names, aliases, flags and defaults stay.
func TestContract(t *testing.T) {
	text, err := os.ReadFile("testdata/contract.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	root.InitDefaultCompletionCmd()
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		head, flags, _ := strings.Cut(line, ":")
		path, aliases, _ := strings.Cut(strings.TrimSuffix(head, ")"), " (")
		words := strings.Fields(path)
		if words[0] == "liqoctl" {
			words = nil
		}
		command, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 {
			t.Errorf("there is no command %q: %v", path, err)
			continue
		}
		for _, alias := range strings.FieldsFunc(aliases, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(command.Aliases, alias) {
				t.Errorf("%q can not be called %q", path, alias)
			}
		}
		flags = strings.ReplaceAll(flags, "@two", "remote-cluster remote-context remote-kubeconfig remote-namespace=liqo remote-user")
		for _, flag := range strings.Fields(flags) {
			checkFlag(t, command, flag)
		}
	}
}

func checkFlag(t *testing.T, command *cobra.Command, want string) {
	t.Helper()
	name, value, hasDefault := strings.Cut(want, "=")
	name, must := strings.CutSuffix(name, "!")
	flag := command.Flag(name)
	if flag == nil {
		t.Errorf("%q has no flag --%s", command.CommandPath(), name)
		return
	}
	if hasDefault && flag.DefValue != value {
		t.Errorf("%q: --%s is %q where it is not given, want %q", command.CommandPath(), name, flag.DefValue, value)
	}
	if _, required := flag.Annotations[cobra.BashCompOneRequiredFlag]; required != must {
		t.Errorf("%q: --%s is required: %t, want %t", command.CommandPath(), name, required, must)
	}
}

// TestFlagsAreCompleted: completion never offers files where another kind of value is expected.
func TestFlagsAreCompleted(t *testing.T) {
	root := newRoot(session.New(genericiooptions.NewTestIOStreamsDiscard()))
	for _, command := range commands(root) {
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if _, completed := command.GetFlagCompletionFunc(flag.Name); completed == isPath(flag.Name) && flag.Name != "help" {
				t.Errorf("%s: --%s is completed: %t, is a path: %t", command.CommandPath(), flag.Name, completed, isPath(flag.Name))
			}
		})
		if takesArguments := !command.Hidden && command.Args != nil && command.Args(command, []string{"x"}) == nil; takesArguments && command.ValidArgsFunction == nil {
			t.Errorf("%s: its arguments are completed to the files of this directory", command.CommandPath())
		}
	}
}
