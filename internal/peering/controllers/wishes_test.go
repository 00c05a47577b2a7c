package controllers

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/internal/remote"
)

// wishedCluster asks for a peering with milan.
func wishedCluster(url string) *corev1beta1.ForeignCluster {
	return &corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec:       corev1beta1.ForeignClusterSpec{ClusterID: "milan", OutgoingPeeringEnabled: corev1beta1.PeeringYes, ForeignAuthURL: url},
	}
}

func tokenSecret(token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: corev1beta1.TokenSecretPrefix + "milan"},
		Data:       map[string][]byte{corev1beta1.TokenSecretKey: []byte(token)},
	}
}

func outgoing(status corev1beta1.ConditionStatus, reason string) func(*corev1beta1.ForeignCluster) bool {
	return func(fc *corev1beta1.ForeignCluster) bool {
		for _, c := range fc.Status.Conditions {
			if c.Type == corev1beta1.OutgoingPeering {
				return c.Status == status && (reason == "" || c.Reason == reason)
			}
		}
		return false
	}
}

// TestWishesAreCarriedOut: whatever Secrets of other namespaces say, a wish creates the namespace, the Identity and its invitation, one after the
// other; passes that change nothing write nothing. The end releases the finalizer.
func TestWishesAreCarriedOut(t *testing.T) {
	now := time.Now()
	token := invite.Token{ID: "AAECAwQFBgcI", Expires: now.Add(time.Hour), Pin: make([]byte, sha256.Size)}.Text([]byte("secret"))
	fc := wishedCluster("https://192.0.2.7")
	planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ // by somebody who may write Secrets in another namespace
		Namespace: "default", Name: peering.KubeconfigSecretName(peering.ControlPlaneIdentityName("milan")),
		Labels:          map[string]string{api.LabelRemoteClusterID: "milan", authv1beta1.LabelIdentityType: string(authv1beta1.IdentityControlPlane)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Identity", Name: "controlplane-milan", UID: "invented", Controller: new(true)}},
	}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(fc).WithObjects(fc, tokenSecret(token), planted).Build()
	r := &foreignClusters{
		client: c, reader: c, events: events.NewFakeRecorder(100), own: "rome", namespace: api.Namespace, links: &links{running: map[string]*link{}},
		now: func() time.Time { return now },
	}
	pass := func(times int) {
		t.Helper()
		for range times {
			if _, err := r.reconcile(t.Context(), "milan"); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(5)
	identity, invitation := &authv1beta1.Identity{}, &corev1.Secret{}
	namespace := api.TenantNamespace("milan")
	for _, o := range []struct {
		name string
		into client.Object
	}{{peering.ControlPlaneIdentityName("milan"), identity}, {invite.Secret, invitation}} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: o.name}, o.into); err != nil {
			t.Fatal(err)
		}
	}
	if string(invitation.Data[invite.URLKey]) != "https://192.0.2.7" || string(invitation.Data[invite.TokenKey]) != token {
		t.Errorf("the invitation is %s", invitation.Data)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil || !controllerutil.ContainsFinalizer(fc, peering.FinalizerOutgoing) {
		t.Errorf("no finalizer: %v, %v", fc.Finalizers, err)
	}
	if !outgoing(corev1beta1.StatusPending, "Enrolling")(fc) {
		t.Errorf("conditions %+v", fc.Status.Conditions)
	}
	before := fc.ResourceVersion
	pass(2)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil || fc.ResourceVersion != before {
		t.Errorf("a pass that changes nothing wrote the ForeignCluster: %v", err)
	}
	if again, err := r.reconcile(t.Context(), "milan"); err != nil || again != peering.PollToken {
		t.Errorf("the token is read again after %s, %v", again, err)
	}

	fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo
	if err := c.Update(t.Context(), fc); err != nil {
		t.Fatal(err)
	}
	pass(3)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil || len(fc.Finalizers) > 0 || !outgoing(corev1beta1.StatusNone, "NotPeered")(fc) {
		t.Errorf("after No: %v, %+v, %v", fc.Finalizers, fc.Status.Conditions, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(identity), identity); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Identity after No: %v", err)
	}
}

// TestAPeerIsAskedBeforeItsPodsAreReplaced: a peer counts as up until the next checks fail. Right after a cut, a ForeignCluster that gives up the peering deletes
// nothing, because the pods there would run twice. Once the peer responds, the deletion goes on.
func TestAPeerIsAskedBeforeItsPodsAreReplaced(t *testing.T) {
	cut := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if cut.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	health, err := remote.NewHealth(&rest.Config{Host: server.URL}, remote.HealthOptions{Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	up := health.Subscribe()
	go func() { _ = health.Run(t.Context()) }()
	<-up
	cut.Store(true)

	fc := wishedCluster("https://192.0.2.7")
	fc.Spec.OutgoingPeeringEnabled, fc.Finalizers = corev1beta1.PeeringNo, []string{peering.FinalizerOutgoing}
	namespace := api.TenantNamespace("milan")
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan", Labels: map[string]string{
		api.LabelReplication: api.True, api.LabelRemoteID: "milan", api.LabelRemoteClusterID: "milan",
	}}}
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.ControlPlaneIdentityName("milan")},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: "milan", Type: authv1beta1.IdentityControlPlane, AuthParams: authv1beta1.AuthParams{SignedCRT: []byte("certificate")},
		},
	}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(fc).WithObjects(fc, slice, identity).Build()
	r := &foreignClusters{
		client: c, reader: c, events: events.NewFakeRecorder(100), own: "rome", namespace: api.Namespace, now: time.Now,
		links: &links{running: map[string]*link{namespace: {namespace: namespace, health: health, wasUp: true}}},
	}
	again, err := r.reconcile(t.Context(), "milan")
	if err != nil || again != askedAgain {
		t.Fatalf("again after %s, %v", again, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
		t.Fatalf("the ResourceSlice: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil || !outgoing(corev1beta1.StatusDisconnecting, "ProviderUnreachable")(fc) {
		t.Errorf("%+v, %v", fc.Status.Conditions, err)
	}
	cut.Store(false)
	if _, err = r.reconcile(t.Context(), "milan"); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the peer responds, and the ResourceSlice: %v", err)
	}
}

