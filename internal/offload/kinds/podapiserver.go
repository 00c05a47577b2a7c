package kinds

import (
	"fmt"
	"net"
	"slices"
	"strings"

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
	// Domain is that of this cluster's DNS names, cluster.local if empty.
	Domain string
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
		projectTokens(&out.Volumes[i], local)
	}
	if address := o.APIServer.Address; address != "" {
		out.HostAliases = append(out.HostAliases, corev1.HostAlias{IP: address, Hostnames: apiServerNames(local, o.APIServer.Domain)})
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

// apiServerNames are the names by which a Pod finds the API server here: those of the Service, in this cluster's domain, in the usual one, which
// would lead to the API server of the provider, and in those that the Pod searches.
func apiServerNames(local *corev1.Pod, domain string) []string {
	const service, usual = HomeAPIServer + ".svc", "cluster.local"
	out := []string{HomeAPIServer, service, service + "." + usual}
	if domain != "" && domain != usual {
		out = append(out, service+"."+domain)
	}
	if local.Spec.DNSConfig == nil {
		return out
	}
	for _, search := range local.Spec.DNSConfig.Searches {
		search = strings.TrimSuffix(search, ".")
		if domain, found := strings.CutPrefix(search, "svc."); found {
			search = domain
		} else if _, domain, found = strings.Cut(search, ".svc."); found {
			search = domain
		} else {
			continue
		}
		if name := service + "." + search; search != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
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
func projectTokens(v *corev1.Volume, local *corev1.Pod) {
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
			out = append(out, secret(corev1.KeyToPath{Key: tokenKey(v.Name, source.ServiceAccountToken.Path), Path: source.ServiceAccountToken.Path, Mode: tokenMode(&local.Spec)}))
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
}

// tokenMode is the mode of a file with a token, nil for that of its volume. A kubelet makes its owner the user that all containers run as, and nobody
// else may read it (0600, with fsGroup 0640). A Secret has no owner but root: where it stands in for the token, everybody in the pod may read what its
// user may.
func tokenMode(spec *corev1.PodSpec) *int32 {
	if spec.SecurityContext != nil && spec.SecurityContext.FSGroup != nil {
		return new(int32(0o600)) // the kubelet adds the group, which every container is in
	}
	switch user := commonUser(spec); {
	case user == nil:
		return nil
	case *user == 0:
		return new(int32(0o600))
	default:
		return new(int32(0o444))
	}
}

// commonUser is the user that all containers are to run as, nil if there is none.
func commonUser(spec *corev1.PodSpec) *int64 {
	var user *int64
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			as := (*int64)(nil)
			if spec.SecurityContext != nil {
				as = spec.SecurityContext.RunAsUser
			}
			if own := list[i].SecurityContext; own != nil && own.RunAsUser != nil {
				as = own.RunAsUser
			}
			if as == nil || user != nil && *user != *as {
				return nil
			}
			user = as
		}
	}
	return user
}
