package reflect

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds"
)

// fillTokens asks, here, for the tokens that a Secret is to hold, each bound to the Pod: it counts no longer than the Pod is there. Tokens are in no error
// and no log. Of other objects it does nothing.
func fillTokens(ctx context.Context, here client.Client, local, obj client.Object, o kinds.PodOptions, now time.Time) error {
	secret, ok := obj.(*corev1.Secret)
	pod, ok2 := local.(*corev1.Pod)
	if !ok || !ok2 {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if account.Name == "" {
		account.Name = "default"
	}
	tokens, first := map[string]string{}, time.Time{}
	for _, want := range kinds.Tokens(pod, o) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &want.Seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		}}
		if want.Audience != "" {
			request.Spec.Audiences = []string{want.Audience}
		}
		if err := here.SubResource("token").Create(ctx, account, request); err != nil {
			return fmt.Errorf("asking for a token of service account %s/%s for pod %s: %w", account.Namespace, account.Name, pod.Name, err)
		}
		tokens[want.Key] = request.Status.Token
		if at := request.Status.ExpirationTimestamp.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	kinds.FillTokens(secret, tokens, now, first)
	return nil
}

// stripTokens keeps of a Secret the keys: nobody here reads a token again.
func stripTokens(obj client.Object) {
	if secret, ok := obj.(*corev1.Secret); ok {
		for key := range secret.Data {
			secret.Data[key] = nil
		}
	}
}
