package controllers

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
)

// TestUnusableKubeconfigCanBeDeleted: a Secret whose kubeconfig does not work can be deleted, unless a copy exists that only it reaches. Then the
// message says how to give the copy up.
func TestUnusableKubeconfigCanBeDeleted(t *testing.T) {
	unreadable := func(*corev1.Secret) (*rest.Config, string, error) { return nil, "", errors.New("no kubeconfig in it") }
	identity := controlPlaneOf("milan", "1")
	secret, tenancy := secretOf(identity), tenantNamespace("milan")
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: "milan", Finalizers: []string{peering.FinalizerReplicated},
	}}
	builder := func() *fake.ClientBuilder { return fake.NewClientBuilder().WithScheme(kube.NewScheme()) }
	links := newLinks(Options{RemoteConfig: unreadable}, kube.NewScheme(), logr.Discard())

	if err := (&linkSecrets{client: builder().WithObjects(tenancy).Build(), links: links}).finalize(t.Context(), secret); err != nil {
		t.Errorf("nothing is held, and yet: %v", err)
	}
	err := (&linkSecrets{client: builder().WithObjects(tenancy, slice).Build(), links: links}).finalize(t.Context(), secret)
	if err == nil || kube.IsWait(err) || !strings.Contains(err.Error(), peering.AnnotationUnreachable) {
		t.Errorf("with a copy left: %v", err)
	}
}

// TestReleasedPassesDeletions: when the removal of the last finalizer deletes an object, the event shows the object as it was before. The event must
// still reach the Secret, which otherwise waits for ever.
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

func controlPlaneOf(provider, uid string) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.TenantNamespace(provider), Name: peering.ControlPlaneIdentityName(provider), UID: types.UID(uid)},
		Spec:       authv1beta1.IdentitySpec{ClusterID: provider, Type: authv1beta1.IdentityControlPlane},
	}
}

// secretOf is the kubeconfig Secret as the controller of Identities writes it.
func secretOf(identity *authv1beta1.Identity) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: peering.KubeconfigSecretName(identity.Name), Labels: map[string]string{
			api.LabelRemoteClusterID: identity.Spec.ClusterID, authv1beta1.LabelIdentityType: string(identity.Spec.Type),
		}},
	}
	if err := controllerutil.SetControllerReference(identity, secret, kube.NewScheme()); err != nil {
		panic(err)
	}
	return secret
}

func tenantNamespace(remote string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: api.TenantNamespace(remote), Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: remote},
	}}
}

// TestOnlyIdentitiesOpenLinks: a Secret with the labels of a control plane kubeconfig opens a link only if it belongs to an Identity of this cluster
// in a tenant namespace. Other Secrets get no finalizer, and deleting one ends no link of another Secret.
func TestOnlyIdentitiesOpenLinks(t *testing.T) {
	identity := controlPlaneOf("milan", "1")
	for name, row := range map[string]struct {
		change func(*corev1.Secret)
		opened bool
	}{
		"the Secret of the Identity": {func(*corev1.Secret) {}, true},
		"labels alone":               {func(s *corev1.Secret) { s.OwnerReferences = nil }, false},
		"another name":               {func(s *corev1.Secret) { s.Name = "other" }, false},
		"an Identity of before":      {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "0" }, false},
		"an owner that is no controller": {func(s *corev1.Secret) {
			s.OwnerReferences[0].Controller = nil
		}, false},
		"an owner of another group":   {func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = "example.org/v1" }, false},
		"another kind of owner":       {func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "Tenant" }, false},
		"an Identity that is not":     {func(s *corev1.Secret) { s.OwnerReferences[0].Name, s.Name = "x", "kubeconfig-x" }, false},
		"another cluster's label":     {func(s *corev1.Secret) { s.Labels[api.LabelRemoteClusterID] = "turin" }, false},
		"outside a tenant namespace":  {func(s *corev1.Secret) { s.Namespace = "default" }, false},
		"in another tenant namespace": {func(s *corev1.Secret) { s.Namespace = api.TenantNamespace("turin") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			opened := false
			links := newLinks(Options{RemoteConfig: func(*corev1.Secret) (*rest.Config, string, error) {
				opened = true
				return nil, "", errors.New("far enough")
			}}, kube.NewScheme(), logr.Discard())
			secret := secretOf(identity)
			row.change(secret)
			ordinary := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			// The Identity exists in these namespaces too, so that the Secret is refused for its namespace alone.
			outside, elsewhere := identity.DeepCopy(), identity.DeepCopy()
			outside.Namespace, elsewhere.Namespace = "default", api.TenantNamespace("turin")
			c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(identity, outside, elsewhere, secret, tenantNamespace("milan"), tenantNamespace("turin"), ordinary).Build()
			r := &linkSecrets{client: c, links: links}
			err := r.sync(t.Context(), secret)
			if opened != row.opened || err == nil {
				t.Errorf("opened is %v, want %v: %v", opened, row.opened, err)
			}
			if !row.opened && linkSecret(secret) && !kube.IsInvalid(err) && !kube.IsWait(err) {
				t.Errorf("error %v, want one that is not tried again", err)
			}
			ended := false
			links.running[secret.Namespace] = &link{clusterID: "milan", secret: "kubeconfig-controlplane-milan", cancel: func() { ended = true }}
			links.stop(types.NamespacedName{Namespace: secret.Namespace, Name: "other"})
			if ended {
				t.Error("the deletion of another Secret ended the link")
			}
		})
	}
}
