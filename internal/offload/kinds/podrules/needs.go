package podrules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload/kinds"
)

// need is a Secret or ConfigMap that a Pod refers to, and the referring field.
type need struct{ field, kind, name string }

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// needs returns the Secrets and ConfigMaps without which the containers of a Pod do not start, without duplicates. It leaves out image pull secrets:
// a kubelet starts the containers without them.
func needs(spec *corev1.PodSpec) (out []need) {
	seen := map[need]bool{}
	add := func(field, kind, name string, optional *bool) {
		key := need{kind: kind, name: name}
		if name == "" || seen[key] || optional != nil && *optional {
			return
		}
		seen[key] = true
		out = append(out, need{field, kind, name})
	}
	for i := range spec.Volumes {
		v, field := &spec.Volumes[i], "spec.volumes "+spec.Volumes[i].Name
		if v.Secret != nil {
			add(field, kindSecret, v.Secret.SecretName, v.Secret.Optional)
		}
		if v.ConfigMap != nil {
			add(field, kindConfigMap, v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if s := source.Secret; s != nil {
				add(field, kindSecret, s.Name, s.Optional)
			}
			if c := source.ConfigMap; c != nil {
				add(field, kindConfigMap, c.Name, c.Optional)
			}
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			of := " of container " + list[i].Name
			for _, from := range list[i].EnvFrom {
				if s := from.SecretRef; s != nil {
					add("envFrom"+of, kindSecret, s.Name, s.Optional)
				}
				if c := from.ConfigMapRef; c != nil {
					add("envFrom"+of, kindConfigMap, c.Name, c.Optional)
				}
			}
			for _, e := range list[i].Env {
				if e.ValueFrom == nil {
					continue
				}
				if s := e.ValueFrom.SecretKeyRef; s != nil {
					add("env "+e.Name+of, kindSecret, s.Name, s.Optional)
				}
				if c := e.ValueFrom.ConfigMapKeyRef; c != nil {
					add("env "+e.Name+of, kindConfigMap, c.Name, c.Optional)
				}
			}
		}
	}
	return out
}

// MissingObjects returns one sentence, with field, value and cure, for each Secret and ConfigMap that a Pod needs and that is not copied to the
// provider. The Events of the provider report only that the object does not exist.
func MissingObjects(local *corev1.Pod, o Options) []string {
	var out []string
	for _, n := range needs(&local.Spec) {
		if problem := o.stays(local.Namespace, n); problem != nil {
			out = append(out, fmt.Sprintf("%s needs %s %s: %v", n.field, n.kind, n.name, problem))
		}
	}
	return out
}

// stays returns why a Secret or ConfigMap of a local namespace is not copied to the provider, and what to do. It returns nil if the object is copied,
// or is unknown.
func (o *Options) stays(namespace string, n need) error {
	switch {
	case n.kind == kindSecret && o.Secret != nil:
		secret := o.Secret(namespace, n.name)
		if secret == nil {
			return nil
		}
		if err := o.kept(secret.Annotations, o.SecretType); err != nil {
			return err
		}
		return kinds.SecretProblem(secret, kinds.CopyOptions{Destination: o.Destination})
	case n.kind == kindConfigMap && n.name == kinds.RootCA(o.Origin):
		return fmt.Errorf("cluster %s uses this name for the copy of ConfigMap %s, so the pod would mount that copy: create the ConfigMap under another name and use that one in the pod", o.Destination, kinds.LocalRootCA)
	case n.kind == kindConfigMap && o.ConfigMap != nil && n.name != kinds.LocalRootCA:
		if configMap := o.ConfigMap(namespace, n.name); configMap != nil {
			return o.kept(configMap.Annotations, o.ConfigMapType)
		}
	}
	return nil
}

// kept returns why an object with these annotations is not copied to the provider, with the cure; nil if it may be copied.
func (o *Options) kept(annotations map[string]string, of offloadingv1beta1.ReflectionType) error {
	why := kinds.Kept(annotations, kinds.CopyOptions{Type: of, Destination: o.Destination})
	_, limited := annotations[api.AnnotationReflectTo]
	switch {
	case why == "":
		return nil
	case limited:
		return fmt.Errorf("it is not copied to cluster %s, and the pod does not start there, since %s: add that cluster to the annotation, or remove the annotation", o.Destination, why)
	case of == offloadingv1beta1.AllowList:
		return fmt.Errorf("it is not copied to cluster %s, and the pod does not start there, since %s: annotate it", o.Destination, why)
	default:
		return fmt.Errorf("it is not copied to cluster %s, and the pod does not start there, since %s: remove the annotation", o.Destination, why)
	}
}
