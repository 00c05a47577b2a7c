package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peering/sharing"
	"liqo.io/liqo/internal/reasons"
)

// newStock returns a cache of this cluster's Nodes and Pods, which is not started. It keeps only the fields that shares depend on: the allocatable
// resources of a Node and whether it accepts pods, and the resource usage of a Pod. Pods that are not scheduled or have finished are left out.
func newStock(mgr ctrl.Manager) (cache.Cache, error) {
	stock, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Transform: kube.Reduced(stripNode)},
			&corev1.Pod{}: {Transform: kube.Reduced(stripPod), Field: fields.AndSelectors(
				fields.OneTermNotEqualSelector("spec.nodeName", ""),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
			)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache of nodes and pods: %w", err)
	}
	return stock, nil
}

// stripPod reduces a Pod to its resource usage, its node, and the labels that identify its owner. It writes the usage to spec.overhead,
// because PodUse counts that and the result has no containers.
func stripPod(pod *corev1.Pod) *corev1.Pod {
	use := sharing.PodUse(pod)
	delete(use, corev1.ResourcePods)
	out := &corev1.Pod{ObjectMeta: kube.Identity(&pod.ObjectMeta), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	if len(use) > 0 {
		out.Spec.Overhead = use
	}
	kube.KeepLabels(&out.ObjectMeta, pod.Labels, offloadingv1beta1.LabelManagedBy, offloadingv1beta1.LabelCreatorUser)
	return out
}

// stripNode reduces a Node to its allocatable resources, its platform, and the fields that determine whether it accepts pods.
func stripNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: kube.Identity(&node.ObjectMeta),
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		Status:     corev1.NodeStatus{Allocatable: node.Status.Allocatable},
	}
	kube.KeepLabels(&out.ObjectMeta, node.Labels, api.LabelType, corev1.LabelArchStable, corev1.LabelOSStable)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return out
}

// offers sets the status of ResourceOffers: whether their cluster is a consumer of this one.
type offers struct{ providerSide }

// +kubebuilder:rbac:groups=sharing.liqo.io,resources=resourceoffers,verbs=get;list;watch
// +kubebuilder:rbac:groups=sharing.liqo.io,resources=resourceoffers/status,verbs=patch

func (r *offers) setup(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return kube.Requests(ctx, r.client, &sharingv1alpha1.ResourceOfferList{})
	})
	return kube.NewController(mgr, "resource-offer").
		For(&sharingv1alpha1.ResourceOffer{}).
		Watches(&authv1beta1.Tenant{}, all).
		Complete(&kube.Reconciler[*sharingv1alpha1.ResourceOffer]{
			Name: "resource offer", Client: r.client, Sync: r.sync,
			Conditions: func(o *sharingv1alpha1.ResourceOffer) *[]metav1.Condition { return &o.Status.Conditions },
		})
}

func (r *offers) sync(ctx context.Context, offer *sharingv1alpha1.ResourceOffer) error {
	list := &authv1beta1.TenantList{}
	if err := r.client.List(ctx, list); err != nil {
		return fmt.Errorf("listing Tenants: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.ClusterID == offer.Spec.ClusterID {
			return nil
		}
	}
	return kube.Wait(reasons.TenantNotFound, "cluster %q is not a consumer of this cluster yet: set spec.clusterId to the cluster ID of a Tenant", offer.Spec.ClusterID)
}
