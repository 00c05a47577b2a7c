package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// matrix: pods, nodes and Services of all clusters reach each other, and are seen under the expected addresses. Addresses that are not exposed cannot be
// reached.
func matrix(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	p := gather(s, "home", "milan", "naples")
	hosts := p.hosts()

	s.Step("pods reach pods by address, hub and spokes, both ways", func() {
		for _, group := range p.groups {
			p.reachesAll(p.inside(group, 0), cluster(s, group), false)
			p.reachesAll(p.inside(group, 1), cluster(s, group), false)
		}
	})
	s.Step("nodes and pods in the host network reach pods", func() {
		for _, c := range p.Clusters() {
			p.reachesAll(hosts[c.Worker(1)], c, true)
			p.reachesAll(hosts[c.Worker(2)], c, true)
		}
	})
	s.Step("pods reach services by name", func() {
		for _, from := range p.groups {
			for _, to := range p.groups {
				p.reachesService(p.inside(from, 0), to+":"+webPort, to)
			}
		}
	})
	s.Step("node ports of rome lead to pods in milan and naples", func() {
		for _, to := range []string{"milan", "naples"} {
			var service corev1.Service
			s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: p.ns, Name: to}, &service))
			port := fmt.Sprint(service.Spec.Ports[0].NodePort)
			for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
				address := net.JoinHostPort(s.NodeAddress(rome, node).String(), port)
				p.reachesService(p.inside("home", 0), address, to)
				p.reachesService(hosts[rome.Worker(2)], address, to)
				p.reachesService(hosts[milan.Worker(2)], address, to) // a client outside of rome
			}
		}
	})
	s.Step("node ports of a provider lead to pods in rome and in the other provider", func() {
		for _, test := range []struct {
			of, other *playground.Cluster
			groups    []string
		}{{milan, naples, []string{"home", "naples"}}, {naples, milan, []string{"home", "milan"}}} {
			for _, to := range test.groups {
				var service corev1.Service
				s.Must(test.of.Get(s.Context(), client.ObjectKey{Namespace: p.namespace(test.of), Name: to}, &service))
				port := fmt.Sprint(service.Spec.Ports[0].NodePort)
				for _, node := range []string{test.of.Worker(1), test.of.Worker(2)} {
					address := net.JoinHostPort(s.NodeAddress(test.of, node).String(), port)
					p.reachesService(p.inside(test.of.ID, 0), address, to)
					p.reachesService(hosts[test.of.Worker(2)], address, to)
					p.reachesService(hosts[test.other.Worker(2)], address, to) // a client outside
				}
			}
		}
	})
	s.Step("of 200 requests to a node port or load balancer of a provider, for pods of the other provider, none hangs", func() { p.exposed(hosts) })
	s.Step("datagrams and long packets pass", func() {
		for _, to := range []string{"milan", "naples"} {
			p.datagrams(to)
			stream := p.stream(p.inside("home", 1), rome, to, p.pods(to)[1].Name, paced)
			s.Pause(2 * time.Second)
			p.flows(stream, time.Minute) // any stall may be the machine's; a path that drops long packets carries nothing
		}
	})
	s.Step("an outside host is reached through the IP object of a peer", func() {
		for _, c := range []*playground.Cluster{rome, milan} {
			ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "outside"}}
			ip.Spec.IP = s.NodeAddress(naples, naples.Worker(2)).String() // a server outside of the pod networks
			s.Must(c.Create(s.Context(), ip))
		}
		for _, test := range []struct {
			of, in *playground.Cluster
			from   string
		}{{rome, milan, "milan"}, {rome, naples, "naples"}, {milan, rome, "home"}} {
			address := s.View(test.in, test.of, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "outside"})
			answers := p.asks(p.inside(test.from, 0), net.JoinHostPort(address.String(), "8888"))
			if answers[0].Cluster != "naples" {
				s.Errorf("%+v, want the node of naples", answers[0])
			}
		}
		for _, c := range []*playground.Cluster{rome, milan} {
			ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "outside"}}
			s.Must(c.Delete(s.Context(), ip))
			s.Gone(c, ip, soon)
		}
	})
	s.Step("offloaded pods reach the API server at home, directly and through the proxy", func() {
		for _, group := range []string{"milan", "naples"} {
			p.ReachesAPI(p.inside(group, 0), cluster(s, group))
		}
	})
	s.Step("peers can answer nodes, and not call them", func() {
		for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
			address := s.View(milan, rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPNodePrefix + node})
			var service corev1.Service
			s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: p.ns, Name: "home"}, &service))
			p.refused(p.inside("milan", 0), net.JoinHostPort(address.String(), "8888"), net.JoinHostPort(address.String(), fmt.Sprint(service.Spec.Ports[0].NodePort)))
		}
	})
	p.removeHosts()
}

