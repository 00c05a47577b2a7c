package controllers

import (
	"testing"
)

// TestTheLoadBalancerOfTheAPIServerIsAHost: no view of a peer holds the address at which the installation says that the API server is reached, which the endpoints of
// Service default/kubernetes do not name if it is that of a load balancer.
func TestTheLoadBalancerOfTheAPIServerIsAHost(t *testing.T) {
	for url, want := range map[string]string{
		"https://10.50.0.10:6443": "10.50.0.10", "https://10.50.0.10": "10.50.0.10", "https://rome.example.org:6443": "", "https://[fd00::1]:6443": "fd00::1", "": "", "https://%": "",
	} {
		got := ""
		for _, host := range loadBalancer(url) {
			got = host.Addr.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}
