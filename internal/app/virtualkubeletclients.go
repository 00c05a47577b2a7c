package app

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// newClient returns a client without a cache. It lists the few kinds that a virtual kubelet uses, because the discovery of all
// kinds of an API server would take longer than the rest of the startup.
func newClient(cfg *rest.Config) (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	namespaced, root := meta.RESTScopeNamespace, meta.RESTScopeRoot
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		corev1.SchemeGroupVersion.WithKind("Pod"):                               namespaced,
		corev1.SchemeGroupVersion.WithKind("Event"):                             namespaced,
		corev1.SchemeGroupVersion.WithKind("Secret"):                            namespaced,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                         namespaced,
		corev1.SchemeGroupVersion.WithKind("Service"):                           namespaced,
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                    namespaced,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):             namespaced,
		corev1.SchemeGroupVersion.WithKind("PersistentVolume"):                  root,
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                   root,
		corev1.SchemeGroupVersion.WithKind("Node"):                              root,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                     namespaced,
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): root,
		authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):             root,
		authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"):      root,
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):                     namespaced,
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):               namespaced,
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):             namespaced,
		offloadingv1beta1.GroupVersion.WithKind("ShadowPod"):                    namespaced,
		offloadingv1beta1.GroupVersion.WithKind("ShadowEndpointSlice"):          namespaced,
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                namespaced,
		ipamv1alpha1.GroupVersion.WithKind("IP"):                                namespaced,
		ipamv1alpha1.GroupVersion.WithKind("Network"):                           namespaced,
		networkingv1beta1.GroupVersion.WithKind("Configuration"):                namespaced,
		offloadingv1beta1.GroupVersion.WithKind("NamespaceMap"):                 namespaced,
		offloadingv1beta1.GroupVersion.WithKind("VirtualNode"):                  namespaced,
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):                       namespaced,
		corev1beta1.GroupVersion.WithKind("ForeignCluster"):                     root,
	} {
		mapper.Add(gvk, scope)
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: kube.NewScheme(), Mapper: mapper})
}
