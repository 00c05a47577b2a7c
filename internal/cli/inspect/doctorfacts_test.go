package inspect

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/cli/session"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// TestDoctorNamesUnreadableObjects: the doctor names a single object that it may not read, as it names lists.
func TestDoctorNamesUnreadableObjects(t *testing.T) {
	c := fakecluster.New("rome", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelType: api.TypeVirtualNode}}})
	c.Namespace = "liqo"
	mayNotGet(c)
	unread := strings.Join(DoctorFacts(t.Context(), c, ReadOnly).Unread, "\n")
	for _, want := range []string{
		"Lease kube-node-lease/milan can not be read: ",
		"The address ranges can not be read: reading ConfigMap liqo-network-configmap in namespace liqo: ",
	} {
		if !strings.Contains(unread, want) {
			t.Errorf("no %q in\n%s", want, unread)
		}
	}
}

// mayNotGet makes the API server refuse to read single objects.
func mayNotGet(c *session.Cluster) {
	c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, key.Name, nil)
		},
	})
}
