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
	setLabel(slice, api.LabelReplication, api.True)
	setLabel(slice, api.LabelRemoteID, r.provider)
	setLabel(slice, api.LabelRemoteClusterID, r.provider)
	setAnnotation(slice, authv1beta1.AnnotationCreateVirtualNode, strconv.FormatBool(r.virtualNode))
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
func ensureSlice(ctx context.Context, c *cluster, request *sliceRequest) (*authv1beta1.ResourceSlice, error) {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: request.namespace, Name: request.name}}
	if err := c.reach(ctx, authenticationGoal(slice, request)); err != nil {
		return nil, err
	}
	if err := c.reach(ctx, verdictGoal(slice)); err != nil {
		return nil, err
	}
	condition := sliceCondition(slice, authv1beta1.ResourceSliceResources)
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
func authenticationGoal(slice *authv1beta1.ResourceSlice, request *sliceRequest) *goal {
	return &goal{
		object: slice, doing: fmt.Sprintf("Asking cluster %s for resources", request.provider),
		made: fmt.Sprintf("ResourceSlice %s correctly ensured", slice.Name),
		done: fmt.Sprintf("ResourceSlice authentication: %s", authv1beta1.ResourceSliceAccepted),
		fill: func() { request.fill(slice) },
		met: func() verdict {
			condition := sliceCondition(slice, authv1beta1.ResourceSliceAuthentication)
			switch {
			case condition == nil:
				return notYet("the provider %s has not answered", request.provider)
			case condition.Status == authv1beta1.ResourceSliceAccepted:
				return yes()
			default:
				return notYet("condition %s is %s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
			}
		},
	}
}

// verdictGoal waits until the provider accepts or denies the resources.
func verdictGoal(slice *authv1beta1.ResourceSlice) *goal {
	return &goal{
		object: slice, doing: "Waiting for the decision on the resources",
		met: func() verdict {
			if sliceCondition(slice, authv1beta1.ResourceSliceResources) == nil {
				return notYet("there is no decision on the resources (class %q)", slice.Spec.Class)
			}
			return yes()
		},
		answer: func() {
			slice.Status.Conditions = append(slice.Status.Conditions,
				authv1beta1.ResourceSliceCondition{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted})
			slice.Status.Resources = slice.Spec.Resources
		},
	}
}

// accepted reports whether the provider has accepted the resources of the ResourceSlice.
func accepted(slice *authv1beta1.ResourceSlice) bool {
	condition := sliceCondition(slice, authv1beta1.ResourceSliceResources)
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

func createResourceSliceCommand(a *app) *cobra.Command {
	request := sliceRequest{}
	var resources resourceFlags
	var output outputFlag
	var noVirtualNode bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "rslice"},
		Short:   "Request resources from a provider",
		Long: "Create a ResourceSlice: request resources from the provider. They become a virtual node of the same name.\n" +
			"The provider chooses the amounts that are not given.",
		Example: example(`
			# A second virtual node on the provider milan
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan --cpu 4 --memory 16Gi --resource nvidia.com/gpu=1
			# Only print the object
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan -o yaml`),
		Args:              exactlyOne("the name of the ResourceSlice"),
		ValidArgsFunction: cobra.NoFileCompletions, // a new name
		RunE: withTimeout(&timeout, func(ctx context.Context, args []string) error {
			var err error
			if err = output.validate(); err != nil {
				return err
			}
			if request.resources, err = resources.list(); err != nil {
				return err
			}
			request.name, request.virtualNode = args[0], !noVirtualNode
			local, err := a.installed(ctx)
			if err != nil {
				return err
			}
			if request.namespace, err = requireTenantNamespace(ctx, local, request.provider); err != nil {
				return err
			}
			if output.format != "" {
				return printObject(local, request.object(), output.format)
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
	flags.StringVar(&request.class, "class", defaultClass, "Class of the ResourceSlice")
	flags.BoolVar(&noVirtualNode, "no-virtual-node", false, "Do not create a virtual node for the ResourceSlice")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "Maximum time to wait for the provider")
	resources.add(flags)
	output.add(flags, "Only print the object, do not create it")
	a.addDryRun(flags)
	required(command, "remote-cluster-id")
	return command
}
