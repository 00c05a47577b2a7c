// Package kube is the input and output that knows no concern: a runner for reconcilers, four classes of errors that decide
// what happens next, writes that are skipped when they would change nothing, and the scheme of every kind we use.
//
// A reconciler built on Reconciler only thinks about its object: it reads facts, plans with the pure root of its concern and
// applies the plan. Fetching, finalizers, the single status write, the summary condition and the choice between retry, wait and
// give up are done here, once.
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

// NewScheme returns a scheme with Kubernetes' own kinds, CustomResourceDefinition and all of ours.
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
			panic(fmt.Sprintf("building the scheme: %v", err)) // two kinds under one name: a programming error
		}
	}
	return scheme
}
