package kinds

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Annotations of the Secret with the tokens of a Pod.
const (
	// AnnotationTokenPod and AnnotationTokenPodUID identify the local Pod that the tokens are bound to.
	AnnotationTokenPod    = "offloading.liqo.io/service-account-for-pod-name"
	AnnotationTokenPodUID = "offloading.liqo.io/service-account-for-pod-uid"
	// AnnotationTokenExpiration is when the first token expires, AnnotationTokenRefresh when the tokens have to be replaced (both RFC 3339).
	AnnotationTokenExpiration = "offloading.liqo.io/service-account-expiration"
	AnnotationTokenRefresh    = "offloading.liqo.io/service-account-refresh"
)

// Secret returns the copy of local, or why it has none.
func Secret(local *corev1.Secret, namespace string, o CopyOptions) (*corev1.Secret, string) {
	if why := Kept(local.Annotations, o); why != "" {
		return nil, why
	}
	in := local.DeepCopy()
	if local.Type == corev1.SecretTypeServiceAccountToken {
		if !letOut(local) {
			return nil, "it is the token of a service account"
		}
		// With its original type, the provider would fill it with a token for one of its own service accounts.
		in.Type = corev1.SecretTypeOpaque
	}
	return &corev1.Secret{ObjectMeta: copyMetadata(resourceSecrets, local, namespace, o), Type: in.Type, Data: in.Data, Immutable: in.Immutable}, ""
}

// letOut reports whether the user explicitly allows a Secret with a service account token to be copied. Such a token never expires.
func letOut(local *corev1.Secret) bool {
	_, allowed := local.Annotations[AnnotationAllow]
	return allowed
}

// SecretProblem returns a message for the user about a Secret that is not copied, nil for none.
func SecretProblem(local *corev1.Secret, o CopyOptions) error {
	if _, skip := local.Annotations[AnnotationSkip]; skip || local.Type != corev1.SecretTypeServiceAccountToken || letOut(local) {
		return nil
	}
	return fmt.Errorf("type %s is not copied to cluster %s, since its token never expires, and pods there that use the Secret do not start: give them a token of their own by a projected volume with "+
		"serviceAccountToken, or annotate the Secret with %s to have it copied as type %s", local.Type, o.Destination, AnnotationAllow, corev1.SecretTypeOpaque)
}

// MergeSecret returns the object have with the metadata and data of want, and the change that this needs.
func MergeSecret(have, want *corev1.Secret) (*corev1.Secret, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	in := want.DeepCopy()
	out.Data, out.Immutable = in.Data, in.Immutable
	if have.Type != want.Type {
		return nil, Replace // the type of a Secret is immutable
	}
	if frozen(have.Immutable) && (!frozen(out.Immutable) || !equality.Semantic.DeepEqual(have.Data, out.Data)) {
		return nil, Replace
	}
	return merged(have, out)
}