// TestAPeeringByAForeignClusterOnAPIServer: a ForeignCluster and a token Secret, in either order, are all that a consumer applies. No takes
// the peering back in both clusters, and so does the deletion of the ForeignCluster.
func TestAPeeringByAForeignClusterOnAPIServer(t *testing.T) {
	rome, milan := newPair(t)
	entry := milan.open(t)
	fc := wishedCluster(entry.url)
	rome.create(t, fc)
	eventually(t, rome, fc, "names the missing token", outgoing(corev1beta1.StatusError, "TokenMissing"))
	secret := tokenSecret("no token at all")
	secret.Labels = map[string]string{api.LabelRemoteClusterID: "milan"}
	rome.create(t, secret)
	eventually(t, rome, fc, "names the false token", outgoing(corev1beta1.StatusError, "TokenInvalid"))
	change(t, rome, secret, func(s *corev1.Secret) { s.Data[corev1beta1.TokenSecretKey] = []byte(entry.token(t, nil)) })
	granted := func(s *authv1beta1.ResourceSlice) bool {
		return peering.ConditionOf(&s.Status, authv1beta1.ResourceSliceResources) == authv1beta1.ResourceSliceAccepted
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: rome.meta(milan, "milan")}
	eventually(t, rome, slice, "granted", granted)
	eventually(t, rome, fc, "waits for the virtual node", outgoing(corev1beta1.StatusPending, "WaitingForResources"))

	change(t, rome, fc, func(fc *corev1beta1.ForeignCluster) { fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringNo })
	tenant := &authv1beta1.Tenant{ObjectMeta: milan.meta(rome, "rome")}
	ended := func() {
		t.Helper()
		identity := peering.ControlPlaneIdentityName("milan")
		rome.gone(t, &authv1beta1.Identity{ObjectMeta: rome.meta(milan, identity)})
		for _, owned := range []string{peering.KubeconfigSecretName(identity), invite.Secret} { // the garbage collector's part
			rome.delete(t, &corev1.Secret{ObjectMeta: rome.meta(milan, owned)})
		}
		milan.gone(t, tenant)
	}
	ended()
	eventually(t, rome, fc, "released", func(fc *corev1beta1.ForeignCluster) bool {
		return len(fc.Finalizers) == 0 && outgoing(corev1beta1.StatusNone, "NotPeered")(fc)
	})

	// A token admits one peering.
	change(t, rome, fc, func(fc *corev1beta1.ForeignCluster) { fc.Spec.OutgoingPeeringEnabled = corev1beta1.PeeringYes })
	eventually(t, rome, fc, "names the spent token", outgoing(corev1beta1.StatusError, "InvitationRefused"))
	milan.ahead.Add(int64(2 * time.Second)) // a token of the same second counts as made before the end
	change(t, rome, secret, func(s *corev1.Secret) { s.Data[corev1beta1.TokenSecretKey] = []byte(entry.token(t, nil)) })
	eventually(t, rome, slice, "granted again", granted)
	rome.delete(t, fc)
	ended()
	rome.gone(t, fc)
}

// TestForeignClustersThatAskAreNamedAfterTheirClusterOnAPIServer: a ForeignCluster of another name than its cluster ID can't ask for anything.
func TestForeignClustersThatAskAreNamedAfterTheirClusterOnAPIServer(t *testing.T) {
	rome := newCluster(t, "rome")
	fc := wishedCluster("https://192.0.2.7")
	fc.Name = "other"
	if err := rome.Create(t.Context(), fc); err == nil || !strings.Contains(err.Error(), "metadata.name must be the same as spec.clusterID") {
		t.Errorf("created, %v", err)
	}
	fc = wishedCluster("http://192.0.2.7")
	if err := rome.Create(t.Context(), fc); err == nil || !strings.Contains(err.Error(), "foreignAuthUrl") {
		t.Errorf("created, %v", err)
	}
}

// TestTheTokenOfAPeerIsFound: the Secrets that a peering depends on lead to their cluster, and no other Secret does.
func TestTheTokenOfAPeerIsFound(t *testing.T) {
	labels := map[string]string{api.LabelRemoteClusterID: "milan"}
	for name, row := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"remote-token-turin":      {nil, "turin"},
		"liqo-invitation":         {labels, "milan"},
		"kubeconfig-x":            {labels, ""},
		"kubeconfig-controlplane": {map[string]string{api.LabelRemoteClusterID: "milan", authv1beta1.LabelIdentityType: string(authv1beta1.IdentityControlPlane)}, "milan"},
		"anything":                {labels, ""},
	} {
		if got := secretOfWish(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: row.labels}}); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
