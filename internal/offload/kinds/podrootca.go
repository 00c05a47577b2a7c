package kinds

import corev1 "k8s.io/api/core/v1"

// RootCA is the name, in a remote namespace, of the reflected copy of the consumer's kube-root-ca.crt.
func RootCA(origin string) string {
	name := rootCA + "." + origin[:min(5, len(origin))]
	if last := name[len(name)-1]; last == '-' || last == '.' {
		name += "a"
	}
	return name
}

// renameRootCA changes every reference to the root CA in a remote spec to the name of its reflected copy. The original name is the provider's own root CA.
func renameRootCA(spec *corev1.PodSpec, o PodOptions) {
	rename := func(name *string, optional **bool) {
		if *name != rootCA {
			return
		}
		*name = RootCA(o.Origin)
		if !o.ConfigMapsReflected {
			*optional = new(true)
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil {
			rename(&v.ConfigMap.Name, &v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if c := v.Projected.Sources[j].ConfigMap; c != nil {
				rename(&c.Name, &c.Optional)
			}
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for j := range list[i].EnvFrom {
				if c := list[i].EnvFrom[j].ConfigMapRef; c != nil {
					rename(&c.Name, &c.Optional)
				}
			}
			for j := range list[i].Env {
				if from := list[i].Env[j].ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
					rename(&from.ConfigMapKeyRef.Name, &from.ConfigMapKeyRef.Optional)
				}
			}
		}
	}
}
