package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// matrix: everybody reaches everybody, seen under the address that everybody else knows them by, and nobody reaches what is not meant
// for them.
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
				address := net.JoinHostPort(nodeAddress(s, rome, node).String(), port)
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
					address := net.JoinHostPort(nodeAddress(s, test.of, node).String(), port)
					p.reachesService(p.inside(test.of.ID, 0), address, to)
					p.reachesService(hosts[test.of.Worker(2)], address, to)
					p.reachesService(hosts[test.other.Worker(2)], address, to) // a client outside
				}
			}
		}
	})
	s.Step("datagrams and long packets pass", func() {
		for _, to := range []string{"milan", "naples"} {
			target := net.JoinHostPort(p.seen(rome, to)[p.pods(to)[0].Name].String(), streamPort)
			trips, err := p.inside("home", 0).RoundTrips(s.Context(), "udp", target, 200)
			s.Must(err)
			if trips.Lost > 0 {
				s.Errorf("%d of %d datagrams from rome to %s were lost", trips.Lost, trips.Sent, to)
			}
			stream := p.stream(p.inside("home", 1), rome, to, p.pods(to)[1].Name, 0)
			pause(s, time.Second)
			p.flows(stream, time.Second)
		}
	})
	s.Step("an outside host is reached through the IP object of a peer", func() {
		for _, c := range []*playground.Cluster{rome, milan} {
			ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "outside"}}
			ip.Spec.IP = nodeAddress(s, naples, naples.Worker(2)).String() // a server of no pod network
			s.Must(c.Create(s.Context(), ip))
		}
		for _, test := range []struct {
			of, in *playground.Cluster
			from   string
		}{{rome, milan, "milan"}, {rome, naples, "naples"}, {milan, rome, "home"}} {
			address := viewOf(s, test.in, test.of, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "outside"})
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
			p.reachesAPI(p.inside(group, 0), cluster(s, group))
		}
	})
	s.Step("peers can answer nodes, and not call them", func() {
		for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
			address := viewOf(s, milan, rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPNodePrefix + node})
			var service corev1.Service
			s.Must(rome.Get(s.Context(), client.ObjectKey{Namespace: p.ns, Name: "home"}, &service))
			p.refused(p.inside("milan", 0), net.JoinHostPort(address.String(), "8888"), net.JoinHostPort(address.String(), fmt.Sprint(service.Spec.Ports[0].NodePort)))
		}
	})
	p.removeHosts()
}

// reachesAll checks that a place in a cluster reaches every pod under the address that the cluster knows, and is seen under one that the
// other cluster knows: a pod under its own, a node under one of the external addresses of its cluster.
func (p *people) reachesAll(from playground.Inside, c *playground.Cluster, node bool) {
	p.Helper()
	var authorities, names []string
	targets := p.everyone(c)
	if node { // a spoke's nodes are not known to the other spoke: only its pods are, by the objects of the hub
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
		case node && there == c: // that is for the cluster's own network
		case node:
			if view := external(p.Story, there, c); !view.View.Contains(remote) {
				p.Errorf("pod %s sees node %s of %s as %s, want an address of %s", answer.Pod, from.Name, c.ID, remote, view.View)
			}
		default:
			if want := p.everyone(there)[from.Name]; remote != want {
				p.Errorf("pod %s of %s sees pod %s of %s as %s, its cluster knows it as %s", answer.Pod, there.ID, from.Name, c.ID, remote, want)
			}
		}
	}
}

