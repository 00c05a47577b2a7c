package object

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// mayNotGet makes the API server refuse to read single objects.
func mayNotGet(c *session.Cluster) {
	c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, key.Name, nil)
		},
	})
}

// TestVirtualNodeSecretMustBeReadable: a VirtualNode is not created with a Secret that cannot be checked, and the error names the Secret and the
// cure.
func TestVirtualNodeSecretMustBeReadable(t *testing.T) {
	c := fakecluster.New("rome", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-of-milan", Name: "kubeconfig-x"}})
	refused := func(name, want string) {
		t.Helper()
		if err := checkKubeconfigSecret(t.Context(), c, "tenant-of-milan", name); err == nil || !strings.Contains(session.Cured(err).Error(), want) {
			t.Errorf("Secret %s: %v, want %q", name, err, want)
		}
	}
	if err := checkKubeconfigSecret(t.Context(), c, "tenant-of-milan", "kubeconfig-x"); err != nil {
		t.Error(err)
	}
	refused("kubeconfig-y", "there is no Secret kubeconfig-y in namespace tenant-of-milan: give one with the kubeconfig of a ResourceSlice, kubeconfig-resourceslice-NAME")
	mayNotGet(c)
	refused("kubeconfig-x", "reading Secret kubeconfig-x in namespace tenant-of-milan: ")
	refused("kubeconfig-x", "The user of the kubeconfig lacks this right")
}
