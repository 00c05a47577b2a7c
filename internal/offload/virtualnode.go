package offload

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/excerpt"
	"liqo.io/liqo/internal/offload/kinds"
)

// Messages of condition Ready of a virtual node: NodeNetworkDown if the network does not work; NodeSilent is how the message begins if the API server of the
// provider does not respond. The virtual kubelet writes them, and liqoctl doctor reads them.
const (
	NodeNetworkDown = "the network to the remote cluster does not work"
	NodeSilent      = "the remote cluster does not answer"
)

// Grants reports whether Liqo creates a VirtualNode for a ResourceSlice. The ResourceSlice must have the annotation that requests it, and the
// provider must have accepted both its identity and its resources.
func Grants(slice *authv1beta1.ResourceSlice) bool {
	if slice.Annotations[authv1beta1.AnnotationCreateVirtualNode] != api.True {
		return false
	}
	accepted := func(t authv1beta1.ResourceSliceConditionType) bool {
		return slices.ContainsFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
			return c.Type == t && c.Status == authv1beta1.ResourceSliceAccepted
		})
	}
	return accepted(authv1beta1.ResourceSliceAuthentication) && accepted(authv1beta1.ResourceSliceResources)
}

// Fill updates a VirtualNode with the resources that a provider granted to a ResourceSlice: capacity, classes, labels, node selector, and the Secret
// with the identity. Fields that the provider does not decide (createNode, taints, options) stay as the user set them. Labels that the provider no
// longer grants are removed; an annotation distinguishes them from the user's labels. It ignores invalid labels of a provider, and labels that decide
// what a Node may do in this cluster.
func Fill(node *offloadingv1beta1.VirtualNode, slice *authv1beta1.ResourceSlice, kubeconfigSecret string) {
	metav1.SetMetaDataLabel(&node.ObjectMeta, api.LabelRemoteClusterID, slice.Spec.ProviderClusterID)
	metav1.SetMetaDataLabel(&node.ObjectMeta, api.LabelResourceSliceName, slice.Name)
	node.Spec.ClusterID = slice.Spec.ProviderClusterID
	node.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: kubeconfigSecret}
	node.Spec.ResourceQuota.Hard = slice.Status.Resources.DeepCopy()
	node.Spec.StorageClasses = slices.Clone(slice.Status.StorageClasses)
	node.Spec.IngressClasses = slices.Clone(slice.Status.IngressClasses)
	node.Spec.LoadBalancerClasses = slices.Clone(slice.Status.LoadBalancerClasses)
	node.Spec.InterruptedNodes = interruptedNodes(slice.Status.InterruptedNodes)
	fillLabels(node, slice.Status.NodeLabels)
	if len(slice.Status.NodeSelector) > 0 {
		if node.Spec.OffloadingPatch == nil {
			node.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
		}
		node.Spec.OffloadingPatch.NodeSelector = maps.Clone(slice.Status.NodeSelector)
	}
}

// interruptedNodes returns the nodes that a provider reports as interrupted, limited in number and text length as a provider of this version limits
// them.
func interruptedNodes(reported []authv1beta1.InterruptedNode) []authv1beta1.InterruptedNode {
	out := slices.Clone(reported[:min(len(reported), authv1beta1.MaxInterruptedNodes)])
	for i := range out {
		out[i].Name, out[i].Cause = excerpt.Of(out[i].Name, kinds.MaxName), excerpt.Of(out[i].Cause, kinds.MaxName)
	}
	return out
}

// annotationGrantedLabels, on a VirtualNode, lists the labels that the provider granted, as key=value,key=value; earlier versions listed the keys
// only.
const annotationGrantedLabels = "offloading.liqo.io/granted-labels"

// fillLabels replaces the labels that the provider granted before with those that it grants now. It never changes a label that the administrator of
// this cluster set on the VirtualNode, in its metadata or its spec, since pods and cluster selectors rely on it.
func fillLabels(node *offloadingv1beta1.VirtualNode, granted map[string]string) {
	_, had := node.Annotations[annotationGrantedLabels]
	maps.DeleteFunc(node.Spec.Labels, GrantedLabels(node)) // labels that the administrator has changed since then stay
	labels, entries := map[string]string{}, []string{}
	for key, value := range granted {
		_, inSpec := node.Spec.Labels[key]
		_, onObject := node.Labels[key]
		if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 && !ownPrefix(key) && !inSpec && !onObject {
			labels[key] = value
			entries = append(entries, key+"="+value)
		}
	}
	if len(labels) > 0 {
		node.Spec.Labels = api.Layered(node.Spec.Labels, labels)
	}
	if had || len(labels) > 0 {
		slices.Sort(entries)
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, annotationGrantedLabels, strings.Join(entries, ","))
	}
}

