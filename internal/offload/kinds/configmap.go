package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// LocalRootCA is the ConfigMap with the API server's CA. Kubernetes creates it in every namespace, so its reflected copy needs another name.
const LocalRootCA = "kube-root-ca.crt"

// RootCA is the name, in a remote namespace, of the reflected copy of the consumer's kube-root-ca.crt.
func RootCA(origin string) string {
	name := LocalRootCA + "." + origin[:min(5, len(origin))]
	if last := name[len(name)-1]; last == '-' || last == '.' {
		name += "a"
	}
	return name
}

// ConfigMapName returns the name of a local ConfigMap's copy in the remote namespace; empty if there can be no copy. Every namespace of every cluster
// has a ConfigMap with the CA of its own API server, so the copy of the local one gets another name.
func ConfigMapName(local string, o CopyOptions) string {
	switch local {
	case LocalRootCA:
		return RootCA(o.Origin)
	case RootCA(o.Origin):
		return ""
	default:
		return local
	}
}

// LocalConfigMapName is the inverse of ConfigMapName: it returns the name of the local ConfigMap whose copy has that name.
func LocalConfigMapName(remote string, o CopyOptions) string {
	switch remote {
	case RootCA(o.Origin):
		return LocalRootCA
	case LocalRootCA:
		return ""
	default:
		return remote
	}
}

// ConfigMap returns the copy of local, or why it has none.
func ConfigMap(local *corev1.ConfigMap, namespace string, o CopyOptions) (*corev1.ConfigMap, string) {
	// Kubernetes creates kube-root-ca.crt, so no user can annotate it for an AllowList. It is copied nevertheless, since pods depend on it.
	if why := Kept(local.Annotations, o); why != "" && (local.Name != LocalRootCA || o.Type != offloadingv1beta1.AllowList) {
		return nil, why
	}
	in := local.DeepCopy()
	out := &corev1.ConfigMap{ObjectMeta: copyMetadata(resourceConfigMaps, local, namespace, o), Data: in.Data, BinaryData: in.BinaryData, Immutable: in.Immutable}
	if out.Name = ConfigMapName(local.Name, o); out.Name == "" {
		return nil, "its name is that of the copy of " + LocalRootCA
	}
	return out, ""
}

// MergeConfigMap returns the object have with the metadata and data of want, and the change that this needs.
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

// frozen reports whether a ConfigMap or Secret is immutable.
func frozen(immutable *bool) bool { return immutable != nil && *immutable }
