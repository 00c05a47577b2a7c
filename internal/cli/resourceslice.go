package cli

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/cmdline"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// sliceRequest holds the parameters of a new ResourceSlice.
type sliceRequest struct {
	name, class string
	// provider is the cluster ID of the provider. namespace is the tenant namespace for it.
	provider, namespace string
	virtualNode         bool
	resources           corev1.ResourceList
}

func (r *sliceRequest) object() *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name}}
	r.fill(slice)
	return slice
}

func (r *sliceRequest) fill(slice *authv1beta1.ResourceSlice) {
	kube.AddLabels(slice, map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: r.provider, api.LabelRemoteClusterID: r.provider})
	kube.AddAnnotations(slice, map[string]string{authv1beta1.AnnotationCreateVirtualNode: strconv.FormatBool(r.virtualNode)})
	slice.Spec.Class = r.class
	// Earlier amounts stay unless the user passes new ones.
	if wanted := maps.Clone(slice.Spec.Resources); len(r.resources) > 0 {
		if wanted == nil {
			wanted = corev1.ResourceList{}
		}
		maps.Copy(wanted, r.resources)
		if !equality.Semantic.DeepEqual(wanted, slice.Spec.Resources) {
			slice.Spec.Resources = wanted
		}
	}
}

// ensureSlice creates or updates the ResourceSlice, waits until the provider has authenticated it and decided on the resources, and reports the
// decision.
func ensureSlice(ctx context.Context, c *session.Cluster, request *sliceRequest) (*authv1beta1.ResourceSlice, error) {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: request.namespace, Name: request.name}}
	if err := c.Reach(ctx, authenticationGoal(slice, request)); err != nil {
		return nil, err
	}
	if err := c.Reach(ctx, verdictGoal(slice)); err != nil {
		return nil, err
	}
	condition := session.SliceCondition(slice, authv1beta1.ResourceSliceResources)
	switch {
	case !accepted(slice):
		c.Warn("ResourceSlice resources: %s (%s: %s)", condition.Status, condition.Reason, condition.Message)
	case cut(slice):
		c.Did("ResourceSlice resources: %s", condition.Status)
		c.Warn("ResourceSlice resources: %s", condition.Message)
	default:
		c.Did("ResourceSlice resources: %s", condition.Status)
	}
	return slice, nil
}

// authenticationGoal requests the resources. The provider authenticates the ResourceSlice.
func authenticationGoal(slice *authv1beta1.ResourceSlice, request *sliceRequest) *session.Goal {
	return &session.Goal{
		Object: slice, Doing: fmt.Sprintf("Asking cluster %s for resources", request.provider),
		Made: fmt.Sprintf("ResourceSlice %s correctly ensured", slice.Name),
		Done: fmt.Sprintf("ResourceSlice authentication: %s", authv1beta1.ResourceSliceAccepted),
		Fill: func() { request.fill(slice) },
		Met: func() session.Verdict {
			condition := session.SliceCondition(slice, authv1beta1.ResourceSliceAuthentication)
			switch {
			case condition == nil:
				return session.NotYet("the provider %s has not answered", request.provider)
			case condition.Status == authv1beta1.ResourceSliceAccepted:
				return session.Yes()
			default:
				return session.NotYet("condition %s is %s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
			}
		},
	}
}

// verdictGoal waits until the provider accepts or denies the resources.
func verdictGoal(slice *authv1beta1.ResourceSlice) *session.Goal {
	return &session.Goal{
		Object: slice, Doing: "Waiting for the decision on the resources",
		Met: func() session.Verdict {
			if session.SliceCondition(slice, authv1beta1.ResourceSliceResources) == nil {
				return session.NotYet("there is no decision on the resources (class %q)", slice.Spec.Class)
			}
			return session.Yes()
		},
		Answer: func() {
			slice.Status.Conditions = append(slice.Status.Conditions,
				authv1beta1.ResourceSliceCondition{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted})
			slice.Status.Resources = slice.Spec.Resources
		},
	}
}

// accepted reports whether the provider has accepted the resources of the ResourceSlice.
func accepted(slice *authv1beta1.ResourceSlice) bool {
	condition := session.SliceCondition(slice, authv1beta1.ResourceSliceResources)
	return condition != nil && condition.Status == authv1beta1.ResourceSliceAccepted
}

// cut reports whether the provider granted less than the ResourceSlice requests.
func cut(slice *authv1beta1.ResourceSlice) bool {
	for name, asked := range slice.Spec.Resources {
		if got := slice.Status.Resources[name]; got.Cmp(asked) < 0 {
			return true
		}
	}
	return false
}

func createResourceSliceCommand(a *session.Session) *cobra.Command {
	request := sliceRequest{}
	var resources cmdline.Resources
	var output cmdline.Output
	var noVirtualNode bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "rslice"},
		Short:   "Request resources from a provider",
		Long: "Create a ResourceSlice: request resources from the provider. They become a virtual node of the same name.\n" +
			"The provider chooses the amounts that are not given.",
		Example: cmdline.Example(`
			# A second virtual node on the provider milan
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan --cpu 4 --memory 16Gi --resource nvidia.com/gpu=1
			# Only print the object
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan -o yaml`),
		Args:              cmdline.ExactlyOne("the name of the ResourceSlice"),
		ValidArgsFunction: cobra.NoFileCompletions, // a new name
		RunE: session.WithTimeout(&timeout, func(ctx context.Context, args []string) error {
			var err error
			if err = output.Validate(); err != nil {
				return err
			}
			if request.resources, err = resources.List(); err != nil {
				return err
			}
			request.name, request.virtualNode = args[0], !noVirtualNode
			local, err := a.Installed(ctx)
			if err != nil {
				return err
			}
			if request.namespace, err = session.RequireTenantNamespace(ctx, local, request.provider); err != nil {
				return err
			}
			if output.Format != "" {
				return session.PrintObject(local, request.object(), output.Format)
			}
			if request.virtualNode {
				if err := checkNodeName(ctx, local, request.name, request.provider, "give the ResourceSlice another name, or --no-virtual-node"); err != nil {
					return err
				}
			}
			_, err = ensureSlice(ctx, local, &request)
			return err
		}),
	}
	flags := command.Flags()
	flags.StringVar(&request.provider, "remote-cluster-id", "", "Cluster ID of the provider (required)")
	flags.StringVar(&request.class, "class", authv1beta1.ResourceSliceClassDefault, "Class of the ResourceSlice")
	flags.BoolVar(&noVirtualNode, "no-virtual-node", false, "Do not create a virtual node for the ResourceSlice")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait for the provider")
	resources.Add(flags)
	output.Add(flags, "Only print the object, do not create it")
	a.AddDryRun(flags)
	cmdline.Required(command, "remote-cluster-id")
	return command
}
