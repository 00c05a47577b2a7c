package podrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Problems returns the features of a Pod that have no effect in the provider although the user may rely on them: one sentence each, with field, value
// and cure.
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
			out = append(out, fmt.Sprintf("spec.%s is true and has no effect: offloaded pods do not share host namespaces of the provider's nodes; keep it on a node of this cluster if it needs one", host.field))
		}
	}
	if len(local.Spec.ResourceClaims) > 0 {
		out = append(out, "spec.resourceClaims have no effect: devices are not claimed in other clusters; ask for an extended resource of the virtual node instead")
	}
	if local.Spec.Resources != nil {
		out = append(out, "spec.resources have no effect: resources of the whole pod are not copied; set them on its containers")
	}
	if local.Spec.HostUsers != nil && !*local.Spec.HostUsers {
		out = append(out, "spec.hostUsers is false and has no effect: the pod gets no user namespace of its own there; keep it on a node of this cluster if it needs one")
	}
	if local.Spec.HostnameOverride != nil {
		out = append(out, fmt.Sprintf("spec.hostnameOverride is %q and has no effect: use spec.hostname and spec.subdomain", *local.Spec.HostnameOverride))
	}
	return slices.Concat(out, schedulingProblems(local), trustProblems(local), downwardProblems(local))
}

// AnnotationProblems returns up to two sentences, with fields and cure, about annotations that are not copied: annotations that the Pod reads through
// the downward API, and annotations that protect it from eviction.
func AnnotationProblems(local *corev1.Pod, o Options) []string {
	_, copied := podMetadata(local, o)
	var missing []string
	reads := func(field string, ref *corev1.ObjectFieldSelector) {
		if ref == nil {
			return
		}
		key, found := strings.CutPrefix(ref.FieldPath, "metadata.annotations['")
		key = strings.TrimSuffix(key, "']")
		_, here := local.Annotations[key]
		if _, there := copied[key]; found && here && !there {
			missing = append(missing, fmt.Sprintf("%s (%s)", key, field))
		}
	}
	for _, list := range [][]corev1.Container{local.Spec.InitContainers, local.Spec.Containers} {
		for i := range list {
			for _, e := range list[i].Env {
				if e.ValueFrom != nil {
					reads(fmt.Sprintf("env %s of container %s", e.Name, list[i].Name), e.ValueFrom.FieldRef)
				}
			}
		}
	}
	for i := range local.Spec.Volumes {
		v := &local.Spec.Volumes[i]
		field := "volume " + v.Name
		if v.DownwardAPI != nil {
			for _, item := range v.DownwardAPI.Items {
				reads(field, item.FieldRef)
			}
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				for _, item := range source.DownwardAPI.Items {
					reads(field, item.FieldRef)
				}
			}
		}
	}
	const cure = "have the administrators of both clusters accept them (chart values offloading.reflection.include.annotations here, offloading.acceptedMetadata.annotations.pods there)"
	var out []string
	if len(missing) > 0 {
		out = append(out, fmt.Sprintf("annotations %s are not copied to cluster %s, and read as empty there: use keys without a prefix, or %s", strings.Join(missing, ", "), o.Destination, cure))
	}
	var protecting []string
	for _, key := range slices.Sorted(maps.Keys(protections)) {
		if _, there := copied[key]; local.Annotations[key] == protections[key] && !there {
			protecting = append(protecting, key)
		}
	}
	if len(protecting) > 0 {
		out = append(out, fmt.Sprintf("annotations %s are not copied, so programs that remove nodes or pods of cluster %s may evict the pod: give it a PodDisruptionBudget, which holds there, or %s",
			strings.Join(protecting, ", "), o.Destination, cure))
	}
	return out
}

// protections are annotations of Pods, with the value that keeps node autoscalers and the descheduler from evicting the Pod.
var protections = map[string]string{
	"cluster-autoscaler.kubernetes.io/safe-to-evict":     "false",
	"karpenter.sh/do-not-disrupt":                        "true",
	"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
}

// downwardProblems returns a warning for a Pod that uses the origin API server with a service account of its own. It lists environment variables and
// files from the downward API whose values are those of the provider, such as namespace and node. The origin API server does not know these values.
// The variables keep the values, since pods in the provider need them to find Services there.
func downwardProblems(local *corev1.Pod) []string {
	if !asksOrigin(local) {
		return nil
	}
	var asked []string
	for _, list := range [][]corev1.Container{local.Spec.InitContainers, local.Spec.Containers} {
		for i := range list {
			for _, e := range list[i].Env {
				if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
					continue
				}
				if path := e.ValueFrom.FieldRef.FieldPath; slices.Contains([]string{fieldNamespace, "spec.nodeName", fieldUID, "status.hostIP", "status.hostIPs"}, path) {
					asked = append(asked, fmt.Sprintf("env %s (%s) of container %s", e.Name, path, list[i].Name))
				}
			}
		}
	}
	for i := range local.Spec.Volumes {
		asked = append(asked, filesOfTheProvider(&local.Spec.Volumes[i], fieldUID)...)
	}
	if len(asked) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: the values are those of the provider, which the API server of this cluster does not know: read the namespace for requests from file "+
		"/var/run/secrets/kubernetes.io/serviceaccount/namespace, or give the variables a value; if the pod makes no requests, set annotation %s: %s",
		strings.Join(asked, ", "), AnnotationAPIServerSupport, APIServerDisabled)}
}

// asksOrigin reports whether a Pod uses the origin API server with a service account of its own.
func asksOrigin(local *corev1.Pod) bool {
	account, support := local.Spec.ServiceAccountName, local.Annotations[AnnotationAPIServerSupport]
	return account != "" && account != "default" && support != APIServerRemote && support != APIServerDisabled && RequestsTokens(local)
}

// Fields of the downward API whose values are those of the provider.
const fieldNamespace, fieldUID = "metadata.namespace", "metadata.uid"

// filesOfTheProvider lists the files that a volume fills from the downward API with a value of the provider: its namespace, or one of the fields in others. In
// a volume with a service account token, the namespace is the local one (projectTokens).
func filesOfTheProvider(v *corev1.Volume, others ...string) (out []string) {
	add := func(items []corev1.DownwardAPIVolumeFile, paths ...string) {
		for _, item := range items {
			if item.FieldRef != nil && slices.Contains(paths, item.FieldRef.FieldPath) {
				out = append(out, fmt.Sprintf("file %s (%s) of volume %s", item.Path, item.FieldRef.FieldPath, v.Name))
			}
		}
	}
	all := append([]string{fieldNamespace}, others...)
	if v.DownwardAPI != nil {
		add(v.DownwardAPI.Items, all...)
	}
	if v.Projected == nil {
		return out
	}
	token := slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	for _, source := range v.Projected.Sources {
		switch {
		case source.DownwardAPI == nil:
		case token:
			add(source.DownwardAPI.Items, others...)
		default:
			add(source.DownwardAPI.Items, all...)
		}
	}
	return out
}
