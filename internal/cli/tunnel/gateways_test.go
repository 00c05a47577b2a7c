package tunnel

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestTypeOfNewGateways: a flag decides, then the installation, then LoadBalancer. A node port or an address of a load balancer chooses a type that
// has it.
func TestTypeOfNewGateways(t *testing.T) {
	for name, test := range map[string]struct {
		flags     ServerFlags
		installed corev1.ServiceType
		want      corev1.ServiceType
	}{
		"nothing is chosen":          {want: corev1.ServiceTypeLoadBalancer},
		"the installation":           {installed: corev1.ServiceTypeNodePort, want: corev1.ServiceTypeNodePort},
		"a flag":                     {ServerFlags{ServiceType: "LoadBalancer"}, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		"an address":                 {ServerFlags{LoadBalancerIP: "192.0.2.1"}, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		"a node port":                {ServerFlags{NodePort: 30840}, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort},
		"a node port, and balancers": {ServerFlags{NodePort: 30840}, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer},
	} {
		template := &networkingv1beta1.WgGatewayServerTemplate{Spec: networkingv1beta1.GatewayTemplateSpec{ServiceType: test.installed}}
		if got := test.flags.TypeOf(template); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
