package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/test/clitest"
)

func TestInfoShowsTheGivenRangesOnAPIServer(t *testing.T) {
	t.Parallel()
	kubeconfig, c := server(t)
	external := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.NetworkExternal}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.70.0.0/16"},
	}
	internal := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.NetworkInternal}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.80.0.0/16"},
	}
	clitest.Create(t, c, external, internal)
	external.Status.CIDR = "10.71.0.0/16"
	internal.Status.Conditions = []metav1.Condition{{
		Type: kube.ConditionReady, Status: metav1.ConditionFalse, Reason: "Exhausted", Message: "nothing is free", LastTransitionTime: metav1.Now(),
	}}
	for _, network := range []*ipamv1alpha1.Network{external, internal} {
		if err := c.Status().Update(t.Context(), network); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{"network.externalCIDR": "10.71.0.0/16\n", "network.serviceCIDR": "10.3.0.0/16\n", "network.internalCIDR": "\n"} {
		if code, out, errOut := run(t, "info", "-g", query, "--kubeconfig", kubeconfig); code != 0 || out != want {
			t.Errorf("%s: code %d, %q%s", query, code, out, errOut)
		}
	}
	_, out, errOut := run(t, "info", "--kubeconfig", kubeconfig)
	for _, want := range []string{"10.71.0.0/16", "none: nothing is free"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%s", want, out, errOut)
		}
	}
}

// infoPeer: info peer.
func (n networks) infoPeer() {
	t := n.T
	foreign := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: "milan"}, Status: corev1beta1.ForeignClusterStatus{Role: corev1beta1.RoleUnknown}}
	clitest.Create(t, n.rome, foreign)
	for query, want := range map[string]string{
		"network.CIDRs.remote.external.0": "10.70.0.0/16\n", "network.CIDRs.remapped.external.0": "10.71.0.0/16\n", "network.CIDRs.remapped.pod.0": "10.2.0.0/16\n",
		"network.gateway.role": "Client\n", "network.gateway.address": "192.0.2.2\n", "network.gateway.port": "51840\n", "network.gateway.connection": "Connected\n",
	} {
		if _, out, errOut := n.in(n.rome, "info peer milan -g "+query); out != want {
			t.Errorf("%s: %q, want %q: %s", query, out, want, errOut)
		}
	}
	n.has(n.must(n.in(n.rome, "info peer milan")), "External CIDR: 10.70.0.0/16, seen here as 10.71.0.0/16", "Gateway: Client", "192.0.2.2, port 51840", "Connection: Connected")
	if err := n.rome.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
}
