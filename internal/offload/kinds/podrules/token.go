package podrules

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// Label and limits of the Secret with the tokens of a Pod. kinds has its annotations.
const (
	// LabelServiceAccount is the local service account whose tokens the Secret holds.
	LabelServiceAccount = "offloading.liqo.io/service-account-name"

	tokenSuffix = "-token"
	// maxSecretName is the maximum length of a Secret's name (RFC 1123 subdomain).
	maxSecretName = 253
	// namespaceKey holds the local namespace, since the downward API of the remote Pod returns the remote namespace.
	namespaceKey = "namespace"
	// tokenLifetime is the longest lifetime of a token, in seconds. Tokens are stored in another cluster, so they live no longer than those of a
	// kubelet by default. The value differs from 3607 s, which API servers may extend to a year.
	tokenLifetime = 3600
	minLifetime   = 600
	// tokenLimit is the maximum number of tokens of a Pod.
	tokenLimit = 32
)

// Token is a service account token that a Pod requests.
type Token struct {
	// Key is the key of the token in the Secret.
	Key string
	// Audience is the audience of the token; empty for the API server.
	Audience string
	// Seconds is the lifetime of the token, in seconds.
	Seconds int64
}

// TokenSecret returns the name of the Secret with the tokens of a Pod. The name ends in a hash of the Pod's name: the namespace contains the user's
// Secrets as well, and a user may have a Secret named POD-token.
func TokenSecret(pod string) string {
	sum := sha256.Sum256([]byte("tokens of pod " + pod))
	suffix := tokenSuffix + "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(pod[:min(len(pod), maxSecretName-len(suffix))], "-.") + suffix
}

// FormerTokenSecret returns the name that earlier releases gave to the Secret with the tokens of a Pod. Pods that those releases offloaded still use
// it.
func FormerTokenSecret(pod string) string { return pod + tokenSuffix }

// PodOfTokens returns the name of the Pod whose tokens a Secret holds, an empty string if it holds none. The name comes from the annotation, since
// the Secret's name may be truncated. The annotation counts only if the Secret has a name of TokenSecret or FormerTokenSecret, because every user
// with access to the namespace can edit annotations.
func PodOfTokens(secret metav1.Object) string {
	pod, name := secret.GetAnnotations()[kinds.AnnotationTokenPod], secret.GetName()
	if pod == "" || name != TokenSecret(pod) && name != FormerTokenSecret(pod) {
		return ""
	}
	return pod
}

// tokenKey returns the key of a volume's token in the Secret.
func tokenKey(volume, path string) string {
	sum := sha256.Sum256([]byte(path))
	return volume + "-" + hex.EncodeToString(sum[:3])
}

// Tokens returns the tokens that a Pod gets in the provider, in the order of its volumes. It returns none if the Pod does not use the API server of
// this cluster, or can't reach it.
func Tokens(local *corev1.Pod, o Options) []Token {
	if !usesOriginAPIServer(local, o) {
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

// RequestsTokens reports whether a Pod requests service account tokens in its volumes.
func RequestsTokens(local *corev1.Pod) bool {
	return slices.ContainsFunc(local.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// CachedVolumes reduces the volumes of an offloaded pod to what is read later: the fields that Tokens reads, and the claims that the pod mounts.
func CachedVolumes(volumes []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for i := range volumes {
		if claim := volumes[i].PersistentVolumeClaim; claim != nil {
			out = append(out, corev1.Volume{Name: volumes[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
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

// TokensSecret returns the Secret for the tokens of a Pod, in a namespace of the provider. It has no tokens yet; FillTokens adds them before the
// write.
func TokensSecret(local *corev1.Pod, namespace string, o Options) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: TokenSecret(local.Name),
			// It has no destination label, because it is no copy of a local Secret.
			Labels:      map[string]string{api.LabelOrigin: o.Origin, offloadingv1beta1.LabelNodeName: o.Node, LabelServiceAccount: labelValue(local.Spec.ServiceAccountName)},
			Annotations: map[string]string{kinds.AnnotationTokenPod: local.Name, kinds.AnnotationTokenPodUID: string(local.UID)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{namespaceKey: []byte(local.Namespace)},
	}
}

// labelValue returns name, or an empty string if it is too long for a label. The value is only informative.
func labelValue(name string) string {
	if len(name) > 63 {
		return ""
	}
	return name
}

// OwnsTokens reports whether a Secret of the provider holds tokens of this node's pods.
func OwnsTokens(secret *corev1.Secret, o Options) bool {
	_, tokens := secret.Labels[LabelServiceAccount]
	return tokens && secret.Labels[api.LabelOrigin] == o.Origin && secret.Labels[offloadingv1beta1.LabelNodeName] == o.Node
}

// FillTokens adds tokens, by key, to a Secret that TokensSecret returned. The argument expires is when the first token expires. The tokens have to be replaced
// when a fifth of their lifetime is left, as a kubelet does, but no sooner than after a minute.
func FillTokens(secret *corev1.Secret, tokens map[string]string, now, expires time.Time) {
	for key, token := range tokens {
		secret.Data[key] = []byte(token)
	}
	life := max(expires.Sub(now)*4/5, time.Minute)
	secret.Annotations[kinds.AnnotationTokenExpiration] = expires.UTC().Format(time.RFC3339)
	secret.Annotations[kinds.AnnotationTokenRefresh] = now.Add(life).UTC().Format(time.RFC3339)
}

// TokensDue returns the time until the tokens in a Secret have to be replaced, 0 if some are missing or if they are bound to another Pod.
func TokensDue(secret *corev1.Secret, local *corev1.Pod, wanted []Token, now time.Time) time.Duration {
	if secret.Annotations[kinds.AnnotationTokenPodUID] != string(local.UID) || secret.Annotations[kinds.AnnotationTokenPod] != local.Name {
		return 0
	}
	for _, t := range wanted {
		if _, found := secret.Data[t.Key]; !found {
			return 0
		}
	}
	at, err := time.Parse(time.RFC3339, secret.Annotations[kinds.AnnotationTokenRefresh])
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
