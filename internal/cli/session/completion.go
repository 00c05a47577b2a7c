package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Complete returns a cobra.CompletionFunc that queries the cluster. It gives up after three seconds, so that the shell is not blocked.
func (s *Session) Complete(ask func(context.Context, *Cluster) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		c, err := s.Local()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Starting(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// Starting returns the words that start with the typed text, sorted and without duplicates.
func Starting(words []string, typed string) []string {
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(word string) bool { return !strings.HasPrefix(word, typed) })
}

// CompleteNames completes the first argument with the names of objects.
func (s *Session) CompleteNames(kinds ...Kind) cobra.CompletionFunc {
	return s.CompleteFirst(func(ctx context.Context, c *Cluster) ([]string, error) {
		var out []string
		for _, kind := range kinds {
			objects, err := ListKind(ctx, c, kind, *s.Kubeconfig.Namespace)
			if err != nil {
				return nil, err
			}
			out = append(out, NamesOf(objects, client.Object.GetName)...)
		}
		return out, nil
	})
}

// CompleteFlag registers the completion of a flag.
func CompleteFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(fmt.Sprintf("command %s: %v", command.Name(), err)) // a programming error
	}
}

// CompleteOneOf completes a flag with the given values.
func CompleteOneOf(command *cobra.Command, flag string, values ...string) {
	CompleteFlag(command, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFirst completes the first argument with the result of ask, and no further arguments.
func (s *Session) CompleteFirst(ask func(context.Context, *Cluster) ([]string, error)) cobra.CompletionFunc {
	complete := s.Complete(ask)
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// NamesOf returns the names of the items.
func NamesOf[T any](items []T, name func(T) string) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, name(item))
	}
	return out
}

// PeerIDs returns the cluster IDs of the peers.
func PeerIDs(ctx context.Context, c *Cluster) ([]string, error) {
	var foreign corev1beta1.ForeignClusterList
	err := c.List(ctx, &foreign)
	return NamesOf(foreign.Items, func(f corev1beta1.ForeignCluster) string { return f.Spec.ClusterID }), err
}

// NamespaceNames returns the names of all namespaces.
func NamespaceNames(ctx context.Context, c *Cluster) ([]string, error) {
	var list corev1.NamespaceList
	err := c.List(ctx, &list)
	return NamesOf(list.Items, func(n corev1.Namespace) string { return n.Name }), err
}

// OffloadedNamespaces returns the namespaces that have a NamespaceOffloading.
func OffloadedNamespaces(ctx context.Context, c *Cluster) ([]string, error) {
	var list offloadingv1beta1.NamespaceOffloadingList
	err := c.List(ctx, &list)
	return NamesOf(list.Items, func(o offloadingv1beta1.NamespaceOffloading) string { return o.Namespace }), err
}
