package facts

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Scheme returns a scheme with only the API groups that the agents of the network use. The agents run on every node, and each kind takes
// memory.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, ipamv1alpha1.AddToScheme, networkingv1beta1.AddToScheme,
		func(s *runtime.Scheme) error {
			metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
			return nil
		},
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("building the scheme of the network: %v", err)) // two types registered for one kind: a programming error
		}
	}
	return scheme
}

// Mapper returns a static REST mapper for these kinds. Discovery of all kinds of an API server takes longer than the rest of the start.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	namespaced, root := meta.RESTScopeNamespace, meta.RESTScopeRoot
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		corev1.SchemeGroupVersion.WithKind("Pod"):                namespaced,
		corev1.SchemeGroupVersion.WithKind("Secret"):             namespaced,
		corev1.SchemeGroupVersion.WithKind("Node"):               root,
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"):          namespaced,
		ipamv1alpha1.GroupVersion.WithKind("Network"):            namespaced,
		ipamv1alpha1.GroupVersion.WithKind("IP"):                 namespaced,
		networkingv1beta1.GroupVersion.WithKind("Configuration"): namespaced,
		networkingv1beta1.GroupVersion.WithKind("Connection"):    namespaced,
		networkingv1beta1.GroupVersion.WithKind("GatewayServer"): namespaced,
		networkingv1beta1.GroupVersion.WithKind("GatewayClient"): namespaced,
	} {
		mapper.Add(gvk, scope)
	}
	// The plural of PublicKey differs from the one that the mapper would derive.
	keys := networkingv1beta1.GroupVersion
	mapper.AddSpecific(keys.WithKind("PublicKey"), keys.WithResource("publickeies"), keys.WithResource("publickey"), namespaced)
	return mapper
}
