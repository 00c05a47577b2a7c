package reflection

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// fillTokens requests, in this cluster, the service account tokens that a Secret is to hold. Each token is bound to the Pod and becomes invalid when
// the Pod is deleted. Tokens must not appear in errors or logs. For other objects it does nothing.
func fillTokens(ctx context.Context, here client.Client, local, obj client.Object, o podrules.Options, now time.Time) error {
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
	for _, want := range podrules.Tokens(pod, o) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &want.Seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		}}
		if want.Audience != "" {
			request.Spec.Audiences = []string{want.Audience}
		}
		if err := here.SubResource("token").Create(ctx, account, request); err != nil {
			return fmt.Errorf("requesting a token of service account %s/%s for pod %s: %w", account.Namespace, account.Name, pod.Name, err)
		}
		tokens[want.Key] = request.Status.Token
		if at := request.Status.ExpirationTimestamp.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	podrules.FillTokens(secret, tokens, now, first)
	return nil
}

// stripTokens keeps only the keys of a Secret: this cluster never reads the tokens again.
func stripTokens(obj client.Object) {
	if secret, ok := obj.(*corev1.Secret); ok {
		for key := range secret.Data {
			secret.Data[key] = nil
		}
	}
}
