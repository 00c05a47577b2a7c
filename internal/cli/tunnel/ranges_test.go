package tunnel

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/test/clitest/fakecluster"
)

// TestPublicRangesNeedAnAdministrator: liqoctl creates no Configuration with public or huge ranges that only the peer reported, and names the cure. It marks those
// that it creates, so that the controllers check them as well. A Configuration of an administrator stays as it is.
func TestPublicRangesNeedAnAdministrator(t *testing.T) {
	for name, test := range map[string]struct{ pod, external, refused string }{
		"private":         {"10.20.0.0/16", "10.70.0.0/16", ""},
		"public pods":     {"8.8.8.0/24", "10.70.0.0/16", "range 8.8.8.0/24 is not private"},
		"public external": {"10.20.0.0/16", "192.0.2.0/24", "range 192.0.2.0/24 is not private"},
		"everything":      {"0.0.0.0/0", "10.70.0.0/16", "range 0.0.0.0/0 is not private"},
		"too much":        {"10.0.0.0/8", "172.16.0.0/16", "hold more than 2097152 addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			ranges := networkingv1beta1.CIDRs{Pod: []string{test.pod}, External: []string{test.external}}
			e := &End{Cluster: fakecluster.New("rome"), Peer: "milan", TenantNamespace: "liqo-tenant-milan"}
			_, err := e.ensureConfiguration(t.Context(), ranges)
			var list networkingv1beta1.ConfigurationList
			if listErr := e.List(t.Context(), &list, client.InNamespace(e.TenantNamespace)); listErr != nil {
				t.Fatal(listErr)
			}
			if test.refused == "" {
				if err != nil || len(list.Items) != 1 || !network.ReportedByPeer(&list.Items[0]) || networkingv1beta1.Negotiated(&list.Items[0]) {
					t.Errorf("%d Configurations, %v", len(list.Items), err)
				}
				return
			}
			if err == nil || len(list.Items) != 0 || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "liqoctl create configuration") {
				t.Errorf("%d Configurations, error %v", len(list.Items), err)
			}
			e = &End{Cluster: fakecluster.New("rome", Configuration("liqo-tenant-milan", "milan", "milan", ranges)), Peer: "milan", TenantNamespace: "liqo-tenant-milan"}
			if _, err := e.ensureConfiguration(t.Context(), ranges); err != nil {
				t.Errorf("what an administrator made: %v", err)
			}
		})
	}
}
