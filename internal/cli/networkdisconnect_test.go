package cli

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/test/clitest"
)

// uninstallNamesTheNetwork: uninstall names the network.
func (n networks) uninstallNamesTheNetwork() {
	n.has(n.refused(n.in(n.rome, "uninstall --skip-confirm")), "connected to that of milan (GatewayClient milan in namespace liqo-tenant-milan): liqoctl network reset")
	n.has(n.refused(n.in(n.milan, "uninstall --skip-confirm")), "connected to that of rome (GatewayServer rome")
}

// disconnect: disconnect asks, and leaves the ranges.
func (n networks) disconnect() {
	t := n.T
	code, _, errOut := run(t, "network", "disconnect", "--kubeconfig", n.rome.kubeconfig, "--remote-kubeconfig", n.milan.kubeconfig)
	n.has(n.refused(code, "", errOut), "nothing was changed")
	n.has(n.must(n.both("network disconnect --dry-run")), "(local, dry run) GatewayClient milan in namespace liqo-tenant-milan would be deleted")
	n.same("asked")
	n.must(n.both("network disconnect --wait"))
	if left := n.rome.network(t); len(left) != 1 || len(n.milan.network(t)) != 1 {
		t.Errorf("left: %v and %v", left, n.milan.network(t))
	}
	n.rome.forget(t)
	n.milan.forget(t)
}

// reset: reset leaves nothing.
func (n networks) reset() {
	t := n.T
	n.must(n.both("network connect --gw-server-service-type NodePort --wait"))
	n.same("connected again")
	n.must(n.both("network reset --wait"))
	if left := n.rome.network(t); len(left)+len(n.milan.network(t)) != 0 {
		t.Errorf("left: %v and %v", left, n.milan.network(t))
	}
	n.has(n.must(n.both("network reset")), "nothing to delete")
	n.rome.forget(t)
	n.milan.forget(t)
}

// unpeerDisconnects: unpeer removes the network, unless the other direction uses it.
func (n networks) unpeerDisconnects() {
	t := n.T
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
		Spec:       authv1beta1.TenantSpec{ClusterID: "milan"},
	}
	clitest.Create(t, n.rome, tenant)
	n.has(n.must(n.both("unpeer")), "The network stays")
	n.same("used by the other direction")
	if err := n.rome.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	n.must(n.both("unpeer"))
	if left := n.rome.network(t); len(left)+len(n.milan.network(t)) != 0 {
		t.Errorf("left: %v and %v", left, n.milan.network(t))
	}
}
