package doors

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/peering/invite"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// exposureBudget is the limit for the story about load balancers, including the creation of the clusters.
const exposureBudget = 6 * time.Minute

// lowestNodePort is that of Kubernetes' default range.
const lowestNodePort = 30000

// elsewhere is the namespace in which rome is installed. Commands have to find it by themselves.
const elsewhere = "liqo-system"

// TestWithoutLoadBalancers runs its story on clusters in which no load balancer gets an address.
func TestWithoutLoadBalancers(t *testing.T) {
	none := []string{"--no-load-balancers"}
	w := story.New(t, story.Plan{
		Budget: exposureBudget, Prefix: "bare-", Pair: true, Strangers: true,
		Create:  map[string][]string{"rome": none, "milan": none},
		Install: map[string][]string{"milan": {"--service-type", "NodePort"}, "rome": {"--namespace", elsewhere, "--set", "networking.gatewayTemplates.server.service.loadBalancerTimeout=5s"}},
	})
	w.Tell(t, "nodeports", nodePorts)
}

// nodePorts: milan is installed with node ports, and rome with load balancers, which get no address within the timeout of 5 s. Both can be used with a peer
// command. A provider that was peered by it needs no other command to use its consumer.
func nodePorts(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	s.Step("rome uses milan by a node port, and invites it", func() {
		shell(s, rome, shell(s, milan, "liqoctl generate peer-command --only-command")+" --invite")
		exposed(s, milan, rome, corev1.ServiceTypeNodePort)
	})
	s.Step("milan uses rome too", func() { shell(s, milan, "liqoctl peer rome") })
	g := inviteGuests(s, rome, milan)
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
	g = inviteGuests(s, milan, rome)
	g.talk()
	g.leave()
	s.Step("milan leaves by itself", func() {
		shell(s, milan, "liqoctl unpeer rome --delete-namespaces")
		strangers(s, rome, milan)
	})
	s.Others("secrets "+api.Namespace+"/"+invite.KeySecret, "secrets "+elsewhere+"/"+invite.KeySecret)
}

// exposed checks the type of the Service of a provider's gateway, and that its consumer dials a node port.
func exposed(s *story.Story, provider, consumer *playground.Cluster, kind corev1.ServiceType) {
	s.Helper()
	gateway := &networkingv1beta1.GatewayServer{}
	s.Must(provider.Get(s.Context(), client.ObjectKey{Namespace: api.TenantNamespace(consumer.ID), Name: consumer.ID}, gateway))
	if at := gateway.Status.Endpoint; gateway.Spec.Endpoint.ServiceType != kind || at == nil || at.Port < lowestNodePort {
		s.Errorf("the gateway of %s is of type %s, and peers dial %+v", provider.ID, gateway.Spec.Endpoint.ServiceType, at)
	}
}
