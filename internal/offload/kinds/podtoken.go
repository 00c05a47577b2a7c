package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// What the Secret with the tokens of a Pod says about itself.
const (
	// LabelServiceAccount is the service account, here, whose tokens it holds.
	LabelServiceAccount = "offloading.liqo.io/service-account-name"
	// AnnotationTokenPod and AnnotationTokenPodUID are the local Pod that the tokens are bound to.
	AnnotationTokenPod    = "offloading.liqo.io/service-account-for-pod-name"
	AnnotationTokenPodUID = "offloading.liqo.io/service-account-for-pod-uid"
	// AnnotationTokenExpiration is when the first of them ends, and AnnotationTokenRefresh when they are to be replaced (RFC 3339).
	AnnotationTokenExpiration = "offloading.liqo.io/service-account-expiration"
	AnnotationTokenRefresh    = "offloading.liqo.io/service-account-refresh"

	tokenSuffix = "-token"
	// maxSecretName is the longest name of a Secret (RFC 1123 subdomain).
	maxSecretName = 253
	// namespaceKey holds the local namespace, which the remote Pod can't know by itself.
	namespaceKey = "namespace"
	// tokenLifetime is how long a token counts, in seconds. It lies in another cluster, so that it is no longer than a kubelet would have it, and
	// other than the one which API servers take for a sign to extend it to a year.
	tokenLifetime = 3600
	minLifetime   = 600
	// tokenLimit is how many tokens a Pod gets.
	tokenLimit = 32
)

// Token is one that a Pod asks for.
type Token struct {
	// Key is where it is in the Secret.
	Key string
	// Audience it is meant for; empty for the API server.
	Audience string
	// Seconds is how long it counts.
	Seconds int64
}

// TokenSecret is the name of the Secret with the tokens of a Pod. It ends in a hash of the Pod's name, since the namespace holds the user's Secrets as well, and
// a user may well call one of them POD-token.
func TokenSecret(pod string) string {
	sum := sha256.Sum256([]byte("tokens of pod " + pod))
	suffix := tokenSuffix + "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(pod[:min(len(pod), maxSecretName-len(suffix))], "-.") + suffix
}

// FormerTokenSecret is the name that earlier releases gave it; pods that they offloaded read their tokens from there.
func FormerTokenSecret(pod string) string { return pod + tokenSuffix }

// PodOfTokens is the way back from both, empty if it is no such name.
func PodOfTokens(secret string) string {
	if i := strings.LastIndex(secret, tokenSuffix+"-"); i >= 0 && TokenSecret(secret[:i]) == secret {
		return secret[:i]
	}
	pod, found := strings.CutSuffix(secret, tokenSuffix)
	if !found {
		return ""
	}
	return pod
}

// tokenKey is where the token of a volume is in the Secret.
func tokenKey(volume, path string) string {
	sum := sha256.Sum256([]byte(path))
	return volume + "-" + hex.EncodeToString(sum[:3])
}

// Tokens are those of its service account that a Pod is to have in the provider, in the order of its volumes; none if it keeps off our API server,
// or can't reach it.
func Tokens(local *corev1.Pod, o PodOptions) []Token {
	if !speaksHome(local, o) {
		return nil
	}
	var out []Token
	for i := range local.Spec.Volumes {
		v := &local.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			t := source.ServiceAccountToken
			if t == nil || len(out) == tokenLimit {
				continue
			}
			seconds := int64(tokenLifetime)
			if asked := t.ExpirationSeconds; asked != nil {
				seconds = max(minLifetime, min(*asked, seconds))
			}
			token := Token{Key: tokenKey(v.Name, t.Path), Audience: t.Audience, Seconds: seconds}
			if !slices.ContainsFunc(out, func(have Token) bool { return have.Key == token.Key }) {
				out = append(out, token)
			}
		}
	}
	return out
}

// AsksForTokens tells whether a Pod has tokens of its service account when it runs here.
func AsksForTokens(local *corev1.Pod) bool {
	return slices.ContainsFunc(local.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// TokenVolumes keeps of volumes what Tokens reads.
func TokenVolumes(volumes []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for i := range volumes {
		if volumes[i].Projected == nil {
			continue
		}
		kept := corev1.Volume{Name: volumes[i].Name}
		for _, source := range volumes[i].Projected.Sources {
			if source.ServiceAccountToken == nil {
				continue
			}
			if kept.Projected == nil {
				kept.Projected = &corev1.ProjectedVolumeSource{}
			}
			kept.Projected.Sources = append(kept.Projected.Sources, corev1.VolumeProjection{ServiceAccountToken: source.ServiceAccountToken})
		}
		if kept.Projected != nil {
			out = append(out, kept)
		}
	}
	return out
}

// TokensSecret returns the Secret for the tokens of a Pod, which whoever writes it puts into it (FillTokens), in a namespace of the provider.
func TokensSecret(local *corev1.Pod, namespace string, o PodOptions) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: TokenSecret(local.Name),
			// No destination: it is no copy of a Secret.
			Labels:      map[string]string{api.LabelOrigin: o.Origin, offv1.LabelNodeName: o.Node, LabelServiceAccount: labelValue(local.Spec.ServiceAccountName)},
			Annotations: map[string]string{AnnotationTokenPod: local.Name, AnnotationTokenPodUID: string(local.UID)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{namespaceKey: []byte(local.Namespace)},
	}
}

// labelValue is a name, or nothing where it is too long for a label: it only informs.
func labelValue(name string) string {
	if len(name) > 63 {
		return ""
	}
	return name
}

// OwnsTokens tells whether a Secret of the provider holds tokens of pods of this node.
func OwnsTokens(secret *corev1.Secret, o PodOptions) bool {
	_, tokens := secret.Labels[LabelServiceAccount]
	return tokens && secret.Labels[api.LabelOrigin] == o.Origin && secret.Labels[offv1.LabelNodeName] == o.Node
}

// FillTokens puts tokens, by their keys, into a Secret of TokensSecret at a time; the first of them expires then. They are to be replaced when a fifth
// of their life is left, as a kubelet does, yet never sooner than after a minute.
func FillTokens(secret *corev1.Secret, tokens map[string]string, now, expires time.Time) {
	for key, token := range tokens {
		secret.Data[key] = []byte(token)
	}
	life := max(expires.Sub(now)*4/5, time.Minute)
	secret.Annotations[AnnotationTokenExpiration] = expires.UTC().Format(time.RFC3339)
	secret.Annotations[AnnotationTokenRefresh] = now.Add(life).UTC().Format(time.RFC3339)
}

// TokensDue is how long the tokens in a Secret still serve a Pod: not at all if they are bound to another one, or some are missing.
func TokensDue(secret *corev1.Secret, local *corev1.Pod, wanted []Token, now time.Time) time.Duration {
	if secret.Annotations[AnnotationTokenPodUID] != string(local.UID) {
		return 0
	}
	for _, t := range wanted {
		if _, found := secret.Data[t.Key]; !found {
			return 0
		}
	}
	at, err := time.Parse(time.RFC3339, secret.Annotations[AnnotationTokenRefresh])
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
