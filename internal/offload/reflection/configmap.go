package reflection

import (
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// ConfigMapKind is the Kind.Name of ConfigMaps.
const ConfigMapKind = "ConfigMap"

// ConfigMaps returns the Kind that reflects the ConfigMaps of offloaded namespaces.
func ConfigMaps(workers int, options func() kinds.CopyOptions) Kind {
	kind := plain(ConfigMapKind, workers, &corev1.ConfigMap{}, options, func(local *corev1.ConfigMap, namespace string) (*corev1.ConfigMap, string) {
		return kinds.ConfigMap(local, namespace, options())
	}, kinds.MergeConfigMap, nil)
	o := options()
	kind.RemoteName = func(name string) string { return kinds.ConfigMapName(name, o) }
	kind.LocalName = func(name string) string { return kinds.LocalConfigMapName(name, o) }
	return kind
}
