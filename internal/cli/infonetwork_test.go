package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/kube"
)

func TestInfoShowsTheGivenRangesOnAPIServer(t *testing.T) {
	kubeconfig, c := server(t)
	external := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.NetworkExternal}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.70.0.0/16"},
	}
	internal := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: ipamv1alpha1.NetworkInternal}, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.80.0.0/16"},
	}
	create(t, c, external, internal)
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
