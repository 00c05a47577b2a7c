package controllers

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/test/apitest"
)

// TestAccessKeysOfEKSProviders: an Identity with an access key of AWS becomes a kubeconfig Secret that this cluster's programs take, and a changed
// one another. A wrong value is refused with its field, and neither an error nor an Event has the secret key in it.
func TestAccessKeysOfEKSProviders(t *testing.T) {
	const secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan", UID: "1"},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.IdentityControlPlane, Namespace: "liqo-tenant-rome", AuthParams: authv1beta1.AuthParams{
			APIServer: "https://0123.gr7.eu-west-1.eks.amazonaws.com", AwsConfig: &authv1beta1.AwsConfig{
				AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: secretKey, AwsRegion: "eu-west-1", AwsClusterName: "milan-eks",
				AwsUserArn: "arn:aws:iam::111122223333:user/rome",
			},
		}},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: identity.Namespace, Labels: map[string]string{api.LabelTenantNamespace: api.True, api.LabelRemoteClusterID: "milan"}}}
	c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(namespace, identity).Build()
	recorder := events.NewFakeRecorder(10)
	side := consumerSide{
		client: c, events: recorder, own: "rome", now: time.Now, random: rand.Reader,
		keys: &keys{client: c, reader: c, namespace: "liqo", algorithm: peering.Ed25519, random: rand.Reader},
	}
	sync := identities{consumerSide: side}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: "kubeconfig-controlplane-milan"}}
	written := func() string {
		t.Helper()
		if err := sync.sync(t.Context(), identity); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			t.Fatal(err)
		}
		cfg, there, err := remote.Config(secret)
		if err != nil || cfg.Host != identity.Spec.AuthParams.APIServer || cfg.ExecProvider != nil || cfg.WrapTransport == nil || there != "liqo-tenant-rome" {
			t.Errorf("this cluster's programs read %v, %q, %v", cfg, there, err)
		}
		return string(secret.Data[authv1beta1.KubeconfigSecretKey])
	}
	first := written()
	if again := written(); again != first {
		t.Error("the Secret changes without a reason: each change starts the link to the provider anew")
	}
	identity.Spec.AuthParams.AwsConfig.AwsAccessKeyID = "AKIAI44QH8DHBEXAMPLE"
	if written() == first {
		t.Error("another access key does not reach the Secret")
	}

	renewing := renewals{side}
	if err := renewing.sync(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(identity), &authv1beta1.Renew{}); !apierrors.IsNotFound(err) {
		t.Errorf("another access key is requested of the provider: %v", err)
	}
	wrapped := renewed(c, time.Now, &kube.Reconciler[*authv1beta1.Identity]{
		Name: "renewal", Client: c, Sync: renewing.sync,
	}, func(i *authv1beta1.Identity) *authv1beta1.AuthParams { return &i.Spec.AuthParams })
	if result, err := wrapped.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(identity)}); err != nil || result.RequeueAfter != 0 {
		t.Errorf("again after %s, %v: there is nothing to wait for", result.RequeueAfter, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(Metrics(c, time.Now, logr.Discard()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.Contains(family.GetName(), "certificate") && len(family.GetMetric()) > 0 {
			t.Errorf("metric %s shows an end that there is not: %v", family.GetName(), family)
		}
	}

	identity.Spec.AuthParams.AwsConfig.AwsRegion = "Ireland"
	err = sync.sync(t.Context(), identity)
	if err == nil || !strings.Contains(err.Error(), `spec.authParams.awsConfig.awsRegion is "Ireland", want the region of the EKS cluster`) || strings.Contains(err.Error(), secretKey) {
		t.Errorf("with a wrong region: %v", err)
	}
	close(recorder.Events)
	for event := range recorder.Events {
		if strings.Contains(event, secretKey) {
			t.Errorf("the secret key is in Event %q", event)
		}
	}
}

// TestAccessKeysInRenewalsAreRefused: with an access key of AWS in a renewal, a provider could make this cluster's programs act as an AWS user of the
// provider's choice. Only a handshake, which an administrator starts, changes the kind of credential of an Identity. An Identity with an access key
// keeps it, whatever a Renew contains.
func TestAccessKeysInRenewalsAreRefused(t *testing.T) {
	const secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	aws := &authv1beta1.AuthParams{APIServer: "https://0123.gr7.eu-west-1.eks.amazonaws.com", AwsConfig: &authv1beta1.AwsConfig{
		AwsAccessKeyID: "AKIAIOSFODNN7EXAMPLE", AwsSecretAccessKey: secretKey, AwsRegion: "eu-west-1", AwsClusterName: "milan-eks",
		AwsUserArn: "arn:aws:iam::111122223333:user/rome",
	}}
	authority, err := apitest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	certificate, err := authority.Certificate(key, pkix.Name{CommonName: "rome"}, now.Add(-time.Hour), now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	other := aws.DeepCopy()
	other.AwsConfig.AwsAccessKeyID = "AKIAI44QH8DHBEXAMPLE"
	for name, row := range map[string]struct {
		has, answer *authv1beta1.AuthParams
		says        string
	}{
		"in place of a certificate": {&authv1beta1.AuthParams{APIServer: "https://milan:6443", SignedCRT: certificate}, aws,
			"refusing the answer of cluster milan: it contains an AWS access key instead of a certificate or token, and only a handshake may change the kind of credential"},
		"in place of a token": {&authv1beta1.AuthParams{APIServer: "https://milan:6443", Token: &authv1beta1.SealedToken{
			Sealed: []byte("x"), User: "liqo.io:rome", IssuedAt: metav1.NewTime(now.Add(-time.Hour)), ExpiresAt: metav1.NewTime(now.Add(time.Minute)),
		}}, aws, "instead of a certificate or token"},
		"in place of another one": {aws, other, ""},
	} {
		identity := &authv1beta1.Identity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan", UID: "1"},
			Spec:       authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.IdentityControlPlane, Namespace: "liqo-tenant-rome", AuthParams: *row.has},
		}
		renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: identity.Name}, Status: authv1beta1.RenewStatus{AuthParams: row.answer}}
		c := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(identity, renew).Build()
		recorder := events.NewFakeRecorder(10)
		r := renewals{consumerSide{
			client: c, events: recorder, own: "rome", now: time.Now, random: rand.Reader,
			keys: &keys{client: c, reader: c, namespace: "liqo", algorithm: peering.Ed25519, random: rand.Reader},
		}}
		err := r.sync(t.Context(), identity.DeepCopy())
		if (row.says == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), secretKey)) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
		got := &authv1beta1.Identity{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(identity), got); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got.Spec.AuthParams, *row.has) {
			t.Errorf("%s: the Identity has another credential than before", name)
		}
		if len(recorder.Events) > 0 {
			t.Errorf("%s: Event %q", name, <-recorder.Events)
		}
	}
}
