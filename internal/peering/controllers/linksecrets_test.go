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
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
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

// TestReleasedPassesDeletions: the API server announces an object that went with its last finalizer as it was before. A Secret that is not
// told of it waits for ever.
func TestReleasedPassesDeletions(t *testing.T) {
	held, free := &offloadingv1beta1.NamespaceMap{}, &offloadingv1beta1.NamespaceMap{}
	held.Finalizers = []string{peering.FinalizerReplicated}
	for name, row := range map[string]struct{ got, want bool }{
		"gone with its finalizer": {released.Delete(event.DeleteEvent{Object: held}), true},
		"gone":                    {released.Delete(event.DeleteEvent{Object: free}), true},
		"finalizer removed":       {released.Update(event.UpdateEvent{ObjectOld: held, ObjectNew: free}), true},
		"still held":              {released.Update(event.UpdateEvent{ObjectOld: held, ObjectNew: held}), false},
		"never held":              {released.Update(event.UpdateEvent{ObjectOld: free, ObjectNew: free}), false},
		"new":                     {released.Create(event.CreateEvent{Object: free}), false},
	} {
		if row.got != row.want {
			t.Errorf("%s: %v, want %v", name, row.got, row.want)
		}
	}
}
