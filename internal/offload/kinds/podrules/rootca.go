package podrules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// apiServerSigner is the signer whose ClusterTrustBundle holds the CA of the API server, as ConfigMap kube-root-ca.crt does.
const apiServerSigner = "kubernetes.io/kube-apiserver-serving"

// ofAPIServer reports whether a projected ClusterTrustBundle is the CA of the API server.
func ofAPIServer(bundle *corev1.ClusterTrustBundleProjection) bool {
	return bundle.SignerName != nil && *bundle.SignerName == apiServerSigner
}

// trustProblems returns one sentence for each ClusterTrustBundle that a Pod needs. These objects belong to a cluster and are not copied, so the Pod
// would trust the certificate authorities of the provider.
func trustProblems(local *corev1.Pod) (out []string) {
	if local.Annotations[AnnotationAPIServerSupport] == APIServerRemote {
		return nil
	}
	for i := range local.Spec.Volumes {
		v := &local.Spec.Volumes[i]
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			bundle := source.ClusterTrustBundle
			if bundle == nil || ofAPIServer(bundle) {
				continue
			}
			which := "of another name"
			switch {
			case bundle.Name != nil:
				which = *bundle.Name
			case bundle.SignerName != nil:
				which = "of signer " + *bundle.SignerName
			}
			out = append(out, fmt.Sprintf("spec.volumes %s needs ClusterTrustBundle %s, and gets that of the provider, if there is one: mount a ConfigMap with the certificates instead", v.Name, which))
		}
	}
	return out
}

// renameRootCA changes every reference to the root CA in a remote spec to the name of its reflected copy. The original name is the provider's own
// root CA.
func renameRootCA(spec *corev1.PodSpec, o Options) {
	rename := func(name *string, optional **bool) {
		if *name != kinds.LocalRootCA {
			return
		}
		*name = kinds.RootCA(o.Origin)
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
			source := &v.Projected.Sources[j]
			if bundle := source.ClusterTrustBundle; bundle != nil && ofAPIServer(bundle) {
				*source = corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: kinds.LocalRootCA}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: bundle.Path}}, Optional: bundle.Optional,
				}}
			}
			if c := source.ConfigMap; c != nil {
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
