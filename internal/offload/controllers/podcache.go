package controllers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// fieldOwner is the field manager for writes to Pods. It distinguishes our labels and annotations from those of others.
const fieldOwner = "liqo-shadowpod"

// stripPod reduces a cached Pod to the fields that the controllers read. It keeps only the labels and annotations that we copied from the ShadowPod,
// according to managedFields. Labels and annotations from admission, the CNI plugin or users are dropped. The containers are dropped, too: their
// resource usage is stored as overhead, so that the Pod counts the same.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || len(pod.Spec.Containers) == 0 { // every Pod has containers: without them it is already stripped, since an informer may call this twice
		return obj, nil
	}
	labels, annotations, err := ownedMetadata(pod.ManagedFields)
	if err != nil {
		return nil, fmt.Errorf("reading the field managers of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	taken := offload.PodUsage(pod)
	if delete(taken, corev1.ResourcePods); len(taken) == 0 {
		taken = nil
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase, Conditions: gates(pod)}
	if end := podrules.End(pod); end != nil {
		status = *end // kept until the ShadowPod has recorded it
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: withKeys(pod.Labels, labels), Annotations: withKeys(pod.Annotations, annotations),
			OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy, NodeName: pod.Spec.NodeName, Overhead: taken},
		Status: status,
	}, nil
}

// gates returns the conditions for a Pod's readiness gates, reduced to type and status.
func gates(pod *corev1.Pod) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == c.Type }) {
			out = append(out, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	return out
}

// stripNode reduces a cached Node to the fields that the controllers read.
func stripNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: kube.Identity(&node.ObjectMeta), Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable}}
	out.Labels, out.OwnerReferences, out.Finalizers = node.Labels, node.OwnerReferences, node.Finalizers
	return out
}

// ownedMetadata returns the keys of the labels and annotations that we wrote.
func ownedMetadata(entries []metav1.ManagedFieldsEntry) (labels, annotations map[string]bool, err error) {
	for i := range entries {
		if entries[i].Manager != fieldOwner || entries[i].FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]json.RawMessage `json:"f:labels"`
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entries[i].FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, nil, err
		}
		labels, annotations = addKeys(labels, fields.Metadata.Labels), addKeys(annotations, fields.Metadata.Annotations)
	}
	return labels, annotations, nil
}

func addKeys(keys map[string]bool, fields map[string]json.RawMessage) map[string]bool {
	for field := range fields {
		if key, ok := strings.CutPrefix(field, "f:"); ok {
			if keys == nil {
				keys = map[string]bool{}
			}
			keys[key] = true
		}
	}
	return keys
}

// withKeys returns a copy of m with the entries whose keys are in keys; nil if there are none.
func withKeys(m map[string]string, keys map[string]bool) map[string]string {
	var result map[string]string
	for k, v := range m {
		if keys[k] {
			if result == nil {
				result = map[string]string{}
			}
			result[k] = v
		}
	}
	return result
}
