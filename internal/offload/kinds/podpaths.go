package kinds

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// keepPaths replaces the namespace in the subPathExpr of volume mounts by the local one. The variable has the name of the remote namespace in the provider, so data
// that was written in one cluster would be in another folder in the other. The variable itself keeps its value, because pods need it to find Services.
func keepPaths(containers []corev1.Container, namespace string) {
	for i := range containers {
		for j := range containers[i].VolumeMounts {
			mount := &containers[i].VolumeMounts[j]
			mount.SubPathExpr = expandNamespace(mount.SubPathExpr, containers[i].Env, namespace)
		}
	}
}

// expandNamespace replaces the references $(NAME) to variables with the namespace of the pod. $$ stays: it is how Kubernetes escapes a dollar sign.
func expandNamespace(expression string, env []corev1.EnvVar, namespace string) string {
	var out strings.Builder
	for rest := expression; rest != ""; {
		name, _, found := strings.Cut(strings.TrimPrefix(rest, "$("), ")")
		switch {
		case strings.HasPrefix(rest, "$$"):
			out.WriteString("$$")
			rest = rest[2:]
		case found && strings.HasPrefix(rest, "$(") && hasNamespace(env, name):
			out.WriteString(namespace)
			rest = rest[len("$()")+len(name):]
		default:
			out.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return out.String()
}

// hasNamespace reports whether a variable has the namespace of the pod. Of several with one name, Kubernetes uses the last.
func hasNamespace(env []corev1.EnvVar, name string) (is bool) {
	for i := range env {
		if env[i].Name == name {
			from := env[i].ValueFrom
			is = from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace"
		}
	}
	return is
}
