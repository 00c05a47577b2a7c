package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// waitTime is the age from which a Pending pod counts as waiting. Schedulers and providers need a moment for each new pod.
const waitTime = time.Minute

// shownPods is the maximum number of pods that a finding names.
const shownPods = 3

// wait is the reason why pods are Pending: a provider refuses them, or the scheduler finds no node for them. peer is the provider, empty for pods without a
// node.
type wait struct{ peer, message string }

// waiting reports the pods of offloaded namespaces that are Pending. Pods with the same reason are one finding.
func waiting(r *report) {
	found := map[wait][]*corev1.Pod{}
	for i := range r.Waiting {
		pod := &r.Waiting[i]
		if pod.DeletionTimestamp != nil || r.now.Sub(pod.CreationTimestamp.Time) < waitTime {
			continue
		}
		if pod.Status.Reason == offloadingv1beta1.PodOffloadingBackOff {
			why := wait{r.providerOf(pod.Spec.NodeName), pod.Status.Message}
			found[why] = append(found[why], pod)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
				why := wait{message: condition.Message}
				found[why] = append(found[why], pod)
			}
		}
	}
	whys := make([]wait, 0, len(found))
	for why := range found {
		whys = append(whys, why)
	}
	slices.SortFunc(whys, func(a, b wait) int { return cmp.Or(cmp.Compare(a.peer, b.peer), cmp.Compare(a.message, b.message)) })
	for _, why := range whys {
		pods := found[why]
		r.about(partWaiting, why.peer)
		who := fmt.Sprintf("%d %s (%s)", len(pods), plural(len(pods), "pod"), podNames(pods))
		switch {
		case why.peer == "":
			r.warn(unscheduledCure(pods[0], why.message), "no node takes %s: %s", who, why.message)
		case strings.Contains(why.message, offload.QuotaCure):
			cure := fmt.Sprintf("have more granted: liqoctl create resourceslice NAME --remote-cluster-id %s, or ask the administrator of %s to share more",
				why.peer, why.peer)
			r.warn(cure, "what cluster %s granted is used up, %s: %s", why.peer, who, why.message)
		default:
			r.warn(fmt.Sprintf("see kubectl -n %s describe pod %s, and ask the administrator of cluster %s", pods[0].Namespace, pods[0].Name, why.peer),
				"cluster %s does not take %s: %s", why.peer, who, why.message)
		}
	}
}

// refusal is a reason that the scheduler of Kubernetes gives. The cure may contain the groups of the pattern ($1), NAMESPACE and SELECTOR.
type refusal struct {
	pattern *regexp.Regexp
	cure    string
}

// refusals has the reasons with a cure of their own. Those that another node would not change come first. The texts are those of kube-scheduler's plugins
// VolumeBinding, NodeAffinity, TaintToleration and NodeResourcesFit, of several versions.
var refusals = []refusal{
	{regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`), "create PersistentVolumeClaim $1 in namespace NAMESPACE"},
	{
		regexp.MustCompile(`non-existent (?:persistentvolume|pv)`),
		"a PersistentVolume of the pod was deleted: kubectl -n NAMESPACE get pvc shows the claim that is Lost; restore its data from a backup into a claim of another name",
	},
	{regexp.MustCompile(`unbound immediate PersistentVolumeClaims`), "kubectl -n NAMESPACE describe pvc says why a claim of the pod has no volume"},
	{
		regexp.MustCompile(`volume node affinity conflict|PersistentVolume's node affinity`),
		"the volumes of the pod are in a cluster, or on a node, where it can't run: kubectl -n NAMESPACE describe pvc; liqoctl move volume CLAIM --namespace NAMESPACE --target-node NODE moves one",
	},
	{
		regexp.MustCompile(`untolerated taint(?:\(s\))? \{` + regexp.QuoteMeta(api.TaintVirtualNode)),
		"let pods of the namespace run on virtual nodes: liqoctl offload namespace NAMESPACE --pod-offloading-strategy LocalAndRemote",
	},
	{
		regexp.MustCompile(`node affinity/selector|node\(s\) didn't match node selector`),
		"no node has the labels that the pod requires (SELECTOR): see kubectl get nodes --show-labels; if such a node was removed, change the requirement",
	},
	{regexp.MustCompile(`untolerated taint(?:\(s\))? \{([^}:]+)`), "let the pod tolerate taint $1, or remove the taint: kubectl taint nodes NODE $1-"},
	{regexp.MustCompile(`exceeded quota`), "kubectl -n NAMESPACE describe resourcequota shows what is used: raise it, or request less"},
	{regexp.MustCompile(`Insufficient|Too many pods`), "request less, or have more granted: liqoctl create resourceslice NAME --remote-cluster-id ID makes another virtual node"},
}

// unscheduledCure returns what an administrator can do for a pod that the scheduler refuses. The message contains the reasons of all nodes.
func unscheduledCure(pod *corev1.Pod, message string) string {
	for _, known := range refusals {
		groups := known.pattern.FindStringSubmatchIndex(message)
		if groups == nil {
			continue
		}
		cure := string(known.pattern.ExpandString(nil, known.cure, message, groups))
		return strings.NewReplacer("NAMESPACE", pod.Namespace, "SELECTOR", required(pod)).Replace(cure)
	}
	return fmt.Sprintf("kubectl -n %s describe pod %s shows what the pod requires", pod.Namespace, pod.Name)
}

// required returns what a pod requires of the labels of its node.
func required(pod *corev1.Pod) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		out = append(out, key+"="+pod.Spec.NodeSelector[key])
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		out = append(out, "its node affinity")
	}
	if len(out) == 0 {
		return "the strategy of its namespace"
	}
	return strings.Join(out, ", ")
}

// providerOf returns the provider of a virtual node. For another node it returns its name.
func (c *Cluster) providerOf(node string) string {
	for i := range c.VirtualNodes {
		if c.VirtualNodes[i].Name == node {
			return c.VirtualNodes[i].Spec.ClusterID
		}
	}
	return node
}

// podNames lists pods as namespace/name, and shortens a long list.
func podNames(pods []*corev1.Pod) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Namespace + "/" + pod.Name
	}
	slices.Sort(names)
	if len(names) > shownPods {
		names = append(names[:shownPods], "...")
	}
	return strings.Join(names, ", ")
}
