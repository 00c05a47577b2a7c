package tunnel

import (
	"context"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
)

// TestEveryNetworkRequestIsWithdrawn: all NetworkRequests to a provider are deleted, and the command waits for the deletion of the network of each.
func TestEveryNetworkRequestIsWithdrawn(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "tenant-of-milan", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
			api.LabelRemoteID: "milan", api.LabelRemoteClusterID: "milan",
		}}
	}
	first, second := &networkingv1beta1.NetworkRequest{ObjectMeta: meta("a")}, &networkingv1beta1.NetworkRequest{ObjectMeta: meta("b")}
	gateway := &networkingv1beta1.GatewayClient{ObjectMeta: meta("of-b")}
	gateway.OwnerReferences = []metav1.OwnerReference{{APIVersion: "networking.liqo.io/v1beta1", Kind: "NetworkRequest", Name: "b", UID: second.UID}}
	name := func(object client.Object) []string { return []string{object.GetName()} }
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c := &session.Cluster{
		Console: console.New(io.Discard, io.Discard, false), ID: "rome",
		WithWatch: fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(first, second, gateway).
			WithIndex(&networkingv1beta1.NetworkRequest{}, "metadata.name", name).WithIndex(&networkingv1beta1.GatewayClient{}, "metadata.name", name).
			WithInterceptorFuncs(interceptor.Funcs{
				// Only an object that still exists is watched, and no controller deletes the gateway here.
				Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
					interrupt()
					return nil, ctx.Err()
				},
			}).Build(),
	}
	want := "waiting for GatewayClient of-b in namespace tenant-of-milan to be gone"
	if err := Withdraw(ctx, c, "tenant-of-milan", "milan"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the network of the second request is not waited for: %v", err)
	}
	for _, request := range []client.Object{first, second} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
			t.Errorf("NetworkRequest %s is left: %v", request.GetName(), err)
		}
	}
}
