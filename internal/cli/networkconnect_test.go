package cli

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/cli/session"
)

// connectAgain: once more changes nothing.
func (n networks) connectAgain() {
	n.has(n.must(n.both("network connect --gw-server-service-type NodePort --wait")), "GatewayServer rome in namespace liqo-tenant-rome exists already", "GatewayClient milan in namespace liqo-tenant-milan exists already")
	// Other defaults than it was made with are no wish to change it.
	n.must(n.both("network connect"))
	n.same("connected twice")
}

// connectFromTheOtherSide: from the other side it is the same tunnel.
func (n networks) connectFromTheOtherSide() {
	t := n.T
	code, _, errOut := run(t, "network", "connect", "--wait", "--kubeconfig", n.milan.kubeconfig, "--remote-kubeconfig", n.rome.kubeconfig)
	n.has(n.must(code, "", errOut), "exists already")
	n.same("connected from milan")
}

// connectCompletes: connect creates missing objects, and leaves existing ones.
func (n networks) connectCompletes() {
	t := n.T
	for _, object := range []client.Object{
		session.KindClient.Object("liqo-tenant-milan", "milan"), session.KindPublicKey.Object("liqo-tenant-rome", "rome"), session.KindConfiguration.Object("liqo-tenant-rome", "rome"),
	} {
		s := n.rome
		if object.GetNamespace() == "liqo-tenant-rome" {
			s = n.milan
		}
		if err := s.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	n.has(n.must(n.both("network connect --wait")), "GatewayClient milan in namespace liqo-tenant-milan correctly ensured", "GatewayServer rome in namespace liqo-tenant-rome exists already")
	n.same("completed")
}

// connectChanges: flags change what exists.
func (n networks) connectChanges() {
	n.has(n.must(n.both("network connect --mtu 1200 --gw-client-address 198.51.100.1 --gw-client-port 4000")), "spec.mtu is 1200, was 1340", "spec.endpoint.addresses is [198.51.100.1], was [192.0.2.2]",
		"spec.endpoint.port is 4000, was 51840")
	// A server that moved: the client is a choice of the user's by now.
	n.has(n.must(n.both("network connect --gw-server-service-port 51841")), "spec.endpoint.port is 51841, was 51840", "connects to 198.51.100.1:4000/UDP, but the address of the server is 192.0.2.2:51841/UDP",
		"--gw-client-address 192.0.2.2 --gw-client-port 51841")
	n.must(n.both("network connect --gw-server-service-port 51840 --mtu 1340"))
	n.must(n.both("network connect --gw-client-address 192.0.2.2 --gw-client-port 51840"))
	n.same("changed back")
}

// connectExplains: a tunnel that does not come up is explained.
func (n networks) connectExplains() {
	t := n.T
	n.rome.silent, n.milan.silent = true, true
	n.has(n.refused(n.both("network connect --gw-server-service-type NodePort --wait --timeout 4s")), "waiting for Connection gw-", "timed out (--timeout), last seen: it does not exist",
		"GatewayClient milan has no pod in namespace liqo-tenant-milan")
	if err := n.rome.Delete(t.Context(), session.KindPublicKey.Object("liqo-tenant-milan", "milan")); err != nil {
		t.Fatal(err)
	}
	n.has(n.refused(n.both("network connect --disable-sharing-keys --wait --timeout 4s")), "Cluster rome does not have the key of milan's gateway")
	n.rome.silent, n.milan.silent = false, false
	n.must(n.both("network connect --wait"))
}
