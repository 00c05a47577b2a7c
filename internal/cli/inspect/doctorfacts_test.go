package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/cli/session"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

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

// TestDoctorReadsItsDefinitionsOnly: a cluster may define thousands of kinds, whose list exceeds the size of a response. Definitions that may not be read are
// one line.
func TestDoctorReadsItsDefinitionsOnly(t *testing.T) {
	established := apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}}
	const tenants = "tenants.authentication.liqo.io"
	c := fakecluster.New("rome", &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: tenants}, Status: established})
	c.Namespace = "liqo"
	c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
		List: func(ctx context.Context, under client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*apiextensionsv1.CustomResourceDefinitionList); is {
				return errors.New("the response is too large")
			}
			return under.List(ctx, list, options...)
		},
	})
	facts := DoctorFacts(t.Context(), c, ReadOnly)
	if facts.Lacked[tenants] != "version v1beta1" {
		t.Errorf("a definition without versions lacks %q", facts.Lacked[tenants])
	}
	if established, exists := facts.Defined[tenants]; !exists || !established || len(facts.Defined) != 1 || len(facts.Wanted) < 20 {
		t.Errorf("of %d definitions, these are established: %v", len(facts.Wanted), facts.Defined)
	}
	if unread := strings.Join(facts.Unread, "\n"); strings.Contains(unread, "CustomResourceDefinition") {
		t.Errorf("definitions can't be read:\n%s", unread)
	}
	mayNotGet(c)
	if unread := strings.Join(DoctorFacts(t.Context(), c, ReadOnly).Unread, "\n"); strings.Count(unread, "CustomResourceDefinition") != 1 {
		t.Errorf("want one line about definitions in\n%s", unread)
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
