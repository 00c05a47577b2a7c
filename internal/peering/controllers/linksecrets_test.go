package controllers

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestUselessKubeconfigIsNotHeld: a Secret that leads nowhere can be deleted, unless a copy is left that only it leads to; then it is said
// how to give that up.
func TestUselessKubeconfigIsNotHeld(t *testing.T) {
	unreadable := func(*corev1.Secret) (*rest.Config, string, error) { return nil, "", errors.New("no kubeconfig in it") }
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "k", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: "milan", Finalizers: []string{peering.FinalizerReplicated},
	}}
	builder := func() *fake.ClientBuilder { return fake.NewClientBuilder().WithScheme(kube.NewScheme()) }
	links := newLinks(Options{RemoteConfig: unreadable}, kube.NewScheme(), logr.Discard())

	if err := (&linkSecrets{client: builder().Build(), links: links}).finalize(t.Context(), secret); err != nil {
		t.Errorf("nothing is held, and yet: %v", err)
	}
	err := (&linkSecrets{client: builder().WithObjects(slice).Build(), links: links}).finalize(t.Context(), secret)
	if err == nil || kube.IsWait(err) || !strings.Contains(err.Error(), peering.AnnotationUnreachable) {
		t.Errorf("with a copy left: %v", err)
	}
}
