package cli

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clitest"
)

// twoAdministrators: two administrators without shared access.
func (n networks) twoAdministrators() {
	t := n.T
	// Each has access to its own cluster, and sends files and text to the other.
	apply := func(s *side, manifest string, object client.Object) {
		t.Helper()
		if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
			t.Fatal(err)
		}
		clitest.Create(t, s, object)
	}
	manifest := func(s *side, command string) string {
		t.Helper()
		code, out, errOut := n.in(s, command)
		n.must(code, "", errOut)
		return out
	}
	apply(n.milan, manifest(n.rome, "generate configuration"), &networkingv1beta1.Configuration{})
	n.must(n.in(n.rome, "create configuration --remote-cluster-id milan --pod-cidr 10.2.0.0/16 --external-cidr 10.70.0.0/16 --wait"))
	said := n.must(n.in(n.milan, "create gatewayserver --remote-cluster-id rome --service-type NodePort --wait"))
	_, next, found := strings.Cut(said, "In cluster rome: liqoctl ")
	if !found {
		t.Fatalf("nothing to type in rome: %s", said)
	}
	line, _, _ := strings.Cut(next, "\n")
	n.must(n.in(n.rome, line))
	apply(n.rome, manifest(n.milan, "generate publickey --gateway-type server --gateway-name rome"), &networkingv1beta1.PublicKey{})
	apply(n.milan, manifest(n.rome, "generate publickey --gateway-type client --gateway-name milan -o json"), &networkingv1beta1.PublicKey{})
	n.must(n.in(n.rome, line+" --wait"))
	n.same("made by two administrators")
	// These are the objects that connect creates, so it has nothing to do.
	n.has(n.must(n.both("network connect --wait")), "GatewayServer rome in namespace liqo-tenant-rome exists already", "Connection is established")
	n.same("looked at by connect")
	for _, command := range []string{"delete gatewayclient milan", "delete publickey milan -n liqo-tenant-milan", "delete configuration milan"} {
		n.must(n.in(n.rome, command))
	}
	n.has(n.refused(n.in(n.rome, "delete gatewayclient milan")), "there is no gatewayclient milan in any namespace (known: none)")
	for _, command := range []string{"delete gws rome", "delete publickey rome", "delete config rome"} {
		n.must(n.in(n.milan, command))
	}
	n.rome.forget(t)
	n.milan.forget(t)
}

// completion: completion knows the names.
func (n networks) completion() {
	t := n.T
	n.rome.forget(t)
	n.milan.forget(t)
	n.must(n.both("network connect --gw-server-service-type NodePort"))
	if _, out, _ := run(t, "__complete", "delete", "gatewayclient", "--kubeconfig", n.rome.kubeconfig, "mi"); !strings.HasPrefix(out, "milan\n") {
		t.Errorf("completed to %q", out)
	}
	if _, out, _ := run(t, "__complete", "network", "connect", "--gw-server-service-type", "Node"); !strings.Contains(out, "NodePort\n") {
		t.Errorf("completed to %q", out)
	}
}
