// Package kube holds the access to Kubernetes that all concerns share: a generic reconciler, four classes of errors that decide
// between retry, wait and give up, writes that are skipped if nothing would change, and a scheme with all used kinds.
//
// The code on top of Reconciler only deals with its own object: it reads facts, computes a plan with the pure root package of its
// concern, and applies the plan. Reconciler does everything else: fetching, finalizers, the single status write, the summary
// condition, and the handling of errors.
package kube

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	sharingv1alpha1 "liqo.io/liqo/api/sharing/v1alpha1"
)

// NewScheme returns a scheme with the kinds of Kubernetes, CustomResourceDefinition, and all kinds of Liqo.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		corev1beta1.AddToScheme,
		authv1beta1.AddToScheme,
		networkingv1beta1.AddToScheme,
		ipamv1alpha1.AddToScheme,
		offloadingv1beta1.AddToScheme,
		sharingv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("building the scheme: %v", err)) // two types for the same kind: a programming error
		}
	}
	return scheme
}
