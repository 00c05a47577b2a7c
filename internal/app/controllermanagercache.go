package app

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	offloadcontrollers "liqo.io/liqo/internal/offload/controllers"
	offloadwebhook "liqo.io/liqo/internal/offload/webhook"
)

// controllerManagerCache returns options that limit the cache to what Liqo needs. Of most kinds of Kubernetes it holds only
// objects with labels of Liqo. It drops the managed fields of all objects.
func controllerManagerCache() cache.Options {
	byObject := offloadcontrollers.Cache()
	for object, restriction := range byObject {
		if _, ok := object.(*corev1.Node); ok {
			restriction.Transform = keepReadiness(restriction.Transform)
			byObject[object] = restriction
		}
	}
	byObject[&networkingv1.Ingress{}] = cache.ByObject{Transform: kube.Reduced(offloadwebhook.KeepHosts)}
	byObject[&corev1.Secret{}] = cache.ByObject{Label: kube.Selecting(api.LabelRemoteClusterID, selection.Exists)}
	// The cache holds the requests of this cluster and of virtual kubelets. It excludes the many requests of real kubelets for
	// client certificates.
	byObject[&certificatesv1.CertificateSigningRequest{}] = cache.ByObject{
		Field: fields.OneTermNotEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientKubeletSignerName),
	}
	return cache.Options{ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields()}
}

// keepReadiness extends a transformation of cached Nodes that would remove all conditions: it keeps condition Ready, because the peering controllers read
// it. It removes the heartbeat time of that condition, so that a heartbeat does not count as a change.
func keepReadiness(strip toolscache.TransformFunc) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		before, ok := obj.(*corev1.Node)
		if !ok || strip == nil {
			return obj, nil
		}
		out, err := strip(obj)
		after, ok := out.(*corev1.Node)
		if err != nil || !ok {
			return out, err
		}
		for _, condition := range before.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				condition.LastHeartbeatTime = metav1.Time{}
				after.Status.Conditions = []corev1.NodeCondition{condition}
			}
		}
		return after, nil
	}
}

// virtualKubeletPods returns a cache of the pods of virtual kubelets, reduced to their addresses. They need a separate cache,
// because the cache of the manager selects the pods of ShadowPods by another label.
func virtualKubeletPods(mgr ctrl.Manager) (cache.Cache, error) {
	return kube.NewCache(mgr, "virtual kubelets' pods", map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Label:     labels.SelectorFromSet(labels.Set{offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet}),
			Transform: kube.Reduced(keepAddresses),
		},
	})
}

// keepAddresses reduces a Pod to its name, labels and addresses.
func keepAddresses(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: kube.Identity(&pod.ObjectMeta), Status: corev1.PodStatus{PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs}}
	out.Labels = pod.Labels
	return out
}
