package tunnel

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestViewOf: an address that a peer reports is mapped through one of its own ranges, or refused.
func TestViewOf(t *testing.T) {
	cidrs := func(pod, external string) networkingv1beta1.ClusterConfig {
		return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{pod}, External: []string{external}}}
	}
	of := func(change func(*networkingv1beta1.Configuration)) *networkingv1beta1.Configuration {
		view := cidrs("10.61.0.0/16", "10.71.0.0/16")
		c := &networkingv1beta1.Configuration{
			ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{api.LabelRemoteClusterID: "milan"}},
			Spec:       networkingv1beta1.ConfigurationSpec{Remote: cidrs("10.1.0.0/16", "10.70.0.0/16")}, Status: networkingv1beta1.ConfigurationStatus{Remote: &view},
		}
		change(c)
		return c
	}
	complete := of(func(*networkingv1beta1.Configuration) {})
	if got, err := ViewOf(complete, "10.70.0.5"); err != nil || got != netip.MustParseAddr("10.71.0.5") {
		t.Errorf("%v, %v", got, err)
	}
	for _, address := range []string{"", "x", "10.80.0.5", "127.0.0.1"} {
		if got, err := ViewOf(complete, address); err == nil {
			t.Errorf("%q: %v", address, got)
		}
	}
	for want, c := range map[string]*networkingv1beta1.Configuration{
		"status.remote is empty":                            of(func(c *networkingv1beta1.Configuration) { c.Status.Remote = nil }),
		"spec.remote.cidr.external is empty":                of(func(c *networkingv1beta1.Configuration) { c.Spec.Remote.CIDR.External = nil }),
		"does not fit the range to which it is mapped here": of(func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.External = []string{"10.71.0.0/24"} }),
	} {
		if got, err := ViewOf(c, "10.70.0.5"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
	}
}
