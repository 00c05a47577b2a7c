package cli

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestTypeOfNewGateways: a flag decides, then the installation, then LoadBalancer. A node port or an address of a load balancer chooses a type that has it.
func TestTypeOfNewGateways(t *testing.T) {
	for name, test := range map[string]struct {
		flags     serverFlags
		installed corev1.ServiceType
		want      corev1.ServiceType
	}{
		"nothing is chosen":          {want: corev1.ServiceTypeLoadBalancer},
		"the installation":           {installed: corev1.ServiceTypeNodePort, want: corev1.ServiceTypeNodePort},
		"a flag":                     {serverFlags{serviceType: "LoadBalancer"}, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		"an address":                 {serverFlags{loadBalancerIP: "192.0.2.1"}, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		"a node port":                {serverFlags{nodePort: 30840}, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort},
		"a node port, and balancers": {serverFlags{nodePort: 30840}, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer},
	} {
		template := &networkingv1beta1.WgGatewayServerTemplate{Spec: networkingv1beta1.GatewayTemplateSpec{ServiceType: test.installed}}
		if got := test.flags.typeOf(template); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
