package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/install/installer"
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

// TestCommandsOutlastLoadBalancers: by default, a command that waits for the address of a gateway waits much longer than the gateway waits for its load balancer.
// Otherwise the command would fail where the gateway falls back to its node port.
func TestCommandsOutlastLoadBalancers(t *testing.T) {
	chart, err := installer.Chart("")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(chart.Values, "networking", "gatewayTemplates", "server", "service", "loadBalancerTimeout")
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	root := newApp(genericiooptions.NewTestIOStreamsDiscard()).command()
	for _, path := range []string{"network connect", "create gatewayserver", "peer", "peer in-band", "peer out-of-band"} {
		command, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		timeout, err := time.ParseDuration(command.Flag("timeout").DefValue)
		if err != nil || timeout < balancer+2*time.Minute {
			t.Errorf("%s waits for %s, and a load balancer may take %s: %v", path, timeout, balancer, err)
		}
	}
}
