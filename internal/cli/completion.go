package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completionFunc returns the possible completions of the word that the user is typing.
type completionFunc = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completion returns a completionFunc that queries the cluster. It gives up after three seconds, so that the shell is not blocked.
func (a *app) completion(ask func(context.Context, *cluster) ([]string, error)) completionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		c, err := a.local()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return starting(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// starting returns the words that start with the typed text, sorted and without duplicates.
func starting(words []string, typed string) []string {
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(word string) bool { return !strings.HasPrefix(word, typed) })
}

// names completes the first argument with the names of objects.
func (a *app) names(kinds ...objectKind) completionFunc {
	return a.firstOf(func(ctx context.Context, c *cluster) ([]string, error) {
		var out []string
		for _, kind := range kinds {
			objects, err := listKind(ctx, c, kind, *a.kubeconfig.Namespace)
			if err != nil {
				return nil, err
			}
			out = append(out, namesOf(objects, client.Object.GetName)...)
		}
		return out, nil
	})
}

// completeFlag registers the completion of a flag.
func completeFlag(command *cobra.Command, flag string, complete completionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(fmt.Sprintf("command %s: %v", command.Name(), err)) // a programming error
	}
}

// oneOf completes a flag with the given values.
func oneOf(command *cobra.Command, flag string, values ...string) {
	completeFlag(command, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// firstOf completes the first argument with the result of ask, and no further arguments.
func (a *app) firstOf(ask func(context.Context, *cluster) ([]string, error)) completionFunc {
	complete := a.completion(ask)
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

func namesOf[T any](items []T, name func(T) string) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, name(item))
	}
	return out
}
