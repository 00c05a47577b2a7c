// Package v1beta1 is version v1beta1 of the API group networking.liqo.io.
//
// +kubebuilder:object:generate=true
// +groupName=networking.liqo.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "networking.liqo.io", Version: "v1beta1"}

// SchemeBuilder collects the functions that add this package's kinds to a scheme.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Configuration{}, &ConfigurationList{},
		&Connection{}, &ConnectionList{},
		&GatewayServer{}, &GatewayServerList{},
		&GatewayClient{}, &GatewayClientList{},
		&PublicKey{}, &PublicKeyList{},
		&NetworkRequest{}, &NetworkRequestList{},
		&WgGatewayServerTemplate{}, &WgGatewayServerTemplateList{},
		&WgGatewayClientTemplate{}, &WgGatewayClientTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