// datagrams checks that a pod of rome gets answers to datagrams to a pod of another cluster. UDP promises no delivery: gateways of a busy machine replace sessions,
// and sockets of busy receivers overflow. So a few may be lost. What happens to each packet is proved in network namespaces.
func (p *people) datagrams(to string) {
	p.Helper()
	target := net.JoinHostPort(p.seen(p.Rome, to)[p.pods(to)[0].Name].String(), streamPort)
	trips, err := p.inside("home", 0).RoundTrips(p.Context(), "udp", target, 200)
	p.Must(err)
	if trips.P99 > 1e6 {
		p.Errorf("the answers to datagrams from rome to %s took %.0f us at the 99th percentile", to, trips.P99)
	}
	if trips.Lost > trips.Sent/20 {
		p.Fatalf("%d of %d datagrams from rome to %s were lost. What the gateways say about their states:\n%s",
			trips.Lost, trips.Sent, to, strings.Join(elections(p.Story, p.Rome, cluster(p.Story, to)), "\n"))
	}
}

// reachesAll checks that a pod or node of a cluster reaches every pod at its address in this cluster. The other cluster must see it under a known address: a
// pod under its own address or view, a node under an external address of its cluster.
func (p *people) reachesAll(from playground.Inside, c *playground.Cluster, node bool) {
	p.Helper()
	var authorities, names []string
	targets := p.everyone(c)
	if node { // nodes of one provider are unknown to the other provider, because only the pods are exposed by the hub
		for _, group := range p.groups {
			if there := cluster(p.Story, group); c != p.Rome && there != p.Rome && there != c {
				for name := range p.seen(c, group) {
					delete(targets, name)
				}
			}
		}
	}
	for name, address := range targets {
		names = append(names, name)
		authorities = append(authorities, net.JoinHostPort(address.String(), webPort))
	}
	for i, answer := range p.asks(from, authorities...) {
		if answer.Pod != names[i] {
			p.Errorf("%s of %s asks %s for pod %s, and %s answers", from.Name, c.ID, answer.URL, names[i], answer.Pod)
		}
		remote := netip.MustParseAddrPort(answer.Remote).Addr()
		there := p.byID(answer.Cluster)
		switch {
		case node && there == c: // traffic within a cluster is the task of the cluster's own network
		case node:
			if view := p.External(there, c); !view.View.Contains(remote) {
				p.Errorf("pod %s sees node %s of %s as %s, want an address of %s", answer.Pod, from.Name, c.ID, remote, view.View)
			}
		default:
			if want := p.everyone(there)[from.Name]; remote != want {
				p.Errorf("pod %s of %s sees pod %s of %s as %s, its cluster knows it as %s", answer.Pod, there.ID, from.Name, c.ID, remote, want)
			}
		}
	}
}

