package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
)

// waitTime is the age from which a Pending pod counts as waiting. Schedulers and providers need a moment for each new pod.
const waitTime = time.Minute

// shownPods is the maximum number of pods that a finding names.
const shownPods = 3

// wait is the reason why pods are Pending: a provider refuses them, or no node has room. peer is the provider; it is empty for pods without a node.
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
			r.warn("request less, or have more granted: liqoctl create resourceslice NAME --remote-cluster-id ID makes another virtual node",
				"no node takes %s: %s", who, why.message)
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
