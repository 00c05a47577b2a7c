package doors

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// exposureBudget is for the story about load balancers, clusters included.
const exposureBudget = 6 * time.Minute

// lowestNodePort is that of Kubernetes' default range.
const lowestNodePort = 30000

// elsewhere is where rome is installed. No command is told.
const elsewhere = "liqo-system"

// TestWithoutLoadBalancers tells its story on clusters in which no load balancer gets an address.
func TestWithoutLoadBalancers(t *testing.T) {
	none := []string{"--no-load-balancers"}
	w := story.New(t, story.Plan{
		Budget: exposureBudget, Prefix: "bare-", Pair: true, Strangers: true,
		Create:  map[string][]string{"rome": none, "milan": none},
		Install: map[string][]string{"milan": {"--service-type", "NodePort"}, "rome": {"--namespace", elsewhere, "--set", "networking.gatewayTemplates.server.service.loadBalancerTimeout=5s"}},
	})
	w.Tell(t, "nodeports", nodePorts)
}

// nodePorts: milan was installed for node ports, and rome for load balancers, which never come, and for which it waits 5 seconds. Both can be used by a line of text. A provider that
// was invited by it needs no other line to use its consumer.
func nodePorts(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	s.Step("rome uses milan by a node port, and invites it", func() {
		shell(s, rome, shell(s, milan, "liqoctl generate peer-command --only-command")+" --invite")
		exposed(s, milan, rome, corev1.ServiceTypeNodePort)
	})
	s.Step("milan uses rome too", func() { shell(s, milan, "liqoctl peer rome") })
	g := invite(s, rome, milan)
	g.talk()
	g.leave()
	s.Step("each leaves by itself", func() {
		shell(s, milan, "liqoctl unpeer rome")
		shell(s, rome, "liqoctl unpeer milan --delete-namespaces")
		strangers(s, rome, milan)
	})
	s.Step("milan uses rome, whose load balancer never comes", func() {
		shell(s, milan, shell(s, rome, "liqoctl generate peer-command --only-command"))
		exposed(s, rome, milan, corev1.ServiceTypeLoadBalancer)
	})
	g = invite(s, milan, rome)
	g.talk()
	g.leave()
	s.Step("milan leaves by itself", func() {
		shell(s, milan, "liqoctl unpeer rome --delete-namespaces")
		strangers(s, rome, milan)
	})
	s.Others("secrets "+api.Namespace+"/"+peering.DoorSecret, "secrets "+elsewhere+"/"+peering.DoorSecret)
}

// exposed checks the type of the Service of a provider's gateway, and that its consumer was told a node port.
func exposed(s *story.Story, provider, consumer *playground.Cluster, kind corev1.ServiceType) {
	s.Helper()
	gateway := &networkingv1beta1.GatewayServer{}
	s.Must(provider.Get(s.Context(), client.ObjectKey{Namespace: api.TenantNamespace(consumer.ID), Name: consumer.ID}, gateway))
	if at := gateway.Status.Endpoint; gateway.Spec.Endpoint.ServiceType != kind || at == nil || at.Port < lowestNodePort {
		s.Errorf("the gateway of %s is of type %s, and peers dial %+v", provider.ID, gateway.Spec.Endpoint.ServiceType, at)
	}
}
