package offloading

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/deletevolumes"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// UnoffloadCommand returns the command unoffload.
func UnoffloadCommand(a *session.Session) *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "unoffload",
		Short: "Stop offloading namespaces",
		Long:  "Undo offload namespace.",
		Example: cmdline.Example(`
			# The pods of this namespace come back
			%[1]s unoffload namespace demo`),
	}, unoffloadNamespaceCommand(a))
}

func unoffloadNamespaceCommand(a *session.Session) *cobra.Command {
	var choice namespaceChoice
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "namespace NAME...",
		Aliases: []string{"ns", "namespaces"},
		Short:   "Stop offloading namespaces",
		Long: "Undo offload namespace: the remote namespaces are deleted with all their objects, and the controllers of the pods that ran there\n" +
			"create new pods in the local cluster.",
		Example: cmdline.Example(`
			# The pods of this namespace come back
			%[1]s unoffload namespace demo
			# Those of every namespace of a team, without being asked
			%[1]s unoffload namespace --ns-selector team=blue --skip-confirm`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.Complete(session.OffloadedNamespaces),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := choice.validate(args); err != nil {
				return err
			}
			// The time for the user's confirmation does not count towards the timeout.
			local, err := a.ForNamespaces(cmd.Context())
			if err != nil {
				return err
			}
			names, err := choice.resolve(cmd.Context(), local, args, func(string) string {
				return "kubectl get namespaceoffloadings --all-namespaces lists the offloaded ones"
			})
			if err != nil {
				return err
			}
			names, err = keepOffloaded(cmd.Context(), local, names)
			if err != nil || len(names) == 0 {
				return err
			}
			if err := deletevolumes.CheckNamespaces(cmd.Context(), local, names); err != nil {
				return err
			}
			if err := a.Confirm(fmt.Sprintf("Stop offloading %s? Its remote namespaces are deleted with everything in them.",
				strings.Join(names, ", "))); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return unoffload(ctx, local, names)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time for the whole command")
	choice.add(command)
	a.AddDryRun(command.Flags())
	deletevolumes.AddFlag(a, command.Flags())
	return command
}

// keepOffloaded returns the namespaces that are offloaded, and reports the others.
func keepOffloaded(ctx context.Context, c *session.Cluster, names []string) ([]string, error) {
	var kept []string
	for _, name := range names {
		key := client.ObjectKey{Namespace: name, Name: offloadingv1beta1.NamespaceOffloadingName}
		err := c.Get(ctx, key, &offloadingv1beta1.NamespaceOffloading{})
		switch {
		case err == nil:
			kept = append(kept, name)
		case apierrors.IsNotFound(err):
			c.Info("Namespace %s is not offloaded", name)
		default:
			return nil, fmt.Errorf("reading NamespaceOffloading %s: %w", key, err)
		}
	}
	return kept, nil
}

// unoffload deletes all NamespaceOffloadings before it waits for the first. Kubernetes takes seconds to delete a namespace, but deletes
// many concurrently.
func unoffload(ctx context.Context, c *session.Cluster, names []string) error {
	objects := make([]*offloadingv1beta1.NamespaceOffloading, len(names))
	for i, name := range names {
		objects[i] = &offloadingv1beta1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: offloadingv1beta1.NamespaceOffloadingName},
		}
		if err := deletevolumes.Allow(ctx, c, objects[i]); err != nil {
			return err
		}
		if err := kube.Delete(ctx, c, objects[i]); err != nil {
			return err
		}
	}
	for _, object := range objects {
		step := c.Start("Stopping the offloading of namespace %s", object.Namespace)
		err := c.WaitGone(ctx, step, object)
		step.End()
		if err != nil {
			return err
		}
		c.Did("Offloading of namespace %s correctly disabled", object.Namespace)
	}
	return nil
}
