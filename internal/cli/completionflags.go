package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
)

// completeFlags registers a completion by name for the flags of all commands. It skips flags with a completion of their own, and flags for
// paths, which the shell completes with files.
func completeFlags(a *session.Session, command *cobra.Command) {
	complete := func(flag *pflag.Flag) {
		if _, has := command.GetFlagCompletionFunc(flag.Name); has || isPath(flag.Name) {
			return
		}
		session.CompleteFlag(command, flag.Name, completionByName(a, flag.Name))
	}
	command.LocalFlags().VisitAll(complete)
	for _, child := range command.Commands() {
		completeFlags(a, child)
	}
}

// isPath reports whether a flag takes the path of a file or directory.
func isPath(flag string) bool {
	return slices.Contains([]string{
		"kubeconfig", "remote-kubeconfig", "remote-kubeconfigs", "local-chart-path", "dump-values-path", "values", "directory", "credentials-path", "auth-certificate",
	}, flag)
}

func completionByName(a *session.Session, flag string) cobra.CompletionFunc {
	switch flag {
	case "output":
		return cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)
	case "remote-cluster-id", "consumer-cluster-id":
		return a.Complete(session.PeerIDs)
	case "namespace":
		return a.Complete(session.NamespaceNames)
	case "context", "remote-context":
		return kubeconfigNames(flag, func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) })
	case "cluster", "remote-cluster":
		return kubeconfigNames(flag, func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) })
	case "user", "remote-user":
		return kubeconfigNames(flag, func(c *clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) })
	case "pod-offloading-strategy":
		return cobra.FixedCompletions([]string{
			string(offloadingv1beta1.PodsLocal), string(offloadingv1beta1.PodsLocalAndRemote), string(offloadingv1beta1.PodsRemote),
		}, cobra.ShellCompDirectiveNoFileComp)
	case "namespace-mapping-strategy":
		return cobra.FixedCompletions([]string{
			string(offloadingv1beta1.DefaultName), string(offloadingv1beta1.EnforceSameName), string(offloadingv1beta1.SelectedName),
		}, cobra.ShellCompDirectiveNoFileComp)
	default:
		return cobra.NoFileCompletions
	}
}

// kubeconfigNames completes a flag with names from the kubeconfig. A flag with prefix "remote-" uses the kubeconfig of the remote cluster.
func kubeconfigNames(flag string, of func(*clientcmdapi.Config) []string) cobra.CompletionFunc {
	path := "kubeconfig"
	if len(flag) > len("remote-") && flag[:len("remote-")] == "remote-" {
		path = "remote-kubeconfig"
	}
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		if given := cmd.Flag(path); given != nil {
			rules.ExplicitPath = given.Value.String()
		}
		config, err := rules.Load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return session.Starting(of(config), typed), cobra.ShellCompDirectiveNoFileComp
	}
}
