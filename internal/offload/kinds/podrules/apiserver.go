package podrules

import (
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/offload/kinds"
)

// APIServer describes how pods in the provider reach the API server of this cluster, their origin cluster.
type APIServer struct {
	// Host and Port are the values that pods get in their environment. An empty Host means that the API server can't be reached.
	Host, Port string
	// Address, if set, is the address that Host resolves to, as used on the wire between the clusters.
	Address string
	// Domain is the DNS domain of this cluster, cluster.local if empty.
	Domain string
	// Waiting, if not empty, is the reason why the other fields are not known yet.
	Waiting string
}

// usesOriginAPIServer reports whether a Pod uses the API server of this cluster, with service account tokens of its own.
func usesOriginAPIServer(local *corev1.Pod, o Options) bool {
	switch local.Annotations[AnnotationAPIServerSupport] {
	case APIServerRemote, APIServerDisabled:
		return false
	default:
		return o.APIServer.Host != "" && RequestsTokens(local)
	}
}

// WaitsForAPIServer returns why a Pod has to wait before it can be offloaded, empty if it need not wait.
func WaitsForAPIServer(local *corev1.Pod, o Options) string {
	support := local.Annotations[AnnotationAPIServerSupport]
	if support == APIServerRemote || support == APIServerDisabled || !RequestsTokens(local) {
		return ""
	}
	return o.APIServer.Waiting
}

// withAPIServer changes a remote spec so that its containers find the origin API server and their tokens. The volumes of out must be those of local.
func withAPIServer(out *corev1.PodSpec, local *corev1.Pod, o Options) {
	for i := range out.Volumes {
		projectTokens(&out.Volumes[i], local)
	}
	if address := o.APIServer.Address; address != "" {
		out.HostAliases = append(out.HostAliases, corev1.HostAlias{IP: address, Hostnames: apiServerNames(local, o.APIServer.Domain)})
	}
	withAPIServerEnv(out.InitContainers, o.APIServer)
	withAPIServerEnv(out.Containers, o.APIServer)
}

// withAPIServerEnv gives containers the environment of apiServerEnv, except for variables that they set themselves.
func withAPIServerEnv(list []corev1.Container, s APIServer) {
	env := apiServerEnv(s)
	for i := range list {
		own := list[i].Env
		// These variables come first, so that the container's own variables can refer to them.
		list[i].Env = append(slices.DeleteFunc(slices.Clone(env), func(e corev1.EnvVar) bool {
			return slices.ContainsFunc(own, func(have corev1.EnvVar) bool { return have.Name == e.Name })
		}), own...)
	}
}

// apiServerNames returns the names by which a Pod finds its origin API server. These are the names of its Service without a domain, with this
// cluster's domain, with cluster.local, and with the search domains of the Pod. Pods of the Service's own namespace find it without a namespace, too.
// Without an alias, the name with cluster.local would resolve to the provider's API server.
func apiServerNames(local *corev1.Pod, domain string) []string {
	const service, usual = kinds.OriginAPIServer + ".svc", "cluster.local"
	out := []string{kinds.OriginAPIServer, service, service + "." + usual}
	if domain != "" && domain != usual {
		out = append(out, service+"."+domain)
	}
	if name, of, _ := strings.Cut(kinds.OriginAPIServer, "."); local.Namespace == of {
		out = append(out, name)
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

// apiServerEnv returns the variables that a kubelet sets in containers for Service kubernetes, with the values for the API server of this cluster.
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

// nameServiceAccount replaces references to spec.serviceAccountName by the local name, since the remote Pod has another service account.
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

// projectTokens replaces the service account tokens in a projected volume by those in the Secret of TokenSecret: the provider's kubelet would request
// them from its own API server. It also replaces metadata.namespace in that volume by the local namespace, since the origin API server does not know
// the remote one.
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

// tokenMode returns the mode of a token file, nil for the default mode of its volume. For a projected token, a kubelet sets the file's owner to the
// user that all containers run as, with mode 0600 (0640 with fsGroup). A file from a Secret always belongs to root. So if that user is not root, the
// file has to be readable for every user in the pod.
func tokenMode(spec *corev1.PodSpec) *int32 {
	if spec.SecurityContext != nil && spec.SecurityContext.FSGroup != nil {
		return new(int32(0o600)) // the kubelet adds read access for the group, and every container is in that group
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

// commonUser returns the user that all containers run as, nil if it is unknown or differs.
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
