package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/storage"
)

// NewInformers returns informers of a cluster, which are not started. Of pods, nodes and events they keep only what the page depends on, because
// there may be many. They watch no PersistentVolumes but those of Liqo.
func NewInformers(config *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper) (cache.Cache, error) {
	out, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: stripPod}, &corev1.Node{}: {Transform: stripNode}, &corev1.Event{}: {Transform: stripEvent},
			&corev1.PersistentVolume{}: {Label: labels.SelectorFromSet(labels.Set{storage.LabelVirtual: api.True})},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating informers: %w", err)
	}
	return out, nil
}

// identityOf returns the part of an object's metadata that informers and the page need.
func identityOf(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
		DeletionTimestamp: o.DeletionTimestamp,
	}
}

// keepLabels copies the named labels that an object has.
func keepLabels(to *metav1.ObjectMeta, from map[string]string, names ...string) {
	for _, name := range names {
		if value, there := from[name]; there {
			metav1.SetMetaDataLabel(to, name, value)
		}
	}
}

// stripPod reduces a pod to its node, its state and its resource usage. It writes the usage to spec.overhead, which peering.PodUse counts. Of the
// active pod of a gateway it also keeps the port of its metrics, and what identifies the gateway.
func stripPod(object any) (any, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return object, nil
	}
	use := peering.PodUse(pod)
	delete(use, corev1.ResourcePods)
	out := &corev1.Pod{
		ObjectMeta: identityOf(pod.ObjectMeta), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
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
		keepLabels(&out.ObjectMeta, pod.Labels, networkingv1beta1.LabelActive, api.LabelRemoteClusterID, networkingv1beta1.LabelComponent, networkingv1beta1.LabelGatewayName)
		out.OwnerReferences = pod.OwnerReferences
		for _, container := range pod.Spec.Containers {
			if len(container.Ports) > 0 {
				out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Ports: container.Ports})
			}
		}
	}
	return out, nil
}

// stripNode reduces a Node to its resources, and to the fields that decide whether it accepts pods.
func stripNode(object any) (any, error) {
	node, is := object.(*corev1.Node)
	if !is {
		return object, nil
	}
	out := &corev1.Node{
		ObjectMeta: identityOf(node.ObjectMeta), Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable},
	}
	keepLabels(&out.ObjectMeta, node.Labels, api.LabelType, api.LabelRemoteClusterID)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{
				Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: condition.Message,
			}}
		}
	}
	return out, nil
}

// stripEvent reduces an event to what the page shows.
func stripEvent(object any) (any, error) {
	event, is := object.(*corev1.Event)
	if !is {
		return object, nil
	}
	return &corev1.Event{
		ObjectMeta: identityOf(event.ObjectMeta), Type: event.Type, Reason: event.Reason, Message: event.Message, Count: event.Count,
		FirstTimestamp: event.FirstTimestamp, LastTimestamp: event.LastTimestamp, EventTime: event.EventTime, Series: event.Series,
		InvolvedObject: corev1.ObjectReference{
			APIVersion: event.InvolvedObject.APIVersion, Kind: event.InvolvedObject.Kind,
			Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name,
		},
	}, nil
}
