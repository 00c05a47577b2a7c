package watch

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/remote"
	"liqo.io/liqo/internal/storage"
)

// NewInformers returns informers of a cluster, which are not started. They keep only what the page depends on (see reduce), because there may be many
// objects. They watch no PersistentVolumes but those of Liqo. limits hold for the objects of
// each kind; nil for no limits.
func NewInformers(config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper, limits *remote.Limits) (cache.Cache, error) {
	out, err := cache.New(config, informerOptions(scheme, mapper, limits))
	if err != nil {
		return nil, fmt.Errorf("creating informers: %w", err)
	}
	return out, nil
}

func informerOptions(scheme *runtime.Scheme, mapper meta.RESTMapper, limits *remote.Limits) cache.Options {
	out := cache.Options{
		Scheme: scheme, Mapper: mapper, DefaultTransform: reduce,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.PersistentVolume{}: {Label: labels.SelectorFromSet(labels.Set{storage.LabelVirtual: api.True})},
		},
	}
	if limits != nil {
		out.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(remote.LimitCache(lw, *limits, nil), obj, resync, indexers)
		}
	}
	return out
}

// reduce removes from an object what the page does not depend on. It is the transformation of all informers. The metadata of all kinds is reduced by
// the same rule. Users create many objects of some kinds; of these, only the listed fields stay. Reducing an object again changes nothing.
func reduce(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		return stripPod(o), nil
	case *corev1.Node:
		return stripNode(o), nil
	case *corev1.Event:
		return stripEvent(o), nil
	case *corev1.PersistentVolumeClaim:
		return stripClaim(o), nil
	case client.Object:
		o.SetManagedFields(nil)
		o.SetOwnerReferences(nil)
		o.SetFinalizers(nil)
		o.SetLabels(kept(o.GetLabels()))
		o.SetAnnotations(kept(o.GetAnnotations()))
	}
	return object, nil
}

// kept returns those labels or annotations that Liqo defines, and those by which Kubernetes records the state of volumes.
func kept(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		domain, _, _ := strings.Cut(key, "/")
		switch {
		case domain == "liqo.io", strings.HasSuffix(domain, ".liqo.io"), domain == "volume.kubernetes.io", domain == "pv.kubernetes.io":
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// stripPod reduces a pod to its node, its state and its resource usage. It writes the usage to spec.overhead, which sharing.PodUse counts. Of the
// active pod of a gateway it also keeps the port of its metrics, and what identifies the gateway.
func stripPod(pod *corev1.Pod) *corev1.Pod {
	use := sharing.PodUse(pod)
	delete(use, corev1.ResourcePods)
	out := &corev1.Pod{
		ObjectMeta: kube.Identity(&pod.ObjectMeta), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
	}
	if len(use) > 0 {
		out.Spec.Overhead = use
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady || condition.Type == corev1.PodScheduled {
			out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{Type: condition.Type, Status: condition.Status, Reason: condition.Reason})
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, corev1.ContainerStatus{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting.Reason}},
			})
		}
	}
	if pod.Labels[networkingv1beta1.LabelActive] == api.True {
		kube.KeepLabels(&out.ObjectMeta, pod.Labels, networkingv1beta1.LabelActive, api.LabelRemoteClusterID, networkingv1beta1.LabelComponent, networkingv1beta1.LabelGatewayName)
		out.OwnerReferences = pod.OwnerReferences
		for _, container := range pod.Spec.Containers {
			if len(container.Ports) > 0 {
				out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Ports: container.Ports})
			}
		}
	}
	return out
}

// stripNode reduces a Node to its resources, and to the fields that decide whether it accepts pods.
func stripNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: kube.Identity(&node.ObjectMeta), Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable},
	}
	kube.KeepLabels(&out.ObjectMeta, node.Labels, api.LabelType, api.LabelRemoteClusterID)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{
				Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: condition.Message,
			}}
		}
	}
	return out
}

// stripEvent reduces an event to what the page shows.
func stripEvent(event *corev1.Event) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: kube.Identity(&event.ObjectMeta), Type: event.Type, Reason: event.Reason, Message: event.Message, Count: event.Count,
		FirstTimestamp: event.FirstTimestamp, LastTimestamp: event.LastTimestamp, EventTime: event.EventTime, Series: event.Series,
		InvolvedObject: corev1.ObjectReference{
			APIVersion: event.InvolvedObject.APIVersion, Kind: event.InvolvedObject.Kind,
			Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name,
		},
	}
}

// stripClaim reduces a claim to its class, its volume, its size and its state.
func stripClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: kube.Identity(&claim.ObjectMeta),
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: claim.Spec.StorageClassName, VolumeName: claim.Spec.VolumeName},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase, Capacity: claim.Status.Capacity},
	}
	out.Labels, out.Annotations = kept(claim.Labels), kept(claim.Annotations)
	out.Spec.Resources.Requests = claim.Spec.Resources.Requests
	return out
}
