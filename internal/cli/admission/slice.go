package admission

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// sliceVerb holds the texts of one of the two commands: cordon resourceslice and uncordon resourceslice.
type sliceVerb struct {
	verb, short, long string
	cordon            bool
}

var (
	cordonSlice = sliceVerb{
		verb: "cordon", cordon: true, short: "Stop granting new resources to one ResourceSlice of a consumer",
		long: "Run this command in a provider. It cordons a ResourceSlice of a consumer: the granted resources stay granted and its pods keep running,\n" +
			"but it gets no further resources and the provider admits no further pods of it, until uncordon. Other ResourceSlices are not affected.",
	}
	uncordonSlice = sliceVerb{
		verb: "uncordon", short: "Undo cordon resourceslice",
		long: "Run this command in a provider. It undoes cordon resourceslice.",
	}
)

func sliceCommand(a *session.Session, of sliceVerb) *cobra.Command {
	var consumer string
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: session.KindSlice.Aliases,
		Short:   of.short,
		Long:    of.long,
		Example: cmdline.Example("\t# The request milan-gpu of the consumer rome\n\t%[1]s " + of.verb + " resourceslice milan-gpu --remote-cluster-id rome"),
		Args:    cmdline.ExactlyOne("the name of the ResourceSlice"),
		RunE: func(cmd *cobra.Command, args []string) error {
			local, err := a.Installed(cmd.Context())
			if err != nil {
				return err
			}
			slice, err := copyOfSlice(cmd.Context(), local, consumer, args[0])
			if err != nil {
				return err
			}
			if (slice.Annotations[authv1beta1.AnnotationCordon] == api.True) == of.cordon {
				local.Info("ResourceSlice %s is %sed already", slice.Name, of.verb)
				return nil
			}
			if of.cordon {
				question := fmt.Sprintf("Cordon ResourceSlice %s of cluster %s? Its pods keep running, but no further pods are admitted.", slice.Name, consumer)
				if err := a.Confirm(question); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return setCordon(ctx, local, slice, consumer, of)
		},
	}
	command.ValidArgsFunction = a.CompleteFirst(func(ctx context.Context, c *session.Cluster) ([]string, error) {
		var list authv1beta1.ResourceSliceList
		labels := client.MatchingLabels{api.LabelReplicated: api.True}
		if consumer != "" {
			labels[api.LabelOriginID] = consumer
		}
		err := c.List(ctx, &list, labels)
		return session.NamesOf(list.Items, func(s authv1beta1.ResourceSlice) string { return s.Name }), err
	})
	flags := command.Flags()
	session.AddClusterFlag(command, &consumer, "consumer")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait until it takes effect")
	a.AddDryRun(flags)
	return command
}

// copyOfSlice returns the copy of a consumer's ResourceSlice in this cluster.
func copyOfSlice(ctx context.Context, c *session.Cluster, consumer, name string) (*authv1beta1.ResourceSlice, error) {
	namespace, err := session.RequireTenantNamespace(ctx, c, consumer)
	if err != nil {
		return nil, err
	}
	var list authv1beta1.ResourceSliceList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ResourceSlices in namespace %s: %w", namespace, err)
	}
	var known []string
	for i := range list.Items {
		slice := &list.Items[i]
		copied := peering.IsCopy(slice, consumer)
		switch {
		case slice.Name == name && copied:
			return slice, nil
		case slice.Name == name:
			return nil, fmt.Errorf("ResourceSlice %s in namespace %s is a request of this cluster to cluster %s: run the command on %s, or delete the ResourceSlice", name, namespace, consumer, consumer)
		case copied:
			known = append(known, slice.Name)
		}
	}
	return nil, cmdline.DidYouMean(fmt.Errorf("cluster %s has no ResourceSlice %s in namespace %s (known: %s)",
		consumer, name, namespace, cmp.Or(strings.Join(known, ", "), "none")), name, known)
}

func setCordon(ctx context.Context, c *session.Cluster, slice *authv1beta1.ResourceSlice, consumer string, of sliceVerb) error {
	step := c.Start("Waiting until ResourceSlice %s is %sed", slice.Name, of.verb)
	defer step.End()
	tenant, err := session.TenantOf(ctx, c, consumer)
	if err != nil {
		return err
	}
	before := slice.DeepCopy()
	if of.cordon {
		kube.AddAnnotations(slice, map[string]string{authv1beta1.AnnotationCordon: api.True})
	} else {
		delete(slice.Annotations, authv1beta1.AnnotationCordon)
	}
	if err := c.Patch(ctx, slice, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating %s: %w", c.Name(slice), err)
	}
	if err := awaitQuotas(ctx, c, step, tenant, func(s *authv1beta1.ResourceSlice) bool { return s.Name == slice.Name }); err != nil {
		return err
	}
	step.Done("ResourceSlice %s %sed", slice.Name, of.verb)
	return nil
}
