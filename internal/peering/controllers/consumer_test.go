package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// TestTheOldestIdentityNamesTheRemoteNamespace: of several Identities of one provider, the oldest that names a namespace counts.
func TestTheOldestIdentityNamesTheRemoteNamespace(t *testing.T) {
	identity := func(name, remote string, created int64) *authv1beta1.Identity {
		return &authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, CreationTimestamp: metav1.Unix(created, 0)},
			Spec:       authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.IdentityControlPlane, Namespace: remote},
		}
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).
		WithObjects(identity("a", "second", 9), identity("b", "first", 5), identity("c", "", 1)).Build()
	side := consumerSide{client: c, own: "rome"}
	for provider, want := range map[string]string{"milan": "first", "turin": "liqo-tenant-rome"} {
		if got, err := side.remoteNamespace(t.Context(), "tenant", provider); err != nil || got != want {
			t.Errorf("the remote namespace in %s is %q, error %v, want %q", provider, got, err, want)
		}
	}
}
