package handshake

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// SliceRequest holds the parameters of a new ResourceSlice.
type SliceRequest struct {
	Name, Class string
	// Provider is the cluster ID of the provider. Namespace is the tenant namespace for it.
	Provider, Namespace string
	VirtualNode         bool
	Resources           corev1.ResourceList
}

// Object returns the new ResourceSlice.
func (r *SliceRequest) Object() *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	r.fill(slice)
	return slice
}

func (r *SliceRequest) fill(slice *authv1beta1.ResourceSlice) {
	kube.AddLabels(slice, map[string]string{api.LabelReplication: api.True, api.LabelRemoteID: r.Provider, api.LabelRemoteClusterID: r.Provider})
	kube.AddAnnotations(slice, map[string]string{authv1beta1.AnnotationCreateVirtualNode: strconv.FormatBool(r.VirtualNode)})
	slice.Spec.Class = r.Class
	// Earlier amounts stay unless the user passes new ones.
	if wanted := maps.Clone(slice.Spec.Resources); len(r.Resources) > 0 {
		if wanted == nil {
			wanted = corev1.ResourceList{}
		}
		maps.Copy(wanted, r.Resources)
		if !equality.Semantic.DeepEqual(wanted, slice.Spec.Resources) {
			slice.Spec.Resources = wanted
		}
	}
}

// EnsureSlice creates or updates the ResourceSlice, waits until the provider has authenticated it and decided on the resources, and reports the
// decision.
func EnsureSlice(ctx context.Context, c *session.Cluster, request *SliceRequest) (*authv1beta1.ResourceSlice, error) {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	if err := c.Reach(ctx, authenticationGoal(slice, request)); err != nil {
		return nil, err
	}
	if err := c.Reach(ctx, verdictGoal(slice)); err != nil {
		return nil, err
	}
	condition := session.SliceCondition(slice, authv1beta1.ResourceSliceResources)
	switch {
	case !Accepted(slice):
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
func authenticationGoal(slice *authv1beta1.ResourceSlice, request *SliceRequest) *session.Goal {
	return &session.Goal{
		Object: slice, Doing: fmt.Sprintf("Asking cluster %s for resources", request.Provider),
		Made: fmt.Sprintf("ResourceSlice %s correctly ensured", slice.Name),
		Done: fmt.Sprintf("ResourceSlice authentication: %s", authv1beta1.ResourceSliceAccepted),
		Fill: func() { request.fill(slice) },
		Met: func() session.Verdict {
			condition := session.SliceCondition(slice, authv1beta1.ResourceSliceAuthentication)
			switch {
			case condition == nil:
				return session.NotYet("the provider %s has not answered", request.Provider)
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

// Accepted reports whether the provider has accepted the resources of the ResourceSlice.
func Accepted(slice *authv1beta1.ResourceSlice) bool {
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
