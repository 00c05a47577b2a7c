package reflection_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds"
	"liqo.io/liqo/internal/offload/kinds/podrules"
	"liqo.io/liqo/test/apitest"
)

// TestTokensOnAPIServers follows the tokens of a pod through their lifetime, with the permissions of the chart and the provider's policies.
func TestTokensOnAPIServers(t *testing.T) {
	near, far := apitest.APIServers(t)
	w := newWorld(t, near, far)
	w.letWork()
	w.apiServer = podrules.APIServer{Host: kinds.OriginAPIServer, Port: "443", Address: "10.70.0.3"}
	w.create(w.near, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "app"}})
	w.start()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.localNS, Name: "web"},
		Spec:       corev1.PodSpec{NodeName: w.nodeName, ServiceAccountName: "app", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}}}}}}}
	w.create(w.near, pod)
	w.waitReady(1)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.twinNS, Name: podrules.TokenSecret("web")}}
	// token waits until the Secret holds a token other than before, and returns it.
	token := func(what string, before []byte) (got []byte) {
		t.Helper()
		apitest.Eventually(t, 20*time.Second, what, func() error {
			if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			for key, value := range secret.Data {
				if key != "namespace" {
					got = value
				}
			}
			if len(secret.Data) != 2 || len(got) == 0 || bytes.Equal(got, before) {
				return fmt.Errorf("keys %q", slices.Sorted(maps.Keys(secret.Data)))
			}
			return nil
		})
		return got
	}
	review := func(c client.Client, token []byte) authenticationv1.TokenReviewStatus {
		t.Helper()
		r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token)}}
		if err := c.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	first := token("a token", nil)
	known := review(w.near, first)
	bound := known.User.Extra["authentication.kubernetes.io/pod-uid"]
	if !known.Authenticated || known.User.Username != "system:serviceaccount:"+w.localNS+":app" || len(bound) != 1 || bound[0] != string(pod.UID) {
		t.Errorf("at home: %+v", known)
	}
	if review(w.far, first).Authenticated {
		t.Error("the provider takes it for one of its own")
	}
	if at, err := time.Parse(time.RFC3339, secret.Annotations[kinds.AnnotationTokenExpiration]); err != nil || time.Until(at) > 61*time.Minute {
		t.Errorf("it lives until %s, %v", at, err)
	}
	if n := w.farWrites.Load(); n != 2 {
		t.Errorf("%d writes in the provider, want 2: the Secret and the ShadowPod", n)
	}

	due := secret.DeepCopy()
	due.Annotations[kinds.AnnotationTokenRefresh] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if err := w.far.Update(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	second := token("another token when it is due", first)
	if err := w.far.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	third := token("another token when it is lost", second)

	other := rest.CopyConfig(near)
	other.Impersonate = w.nearUser
	request := &authenticationv1.TokenRequest{}
	err := apitest.Client(t, other).SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "default"}}, request)
	if !apierrors.IsForbidden(err) {
		t.Errorf("a virtual kubelet gets tokens of namespaces that are not offloaded: %v", err)
	}

	if err := w.near.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.waitGone()
	apitest.Eventually(t, 20*time.Second, "the tokens to go with their pod", func() error {
		if err := w.far.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the Secret is there"), err)
		}
		return nil
	})
	// The API server caches the authentication of a token for ten seconds.
	apitest.Eventually(t, 20*time.Second, "the tokens to end with their pod", func() error {
		for _, old := range [][]byte{first, second, third} {
			if review(w.near, old).Authenticated {
				return errors.New("one is still good")
			}
		}
		return nil
	})
}