// GrantedLabels returns a function that reports whether a label in the spec of a VirtualNode has the value that the provider granted.
func GrantedLabels(node *offloadingv1beta1.VirtualNode) func(key, value string) bool {
	granted := map[string]string{}
	anyValue := map[string]bool{}
	for entry := range strings.SplitSeq(node.Annotations[annotationGrantedLabels], ",") {
		key, value, valued := strings.Cut(entry, "=")
		granted[key], anyValue[key] = value, !valued
	}
	return func(key, value string) bool {
		of, found := granted[key]
		return found && (anyValue[key] || of == value)
	}
}

// ownPrefix reports whether the prefix of a key is reserved for labels that decide what a Node may do in this cluster. A provider must not set such
// labels.
func ownPrefix(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "node-role.kubernetes.io" || prefix == "node-restriction.kubernetes.io" || strings.HasSuffix(prefix, ".node-restriction.kubernetes.io")
}

// SetCondition sets the condition of type t, or adds it. The transition time changes only with the status.
func SetCondition(node *offloadingv1beta1.VirtualNode, t offloadingv1beta1.VirtualNodeConditionType,
	status offloadingv1beta1.VirtualNodeConditionStatus, reason, message string, now metav1.Time) {
	want := offloadingv1beta1.VirtualNodeCondition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: now}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != t {
			continue
		}
		if c.Status == status && !c.LastTransitionTime.IsZero() {
			want.LastTransitionTime = c.LastTransitionTime
		}
		*c = want
		return
	}
	node.Status.Conditions = append(node.Status.Conditions, want)
}

// Namesake returns the oldest VirtualNode of another namespace that has the name of node and is older than node, nil if there is none (see
// api.CompareAge). Nodes are cluster-scoped, so the oldest VirtualNode owns the Node of that name until the VirtualNode is gone.
func Namesake(nodes []offloadingv1beta1.VirtualNode, node *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
	first := node
	for i := range nodes {
		other := &nodes[i]
		if other.Name != node.Name || other.Namespace == node.Namespace {
			continue
		}
		if api.CompareAge(other, first) < 0 {
			first = other
		}
	}
	if first == node {
		return nil
	}
	return first
}

// NeedsMap reports whether a VirtualNode still needs the NamespaceMap for its provider. It does until it is being deleted and neither its virtual
// kubelet nor its Node exists.
func NeedsMap(node *offloadingv1beta1.VirtualNode, kubeletExists, nodeExists bool) bool {
	return node.DeletionTimestamp.IsZero() || kubeletExists || nodeExists
}

// Time limits of a drain: the time that pods get beyond their own grace period, and the total time for pods of an unreachable provider.
const (
	drainSlack       = 30 * time.Second
	drainUnreachable = 10 * time.Second
	defaultGrace     = corev1.DefaultTerminationGracePeriodSeconds * time.Second
)

// DrainLimit returns how long the pods of a virtual node may take to terminate before they are removed by force. That is the longest grace period
// among them plus drainSlack. For an unreachable provider it is only drainUnreachable, since their state can't be observed any more.
func DrainLimit(pods []corev1.Pod, unreachable bool) time.Duration {
	if unreachable {
		return drainUnreachable
	}
	longest := defaultGrace
	for i := range pods {
		if s := pods[i].Spec.TerminationGracePeriodSeconds; s != nil {
			longest = max(longest, time.Duration(*s)*time.Second)
		}
	}
	return longest + drainSlack
}

// DrainEnd is how long a drain waits for pods after it removed them by force. Some pods stay even then, held by a finalizer or a refused request.
// Kubernetes' pod garbage collection removes them after the Node is deleted.
const DrainEnd = 30 * time.Second

// Overdue returns how long a pod that is being deleted may still take to terminate on its Node, 0 or less when that time has passed. The result is
// false for pods that are not being deleted, or have no Node. The deletion timestamp is the end of the grace period.
func Overdue(pod *corev1.Pod, now time.Time) (left time.Duration, ending bool) {
	if pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName == "" {
		return 0, false
	}
	return pod.DeletionTimestamp.Add(drainSlack).Sub(now), true
}

// Failed reports whether a Node can't complete the termination of its pods: it is not ready, or it does not exist.
func Failed(node *corev1.Node) bool {
	return node == nil || !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ofDaemonSet reports whether a DaemonSet controls the pod.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// annotationUnreachable, "true" on a ForeignCluster, declares that the cluster will never be reachable again.
const annotationUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"

// Gone reports whether a user declared a cluster permanently unreachable.
func Gone(fc *corev1beta1.ForeignCluster) bool {
	return fc.Annotations[annotationUnreachable] == api.True
}

// Unreachable reports whether a cluster is known to be unreachable: requests to its API server fail, or a user declared it permanently unreachable.
func Unreachable(fc *corev1beta1.ForeignCluster) bool {
	return Gone(fc) || slices.ContainsFunc(fc.Status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == corev1beta1.APIServerStatus && c.Status == corev1beta1.StatusError
	})
}
