package reflection

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/offload"
	"liqo.io/liqo/internal/offload/kinds/podrules"
)

// PodKind is the Kind.Name of Pods.
const PodKind = "Pod"

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch

// Pods returns the Kind that reflects the pods of a virtual node as ShadowPods, and the status of the resulting remote Pods back to this cluster.
// options is called at every decision, since its values may change. The node name and the two cluster IDs must not change.
func Pods(workers int, options func() podrules.Options) Kind {
	o := options()
	ours := labels.Set{api.LabelOrigin: o.Origin, offloadingv1beta1.LabelNodeName: o.Node}
	pods := labels.Set{api.LabelOrigin: o.Origin, offloadingv1beta1.LabelNodeName: o.Node, offloadingv1beta1.LabelManagedBy: offloadingv1beta1.ManagedByShadowPod}
	return Kind{
		Name:            PodKind,
		Workers:         workers,
		TracksFirstSeen: true,
		Revoked:         true,
		Local: Resource{
			Object: &corev1.Pod{},
			Fields: fields.OneTermEqualSelector("spec.nodeName", o.Node).String(),
			Matches: func(obj client.Object) bool {
				pod, ok := obj.(*corev1.Pod)
				return ok && pod.Spec.NodeName == o.Node
			},
			Strip: stripLocalPod,
		},
		Remote: []Resource{
			// Labels restricts only the watch. A read by name also returns a ShadowPod of another creator, so that Next sees that the name is in use.
			{Object: &offloadingv1beta1.ShadowPod{}, Labels: ours.String(), Strip: stripShadowPod, Counted: PodKind},
			{Object: &corev1.Pod{}, Labels: pods.String(), Strip: stripRemotePod, Matches: func(obj client.Object) bool {
				return labels.SelectorFromSet(pods).Matches(labels.Set(obj.GetLabels()))
			}},
			// A read by name also returns a Secret without the token labels.
			{Object: &corev1.Secret{}, Labels: ours.String() + "," + podrules.LabelServiceAccount, Counted: "ServiceAccount", Strip: stripTokens, Name: podrules.TokenSecret, Former: podrules.FormerTokenSecret, LocalNameOf: podrules.PodOfTokens},
		},
		BeforeWrite: func(ctx context.Context, here client.Client, local, obj client.Object, now time.Time) error {
			return fillTokens(ctx, here, local, obj, options(), now)
		},
		Next: func(f Facts) offload.Step {
			local, _ := f.Local.(*corev1.Pod)
			shadow, _ := f.Remote[0].(*offloadingv1beta1.ShadowPod)
			pod, _ := f.Remote[1].(*corev1.Pod)
			secret, _ := f.Remote[2].(*corev1.Secret)
			env := offload.Env{Mapping: f.Mapping, RemoteSynced: f.RemoteSynced, RefusedSince: f.RefusedSince, Drained: f.Drained, Since: f.Since, Now: f.Now, LeftOut: f.LeftOut, Refusals: f.Refusals, Pod: options()}
			step, due, found := offload.NextToken(local, shadow, secret, env)
			if found {
				return step
			}
			step = offload.Next(local, shadow, pod, env)
			if due > 0 && step.Action == offload.Nothing && (step.After == 0 || due < step.After) {
				step.After = due
			}
			return step
		},
		Refused: func(obj client.Object, action offload.Action, message string) (offload.Step, bool) {
			local, ok := obj.(*corev1.Pod)
			switch {
			case !ok:
				return offload.Step{}, false
			case action == offload.CreateRemote && !podrules.Offloaded(local):
				return offload.Refuse(local, message), true
			default: // the remote pod continues unchanged
				return offload.Step{Why: message, Warning: message}, true
			}
		},
	}
}

// stripLocalPod reduces an offloaded Pod to the fields that its status depends on, the fields that show a change of its specification, and the claims that it
// mounts. A Pod that is not offloaded yet keeps its whole spec.
func stripLocalPod(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !podrules.Offloaded(pod) {
		return
	}
	spec := corev1.PodSpec{
		NodeName: pod.Spec.NodeName, RestartPolicy: pod.Spec.RestartPolicy, ReadinessGates: pod.Spec.ReadinessGates,
		ServiceAccountName: pod.Spec.ServiceAccountName, Volumes: podrules.CachedVolumes(pod.Spec.Volumes),
		ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
	}
	keep := func(c *corev1.Container) corev1.Container {
		return corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	for i := range pod.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, keep(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, keep(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.EphemeralContainer{}
		c.Name = pod.Spec.EphemeralContainers[i].Name
		spec.EphemeralContainers = append(spec.EphemeralContainers, c)
	}
	pod.Spec = spec
	pod.OwnerReferences = nil
}

// stripShadowPod drops the spec. It is never compared: an annotation reports whether it matches the Pod's spec.
func stripShadowPod(obj client.Object) {
	if shadow, ok := obj.(*offloadingv1beta1.ShadowPod); ok {
		shadow.Spec = offloadingv1beta1.ShadowPodSpec{}
	}
}

// stripRemotePod keeps the status, the times of creation and deletion, the annotation of readiness gates, and the metadata that identifies the Pod and its owner.
func stripRemotePod(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	var annotations map[string]string
	if gates := pod.Annotations[podrules.AnnotationGates]; gates != "" {
		annotations = map[string]string{podrules.AnnotationGates: gates}
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Annotations: annotations, Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
	}
	pod.Spec = corev1.PodSpec{}
}
