package cli

import (
	"context"
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

// ensureSlice creates or updates the ResourceSlice, and waits until the provider has authenticated it.
func (c *cluster) ensureSlice(ctx context.Context, request *sliceRequest) (*authv1beta1.ResourceSlice, error) {
	step := c.Start("Asking cluster %s for resources", request.provider)
	defer step.End()
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: request.namespace, Name: request.name}}
	changed, err := c.ensure(ctx, slice, func() error {
		if slice.DeletionTimestamp != nil {
			return c.leaving(slice)
		}
		request.fill(slice)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if changed {
		c.Did("ResourceSlice %s correctly ensured", slice.Name)
	}
	err = c.wait(ctx, step, slice, func() verdict {
		condition := sliceCondition(slice, authv1beta1.ResourceSliceAuthentication)
		switch {
		case condition == nil:
			return notYet("the provider %s has not answered", request.provider)
		case condition.Status == authv1beta1.ResourceSliceAccepted:
			return yes()
		default:
			return notYet("condition %s is %s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	})
	if err != nil {
		return nil, err
	}
	step.Done("ResourceSlice authentication: %s", authv1beta1.ResourceSliceAccepted)
	return slice, nil
}

// verdictOnResources waits until the provider accepts or denies the resources, and reports the result.
func (c *cluster) verdictOnResources(ctx context.Context, slice *authv1beta1.ResourceSlice) (accepted bool, err error) {
	step := c.Start("Waiting for the verdict on the resources")
	defer step.End()
	var condition *authv1beta1.ResourceSliceCondition
	err = c.wait(ctx, step, slice, func() verdict {
		if condition = sliceCondition(slice, authv1beta1.ResourceSliceResources); condition == nil {
			return notYet("there is no verdict on the resources (class %q)", slice.Spec.Class)
		}
		return yes()
	}, func() {
		condition = &authv1beta1.ResourceSliceCondition{Type: authv1beta1.ResourceSliceResources, Status: authv1beta1.ResourceSliceAccepted}
		slice.Status.Resources = slice.Spec.Resources
	})
	if err != nil {
		return false, err
	}
	if condition.Status == authv1beta1.ResourceSliceAccepted {
		step.Done("ResourceSlice resources: %s", condition.Status)
		if cut(slice) {
			c.Warn("ResourceSlice resources: %s", condition.Message)
		}
		return true, nil
	}
	step.End()
	c.Warn("ResourceSlice resources: %s (%s: %s)", condition.Status, condition.Reason, condition.Message)
	return false, nil
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

func (a *app) createResourceSliceCommand() *cobra.Command {
	request := sliceRequest{}
	var resources resourceFlags
	var output outputFlag
	var noVirtualNode bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "rslice"},
		Short:   "Request resources from a provider",
		Long: "Create a ResourceSlice: ask the provider for resources, which become a virtual node of the same name.\n" +
			"Amounts that are not given are the provider's choice.",
		Example: example(`
			# A second virtual node on the provider milan
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan --cpu 4 --memory 16Gi --resource nvidia.com/gpu=1
			# Only print the object
			%[1]s create resourceslice milan-gpu --remote-cluster-id milan -o yaml`),
		Args:              exactlyOne("the name of the ResourceSlice"),
		ValidArgsFunction: cobra.NoFileCompletions, // a new name
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
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
			if request.namespace, err = local.requireTenantNamespace(ctx, request.provider); err != nil {
				return err
			}
			if output.format != "" {
				return local.printObject(request.object(), output.format)
			}
			if request.virtualNode {
				if err := local.checkNodeName(ctx, request.name, request.provider, "give the ResourceSlice another name, or --no-virtual-node"); err != nil {
					return err
				}
			}
			slice, err := local.ensureSlice(ctx, &request)
			if err != nil {
				return err
			}
			_, err = local.verdictOnResources(ctx, slice)
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.provider, "remote-cluster-id", "", "Cluster ID of the provider (required)")
	flags.StringVar(&request.class, "class", defaultClass, "Class of the ResourceSlice")
	flags.BoolVar(&noVirtualNode, "no-virtual-node", false, "Do not make a virtual node out of it")
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "How long to wait for the provider")
	resources.add(flags)
	output.add(flags, "Only print the object, do not create it")
	a.addDryRun(flags)
	required(command, "remote-cluster-id")
	return command
}
