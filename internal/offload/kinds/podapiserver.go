package kinds

import (
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// HomeAPIServer is the name by which pods in other clusters reach the API server of their own one: its certificate is good for it, and their host
// aliases lead there.
const HomeAPIServer = "kubernetes.default"

// APIServer is how pods in the provider reach the API server of this cluster.
type APIServer struct {
	// Host and Port are what they are told; an empty Host means that it can't be reached.
	Host, Port string
	// Address, if set, is to where Host leads, as it is called on the wire between the clusters.
	Address string
	// Waiting, if not empty, is why none of this is known yet.
	Waiting string
}

// speaksHome tells whether a Pod speaks to the API server of this cluster, with tokens of its own.
func speaksHome(local *corev1.Pod, o PodOptions) bool {
	switch local.Annotations[AnnotationAPIServerSupport] {
	case APIServerRemote, APIServerDisabled:
		return false
	default:
		return o.APIServer.Host != "" && AsksForTokens(local)
	}
}

// WaitsForAPIServer tells what a Pod has to wait for before it can be offloaded, empty if it need not.
func WaitsForAPIServer(local *corev1.Pod, o PodOptions) string {
	support := local.Annotations[AnnotationAPIServerSupport]
	if support == APIServerRemote || support == APIServerDisabled || !AsksForTokens(local) {
		return ""
	}
	return o.APIServer.Waiting
}

// withAPIServer makes a remote spec, whose volumes are those of local, such that its containers find our API server and their tokens.
func withAPIServer(out *corev1.PodSpec, local *corev1.Pod, o PodOptions) {
	for i := range out.Volumes {
		projectTokens(&out.Volumes[i], local, o)
	}
	if address := o.APIServer.Address; address != "" {
		out.HostAliases = append(out.HostAliases, corev1.HostAlias{IP: address, Hostnames: []string{HomeAPIServer, HomeAPIServer + ".svc"}})
	}
	env := apiServerEnv(o.APIServer)
	for _, list := range [][]corev1.Container{out.InitContainers, out.Containers} {
		for i := range list {
			own := list[i].Env
			// First, so that the container's own ones may refer to them.
			list[i].Env = append(slices.DeleteFunc(slices.Clone(env), func(e corev1.EnvVar) bool {
				return slices.ContainsFunc(own, func(have corev1.EnvVar) bool { return have.Name == e.Name })
			}), own...)
		}
	}
}

// apiServerEnv is what a kubelet tells containers about Service kubernetes, for the API server of this cluster.
func apiServerEnv(s APIServer) []corev1.EnvVar {
	prefix := fmt.Sprintf("KUBERNETES_PORT_%s_TCP", s.Port)
	url := "tcp://" + net.JoinHostPort(s.Host, s.Port)
	return []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: s.Host},
		{Name: "KUBERNETES_SERVICE_PORT", Value: s.Port},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: s.Port},
		{Name: "KUBERNETES_PORT", Value: url},
		{Name: prefix, Value: url},
		{Name: prefix + "_PROTO", Value: "tcp"},
		{Name: prefix + "_ADDR", Value: s.Host},
		{Name: prefix + "_PORT", Value: s.Port},
	}
}

// nameServiceAccount replaces references to the name of the service account, which is another one there.
func nameServiceAccount(list []corev1.Container, name string) {
	for i := range list {
		for j := range list[i].Env {
			e := &list[i].Env[j]
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "spec.serviceAccountName" {
				*e = corev1.EnvVar{Name: e.Name, Value: name}
			}
		}
	}
}

// projectTokens replaces, in a volume, the tokens that the provider's kubelet would ask its own API server for by those in the Secret; and beside
// them the namespace, which is the one here: that there is no namespace of our API server.
func projectTokens(v *corev1.Volume, local *corev1.Pod, o PodOptions) {
	if v.Projected == nil || !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
		return
	}
	secret := func(items ...corev1.KeyToPath) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: TokenSecret(local.Name)}, Items: items}}
	}
	var out []corev1.VolumeProjection
	for _, source := range v.Projected.Sources {
		switch {
		case source.ServiceAccountToken != nil:
			out = append(out, secret(corev1.KeyToPath{Key: tokenKey(v.Name, source.ServiceAccountToken.Path), Path: source.ServiceAccountToken.Path}))
		case source.DownwardAPI != nil:
			var rest []corev1.DownwardAPIVolumeFile
			for _, item := range source.DownwardAPI.Items {
				if item.FieldRef != nil && item.FieldRef.FieldPath == "metadata.namespace" {
					out = append(out, secret(corev1.KeyToPath{Key: namespaceKey, Path: item.Path, Mode: item.Mode}))
				} else {
					rest = append(rest, item)
				}
			}
			if len(rest) > 0 || len(source.DownwardAPI.Items) == 0 {
				out = append(out, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: rest}})
			}
		default:
			out = append(out, source)
		}
	}
	v.Projected.Sources = out
	renameRootCA(v, o)
}
