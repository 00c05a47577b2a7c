// Package podtest checks that the pods that Liqo creates have no rights that they do not need.
package podtest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Check reports each right of a pod that is not in allowed, and each entry of allowed that the pod does not need. The keys of allowed are the rights, as Rights names
// them. The values are the reasons.
func Check(t testing.TB, name string, pod *corev1.PodSpec, allowed map[string]string) {
	t.Helper()
	rights := Rights(pod)
	for _, right := range rights {
		if allowed[right] == "" {
			t.Errorf("%s: %s: a pod that Liqo creates must not have this, unless the list of this test gives the reason", name, right)
		}
	}
	for right := range allowed {
		if !slices.Contains(rights, right) {
			t.Errorf("%s: %s: the pod does not have this, so remove it from the list of this test", name, right)
		}
	}
}

// Rights names what a pod has beyond the least: "token" for the token of its ServiceAccount in every container, "host network", "host processes" and "host path". Then for
// each container its name with "may be root", "is privileged", "may gain privileges", "keeps capabilities", "adds NET_ADMIN" for each added capability, "has no seccomp
// profile" or "has no memory limit".
func Rights(pod *corev1.PodSpec) []string {
	var out []string
	of := pod.SecurityContext
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	add := func(when bool, right string) {
		if when {
			out = append(out, right)
		}
	}
	add(isNot(pod.AutomountServiceAccountToken, false), "token")
	add(pod.HostNetwork, "host network")
	add(pod.HostPID || pod.HostIPC, "host processes")
	add(slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }), "host path")
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		if s == nil {
			s = &corev1.SecurityContext{}
		}
		nonRoot, seccomp := of.RunAsNonRoot, of.SeccompProfile
		if s.RunAsNonRoot != nil {
			nonRoot = s.RunAsNonRoot
		}
		if s.SeccompProfile != nil {
			seccomp = s.SeccompProfile
		}
		add(isNot(nonRoot, true), c.Name+" may be root")
		add(s.Privileged != nil && *s.Privileged, c.Name+" is privileged")
		add(isNot(s.AllowPrivilegeEscalation, false), c.Name+" may gain privileges")
		if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
			out = append(out, c.Name+" keeps capabilities")
		} else {
			for _, capability := range s.Capabilities.Add {
				out = append(out, c.Name+" adds "+string(capability))
			}
		}
		add(seccomp == nil || seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault, c.Name+" has no seccomp profile")
		add(c.Resources.Limits.Memory().IsZero(), c.Name+" has no memory limit")
	}
	return out
}

func isNot(value *bool, want bool) bool { return value == nil || *value != want }
