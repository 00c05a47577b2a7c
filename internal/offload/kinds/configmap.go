package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offv1 "liqo.io/liqo/api/offloading/v1beta1"
)

// ConfigMapName returns the name, in a twin namespace, of the copy of a local ConfigMap; empty if it can't have one. Every namespace of
// every cluster has a ConfigMap with the CA of its own API server, so that the copy of ours goes by another name.
func ConfigMapName(local string, o CopyOptions) string {
	switch local {
	case rootCA:
		return RootCA(o.Origin)
	case RootCA(o.Origin):
		return ""
	default:
		return local
	}
}

// LocalConfigMapName is the way back: the name of the ConfigMap whose copy has that name.
func LocalConfigMapName(remote string, o CopyOptions) string {
	switch remote {
	case RootCA(o.Origin):
		return rootCA
	case rootCA:
		return ""
	default:
		return remote
	}
}

// ConfigMap returns the copy of local, or why it has none.
func ConfigMap(local *corev1.ConfigMap, namespace string, o CopyOptions) (*corev1.ConfigMap, string) {
	// Nobody makes that one, so that nobody can allow it, and pods wait for it.
	if why := Kept(local.Annotations, o); why != "" && (local.Name != rootCA || o.Type != offv1.AllowList) {
		return nil, why
	}
	in := local.DeepCopy()
	out := &corev1.ConfigMap{ObjectMeta: copyMetadata(resourceConfigMaps, local, namespace, o), Data: in.Data, BinaryData: in.BinaryData, Immutable: in.Immutable}
	if out.Name = ConfigMapName(local.Name, o); out.Name == "" {
		return nil, "its name is that of the copy of " + rootCA
	}
	return out, ""
}

// MergeConfigMap returns have with what want says.
func MergeConfigMap(have, want *corev1.ConfigMap) (*corev1.ConfigMap, Change) {
	out := have.DeepCopy()
	mergeMetadata(&out.ObjectMeta, &want.ObjectMeta)
	in := want.DeepCopy()
	out.Data, out.BinaryData, out.Immutable = in.Data, in.BinaryData, in.Immutable
	content := equality.Semantic.DeepEqual(have.Data, out.Data) && equality.Semantic.DeepEqual(have.BinaryData, out.BinaryData)
	if frozen(have.Immutable) && (!content || !frozen(out.Immutable)) {
		return nil, Replace
	}
	return merged(have, out)
}

// frozen tells whether Kubernetes lets the content of a ConfigMap or Secret change no more.
func frozen(immutable *bool) bool { return immutable != nil && *immutable }
