package kinds

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Problems are what of a Pod has no effect in the provider although its maker may count on it: one sentence each, with field, value and cure.
func Problems(local *corev1.Pod) []string {
	var out []string
	for _, a := range []struct {
		key  string
		want []string
	}{
		{AnnotationAntiAffinity, []string{AntiAffinitySoft, AntiAffinityHard, AntiAffinityPropagate}},
		{AnnotationAPIServerSupport, []string{APIServerRemote, APIServerDisabled}},
	} {
		if value, found := local.Annotations[a.key]; found && !slices.Contains(a.want, value) {
			out = append(out, fmt.Sprintf("annotation %s is %q and has no effect: use one of %s", a.key, value, strings.Join(a.want, ", ")))
		}
	}
	for _, host := range []struct {
		field string
		set   bool
	}{{"hostNetwork", local.Spec.HostNetwork}, {"hostPID", local.Spec.HostPID}, {"hostIPC", local.Spec.HostIPC}} {
		if host.set {
			out = append(out, fmt.Sprintf("spec.%s is true and has no effect: the pod has none of the provider's nodes; keep it on a node of this cluster if it needs one", host.field))
		}
	}
	if len(local.Spec.ResourceClaims) > 0 {
		out = append(out, "spec.resourceClaims have no effect: devices are not claimed in other clusters; ask for an extended resource of the virtual node instead")
	}
	if local.Spec.Resources != nil {
		out = append(out, "spec.resources have no effect: those of the whole pod do not travel; give them to its containers")
	}
	if local.Spec.HostUsers != nil && !*local.Spec.HostUsers {
		out = append(out, "spec.hostUsers is false and has no effect: the pod gets no user namespace of its own there; keep it on a node of this cluster if it needs one")
	}
	if local.Spec.HostnameOverride != nil {
		out = append(out, fmt.Sprintf("spec.hostnameOverride is %q and has no effect: use spec.hostname and spec.subdomain", *local.Spec.HostnameOverride))
	}
	return out
}
