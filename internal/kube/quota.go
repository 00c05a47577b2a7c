package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodOverhead returns the overhead that the RuntimeClass of a pod defines, nil if none. A RuntimeClass that does not exist has none, because the pod
// can not be created anyway.
func PodOverhead(ctx context.Context, c client.Reader, spec *corev1.PodSpec) (corev1.ResourceList, error) {
	if spec.RuntimeClassName == nil || *spec.RuntimeClassName == "" {
		return nil, nil
	}
	class := &nodev1.RuntimeClass{}
	err := c.Get(ctx, client.ObjectKey{Name: *spec.RuntimeClassName}, class)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading RuntimeClass %s: %w", *spec.RuntimeClassName, err)
	}
	if err != nil || class.Overhead == nil {
		return nil, nil
	}
	return class.Overhead.PodFixed, nil
}

// CountQuota writes the usage of custom resources into a ResourceQuota whose status lacks it. The keys of lists are the resource
// names in the quota ("count/RESOURCE.GROUP").
//
// An API server rejects every object of a kind whose usage is unknown. The controller manager of Kubernetes counts the usage when
// a quota is created. It leaves out custom resources that it has not discovered yet, and counts again only after five minutes.
// Without CountQuota, a peering right after an installation would have to wait that long.
func CountQuota(ctx context.Context, c client.Client, quota *corev1.ResourceQuota, lists map[corev1.ResourceName]client.ObjectList) error {
	before := quota.DeepCopy()
	for name, list := range lists {
		hard, wanted := quota.Spec.Hard[name]
		_, limited := quota.Status.Hard[name]
		_, known := quota.Status.Used[name]
		if !wanted || known && limited {
			continue
		}
		if err := c.List(ctx, list, client.InNamespace(quota.Namespace)); err != nil {
			return fmt.Errorf("counting %s in namespace %s: %w", KindsOf(list), quota.Namespace, err)
		}
		if quota.Status.Hard == nil {
			quota.Status.Hard = corev1.ResourceList{}
		}
		if quota.Status.Used == nil {
			quota.Status.Used = corev1.ResourceList{}
		}
		quota.Status.Hard[name], quota.Status.Used[name] = hard, *resource.NewQuantity(int64(meta.LenList(list)), resource.DecimalSI)
	}
	if equality.Semantic.DeepEqual(before.Status, quota.Status) {
		return nil
	}
	// The optimistic lock prevents overwriting a usage that Kubernetes has counted meanwhile.
	if err := c.Status().Patch(ctx, quota, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the usage of %s: %w", describe(c, quota), err)
	}
	return nil
}
