package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cli/session"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/offload"
)

// heldBy returns a cluster that is not selected but still has the remote namespace; empty if there is none.
func heldBy(object *offloadingv1beta1.NamespaceOffloading) string {
	for _, id := range slices.Sorted(maps.Keys(object.Status.RemoteNamespacesConditions)) {
		conditions := object.Status.RemoteNamespacesConditions[id]
		exists := slices.ContainsFunc(conditions, func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
			return c.Type == offloadingv1beta1.RemoteNamespaceReady
		})
		if exists && !offload.Required(conditions) {
			return id
		}
	}
	return ""
}

// keepDataAgain removes the annotation that permits the deletion of volumes with data. The user set it for the clusters that the selector no longer
// selects, so it must not apply to later changes.
func keepDataAgain(ctx context.Context, c *session.Cluster, object *offloadingv1beta1.NamespaceOffloading) error {
	before := object.DeepCopy()
	delete(object.Annotations, api.AnnotationDeleteVolumes)
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return c.Err(fmt.Errorf("removing annotation %s of %s: %w", api.AnnotationDeleteVolumes, c.Name(object), err))
	}
	return nil
}

// stricter reports whether the new strategy may forbid existing pods to run where they are.
func stricter(before, after offloadingv1beta1.PodOffloadingStrategy) bool {
	return before != "" && before != after && after != offloadingv1beta1.PodsLocalAndRemote
}

// OffloadNamespace creates or changes the NamespaceOffloading of a namespace, and waits until its remote namespaces are as it says.
func OffloadNamespace(ctx context.Context, c *session.Cluster, namespace string, fill func(*offloadingv1beta1.NamespaceOffloading)) error {
	step := c.Start("Offloading namespace %s", namespace)
	defer step.End()
	object := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName},
	}
	var before offloadingv1beta1.PodOffloadingStrategy
	_, err := c.Ensure(ctx, object, func() error {
		before = object.Spec.PodOffloadingStrategy
		fill(object)
		if c.DeleteVolumes && object.ResourceVersion != "" {
			kube.AddAnnotations(object, map[string]string{api.AnnotationDeleteVolumes: api.True})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if stricter(before, object.Spec.PodOffloadingStrategy) {
		c.Warn("Namespace %s: the pod offloading strategy becomes stricter (%s, was %s); existing pods are not moved",
			namespace, object.Spec.PodOffloadingStrategy, before)
	}
	c.Did("Offloading of namespace %s correctly enabled", namespace)
	none := false
	err = c.WaitFor(ctx, step, object, func() session.Verdict {
		if object.Status.ObservedGeneration < object.Generation {
			return session.NotYet("the controller manager has not reconciled it yet")
		}
		if id := heldBy(object); c.DeleteVolumes && id != "" {
			return session.NotYet("cluster %s still has the remote namespace", id)
		}
		switch object.Status.OffloadingPhase {
		case offloadingv1beta1.PhaseReady:
			return session.Yes()
		case offloadingv1beta1.PhaseNoClusterSelected:
			none = true
			return session.Yes()
		default:
			return session.NotYet("phase %s%s", cmp.Or(string(object.Status.OffloadingPhase), "unknown"), offload.NotReady(object))
		}
	})
	if err != nil && object.Annotations[api.AnnotationDeleteVolumes] == api.True && c.DeleteVolumes {
		return errors.Join(err, fmt.Errorf("annotation %[1]s=%[2]s stays on NamespaceOffloading %[3]s in namespace %[4]s: volumes in all providers may be deleted; "+
			"run the same command again to finish, or remove the annotation: kubectl annotate namespaceoffloading %[3]s -n %[4]s %[1]s-",
			api.AnnotationDeleteVolumes, api.True, object.Name, namespace))
	}
	if err != nil {
		return err
	}
	if object.Annotations[api.AnnotationDeleteVolumes] == api.True && c.DeleteVolumes {
		if err := keepDataAgain(ctx, c, object); err != nil {
			return err
		}
	}
	if none {
		step.End()
		c.Warn("No provider is selected for namespace %s: no virtual node matches, or this cluster has no peer yet", namespace)
		return nil
	}
	step.Done("Offloading of namespace %s correctly completed", namespace)
	return nil
}