// reachesService checks that only pods of a group answer at an address, and that each of them does. Kubernetes chooses the pod of each connection at random.
// Twelve connections all reach the same one of two pods once in 2,048 times, and the story tests some 45 addresses. So it sends more requests until each pod
// has answered.
func (p *people) reachesService(from playground.Inside, authority, group string) {
	p.Helper()
	const often, most = 12, 5
	pods := story.Names(p.pods(group))
	seen := map[string]int{}
	asked, slow := 0, 0
	for ; asked < most; asked++ {
		late := 0
		for _, answer := range p.asks(from, slices.Repeat([]string{authority}, often)...) {
			seen[answer.Pod]++
			if answer.Milliseconds > 950 { // TCP retransmits the first packet after a second
				late++
			}
		}
		if late > often/2 {
			slow++
		}
		// A machine that stalls for a second delays all twelve connections once. Lost packets delay most connections in each attempt.
		decided := slow == 0 || asked >= 2
		if decided && !slices.ContainsFunc(pods, func(name string) bool { return seen[name] == 0 }) {
			asked++
			break
		}
	}
	if slow > asked/2 {
		p.Errorf("%d of %d times, most of %d connections from %s to %s took a second: their first packets are lost", slow, asked, often, from.Name, authority)
	}
	for _, name := range pods {
		if seen[name] == 0 {
			p.Errorf("%s asked %s %d times, and pod %s of %s never answered, only %v", from.Name, authority, asked*often, name, group, seen)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		p.Errorf("%s asked %s and was answered by %v, which are not of %s", from.Name, authority, seen, group)
	}
}

// exposed sends requests to the node ports and the load balancer of a provider whose endpoints run in the other provider. It sends them from a pod and a node
// of the provider, and from a node outside. Every request must be answered by a pod of the right group.
func (p *people) exposed(hosts map[string]playground.Inside) {
	p.Helper()
	const often = 34 // from each of three places in two providers: 204 requests
	groups := map[*playground.Cluster]string{p.Milan: "naples", p.Naples: "milan"}
	for _, group := range groups {
		p.Must(p.Rome.Create(p.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "public-" + group},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": group}, Ports: []corev1.ServicePort{{Name: "web", Port: 8080}},
			},
		}))
	}
	sent, hung := 0, 0
	slowest := 0.0
	for provider, group := range groups {
		authorities := p.exposures(provider, "public-"+group)
		p.endpoints(provider, "public-"+group, group)
		names := story.Names(p.pods(group))
		other := cluster(p.Story, group)
		for _, from := range []playground.Inside{p.inside(provider.ID, 0), hosts[provider.Worker(2)], hosts[other.Worker(2)]} {
			p.asks(from, authorities...) // repeated until the nodes of the provider have the rules of the new Service
			var targets []string
			for i := range often {
				targets = append(targets, authorities[i%len(authorities)])
			}
			answers, err := from.WhoAmI(p.Context(), 3*time.Second, targets...)
			p.Must(err)
			for _, answer := range answers {
				sent++
				slowest = max(slowest, answer.Milliseconds)
				switch {
				case answer.Error != "":
					hung++
					p.Errorf("%s asks %s of %s for pods in %s: %s", from.Name, answer.URL, provider.ID, other.ID, answer.Error)
				case !slices.Contains(names, answer.Pod):
					p.Errorf("%s asks %s of %s, and %s of %s answers, want one of %v", from.Name, answer.URL, provider.ID, answer.Pod, answer.Cluster, names)
				}
			}
		}
	}
	fmt.Printf("             %d requests, %d without an answer, the slowest took %.0f ms\n", sent, hung, slowest)
	if sent < 200 {
		p.Errorf("only %d requests were sent", sent)
	}
	for provider, group := range groups {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "public-" + group}}
		p.Must(client.IgnoreNotFound(p.Rome.Delete(p.Context(), service)))
		p.Gone(provider, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace(provider), Name: service.Name}}, soon)
	}
}

// exposures waits until the Service of a provider has the address of a load balancer, and returns that and the node ports of both nodes, as HOST:PORT.
func (p *people) exposures(c *playground.Cluster, name string) []string {
	p.Helper()
	var authorities []string
	p.Eventually(soon, fmt.Sprintf("Service %s of %s to have an address", name, c.ID), func(ctx context.Context) error {
		var service corev1.Service
		if err := c.Get(ctx, client.ObjectKey{Namespace: p.namespace(c), Name: name}, &service); err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("status %+v", service.Status)
		}
		authorities = []string{net.JoinHostPort(service.Status.LoadBalancer.Ingress[0].IP, webPort)}
		for _, node := range []string{c.Worker(1), c.Worker(2)} {
			authorities = append(authorities, net.JoinHostPort(p.NodeAddress(c, node).String(), fmt.Sprint(service.Spec.Ports[0].NodePort)))
		}
		return nil
	})
	return authorities
}

func (p *people) byID(id string) *playground.Cluster {
	all := p.Clusters()
	return all[slices.IndexFunc(all, func(c *playground.Cluster) bool { return c.ID == id })]
}
