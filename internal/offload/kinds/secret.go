package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Secret returns the copy of local, or why it has none.
func Secret(local *corev1.Secret, namespace string, o CopyOptions) (*corev1.Secret, string) {
	if why := Kept(local.Annotations, o); why != "" {
		return nil, why
	}
	if local.Type == corev1.SecretTypeServiceAccountToken {
		// There it would ask the provider for a token of one of its own service accounts; pods get tokens of their own.
		return nil, "it is the token of a service account"
	}
	in := local.DeepCopy()
	return &corev1.Secret{ObjectMeta: copyMetadata(local, namespace, o), Type: in.Type, Data: in.Data, Immutable: in.Immutable}, ""
}

// MergeSecret returns have with what want says.
func MergeSecret(have, want *corev1.Secret) (*corev1.Secret, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	in := want.DeepCopy()
	out.Data, out.Immutable = in.Data, in.Immutable
	if have.Type != want.Type {
		return nil, Replace // a Secret has its type for life
	}
	if frozen(have.Immutable) && (!frozen(out.Immutable) || !equality.Semantic.DeepEqual(have.Data, out.Data)) {
		return nil, Replace
	}
	return merged(have, out)
}