// reachesService checks that only pods of a group answer under an address, and, asked often enough, more than one of them.
func (p *people) reachesService(from playground.Inside, authority, group string) {
	p.Helper()
	const often = 12
	seen := map[string]bool{}
	slow := 0
	for _, answer := range p.asks(from, slices.Repeat([]string{authority}, often)...) {
		seen[answer.Pod] = true
		if answer.Milliseconds > 950 { // TCP sends the first packet again after a second
			slow++
		}
	}
	if slow > often/2 {
		p.Errorf("%d of %d connections from %s to %s took a second: their first packets are lost", slow, often, from.Name, authority)
	}
	for _, name := range story.Names(p.pods(group)) {
		if !seen[name] {
			p.Errorf("%s asked %s %d times, and pod %s of %s never answered, only %v", from.Name, authority, often, name, group, seen)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		p.Errorf("%s asked %s and was answered by %v, which are not of %s", from.Name, authority, seen, group)
	}
}

func (p *people) byID(id string) *playground.Cluster {
	all := p.Clusters()
	return all[slices.IndexFunc(all, func(c *playground.Cluster) bool { return c.ID == id })]
}

// reachesAPI checks that a pod in a provider reaches the API server of rome, and proves it by its certificate.
func (p *people) reachesAPI(from playground.Inside, in *playground.Cluster) {
	p.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.Rome.Config.CAData) {
		p.Fatal("rome has no certificate authority")
	}
	server := viewOf(p.Story, in, p.Rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPAPIServer})
	proxy := viewOf(p.Story, in, p.Rome, client.ObjectKey{Namespace: api.Namespace, Name: ipamv1alpha1.IPAPIServerProxy})
	for _, test := range []struct {
		target string
		proxy  func(*http.Request) (*url.URL, error)
	}{
		{"https://" + net.JoinHostPort(server.String(), "443") + "/version", nil},
		{"https://kubernetes.default.svc/version", http.ProxyURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(proxy.String(), "8118")})},
	} {
		transport := &http.Transport{
			Proxy: test.proxy, DialContext: from.Dial, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "kubernetes.default.svc", MinVersion: tls.VersionTLS12},
		}
		p.Eventually(soon, fmt.Sprintf("%s in %s to reach %s", from.Name, in.ID, test.target), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, test.target, nil)
			if err != nil {
				return err
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err == nil && !strings.Contains(string(body), "gitVersion") {
				err = fmt.Errorf("%s: %s", response.Status, body)
			}
			return err
		})
	}
}

// nodeAddress is the InternalIP of a node.
func nodeAddress(s *story.Story, c *playground.Cluster, name string) netip.Addr {
	s.Helper()
	var node corev1.Node
	s.Must(c.Get(s.Context(), client.ObjectKey{Name: name}, &node))
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(address.Address)
		}
	}
	s.Fatalf("node %s has no InternalIP", name)
	return netip.Addr{}
}

// external is how a cluster sees the external CIDR of another one.
func external(s *story.Story, in, of *playground.Cluster) ipam.Remap {
	s.Helper()
	var list networkingv1beta1.ConfigurationList
	s.Must(in.List(s.Context(), &list, client.MatchingLabels{api.LabelRemoteClusterID: of.ID}))
	if len(list.Items) != 1 || list.Items[0].Status.Remote == nil {
		s.Fatalf("%s does not see %s: %+v", in.ID, of.ID, list.Items)
	}
	found := list.Items[0]
	return ipam.Remap{
		Real: netip.MustParsePrefix(found.Spec.Remote.CIDR.External[0]), View: netip.MustParsePrefix(found.Status.Remote.CIDR.External[0]),
	}
}

// viewOf waits until the IP object of a cluster has an address, and returns how another cluster sees it.
func viewOf(s *story.Story, in, of *playground.Cluster, key client.ObjectKey) netip.Addr {
	s.Helper()
	var ip ipamv1alpha1.IP
	s.Eventually(soon, fmt.Sprintf("IP %s of %s to have an address", key, of.ID), func(ctx context.Context) error {
		if err := of.Get(ctx, key, &ip); err != nil {
			return err
		}
		if ip.Status.IP == "" {
			return fmt.Errorf("conditions %+v", ip.Status.Conditions)
		}
		return nil
	})
	view, ok := external(s, in, of).ToView(netip.MustParseAddr(ip.Status.IP))
	if !ok {
		s.Fatalf("IP %s of %s has the address %s, outside of its external CIDR", key, of.ID, ip.Status.IP)
	}
	return view
}
