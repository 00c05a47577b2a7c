package network

import (
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// ours returns the objects of Liqo that are left on a node.
func ours(s *story.Story, node string) (left []string) {
	s.Helper()
	text, err := s.WiringOf(s.Context(), node)
	s.Must(err)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "liqo") || strings.Contains(line, "18952") || strings.Contains(line, "18953") || strings.Contains(line, "proto 189") {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left
}

// disconnect: the network between two clusters is removed completely, while the peering stays. Then it is connected again.
func disconnect(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	p := gather(s, "home", "naples")
	defer disperse(s)
	views := func(c *playground.Cluster, peer string) string {
		found, err := s.Liqoctl(s.Context(), "info", "peer", peer, "--kubeconfig", c.Kubeconfig, "--get", "network.CIDRs.remapped")
		s.Must(err)
		return found
	}
	seen := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+/\d+`).FindAllString(views(rome, "milan"), -1)
	if len(seen) < 2 {
		s.Fatalf("rome sees milan at %v", seen)
	}
	between := []string{"--kubeconfig", rome.Kubeconfig, "--remote-kubeconfig", milan.Kubeconfig, "--wait"}

	s.Step("reset the network between rome and milan", func() {
		_, err := s.Liqoctl(s.Context(), append([]string{"network", "reset"}, between...)...)
		s.Must(err)
	})
	s.Step("milan's nodes have nothing of ours, rome's nothing of milan", func() {
		s.Eventually(soon, "milan's nodes to be clean", func(context.Context) error {
			for number := 1; number <= 2; number++ {
				if left := ours(s, milan.Worker(number)); len(left) > 0 {
					return fmt.Errorf("node %s has\n%s", milan.Worker(number), strings.Join(left, "\n"))
				}
			}
			return nil
		})
		s.Eventually(soon, "rome's nodes to forget milan", func(context.Context) error {
			for number := 1; number <= 2; number++ {
				for _, line := range ours(s, rome.Worker(number)) {
					for _, view := range seen {
						if strings.Contains(line, view) {
							return fmt.Errorf("node %s has %s", rome.Worker(number), line)
						}
					}
				}
			}
			return nil
		})
		for _, side := range []struct {
			c    *playground.Cluster
			peer string
		}{{rome, "milan"}, {milan, "rome"}} {
			s.Eventually(soon, side.c.ID+" to have no gateway", func(ctx context.Context) error {
				pods, err := story.Gateways(ctx, side.c, side.peer)
				if err == nil && len(pods) > 0 {
					err = fmt.Errorf("it has %v", story.Names(pods))
				}
				return err
			})
		}
	})
	s.Step("rome and naples talk on", func() {
		p.reaches(p.inside("home", 0), rome, "naples")
		p.reaches(p.inside("naples", 0), naples, "home")
	})
	s.Step("connect again", func() {
		_, err := s.Liqoctl(s.Context(), append([]string{"network", "connect"}, between...)...)
		s.Must(err)
		standing(s, rome, "milan")
		standing(s, milan, "rome")
		s.NodeReady("milan", true, time.Minute)
		// A recreated gateway has an identity and keys of its own.
		for _, side := range []struct {
			c    *playground.Cluster
			peer string
		}{{rome, "milan"}, {milan, "rome"}} {
			tenant := api.TenantNamespace(side.peer)
			s.Renewed(side.c, " "+tenant+"/gw-"+side.peer, "publickeies "+tenant+"/", "clusterrolebindings liqo-gateway-"+tenant+"-")
		}
	})
}

// leave: after the uninstallation, the nodes have the same network configuration as before the installation.
func leave(s *story.Story, before map[string]string) {
	disperse(s) // in case the story that calls disperse did not run
	s.Step("unpeer, and uninstall --purge", func() {
		for _, provider := range []*playground.Cluster{s.Milan, s.Naples} {
			s.Must(s.Unpeer(s.Context(), s.Rome, provider))
		}
		var group errgroup.Group
		for _, c := range s.Clusters() {
			group.Go(func() error { return s.Uninstall(s.Context(), c, true) })
		}
		s.Must(group.Wait())
	})
	s.Step("every object is as before the installation, and so is every node's network", func() {
		for _, c := range s.Clusters() {
			s.Same(c, s.Empty(c))
		}
		s.SameWiring(before)
	})
}

// without: if another network connects the clusters, Liqo installs no network and translates no address.
func without(s *story.Story) {
	rome, naples := s.Rome, s.Naples
	s.Step("there is no agent and no gateway", func() {
		for _, c := range s.Clusters() {
			var pods corev1.PodList
			s.Must(c.List(s.Context(), &pods))
			for _, pod := range pods.Items {
				if strings.Contains(pod.Name, "fabric") || strings.HasPrefix(pod.Name, "gw-") {
					s.Errorf("%s has pod %s/%s", c.ID, pod.Namespace, pod.Name)
				}
			}
			for number := 1; number <= 2; number++ {
				if left := ours(s, c.Worker(number)); len(left) > 0 {
					s.Errorf("node %s has\n%s", c.Worker(number), strings.Join(left, "\n"))
				}
			}
		}
	})
	p := gather(s, "home", "naples")
	defer disperse(s)
	s.Step("addresses are what they are", func() {
		there := p.pods("naples")
		for i, pod := range s.Pods(rome, p.ns) {
			if pod.Spec.NodeName == "naples" && !slices.ContainsFunc(there, func(t corev1.Pod) bool { return t.Name == pod.Name && t.Status.PodIP == pod.Status.PodIP }) {
				s.Errorf("rome shows pod %d, %s, with the address %s, which is not its own", i, pod.Name, pod.Status.PodIP)
			}
		}
		for name, address := range p.seen(naples, "home") {
			if own := s.Pod(rome, p.ns, name).Status.PodIP; own != address.String() {
				s.Errorf("naples sees pod %s as %s, its own address is %s", name, address, own)
			}
		}
	})
}

// addressless: with networking.reflectIPs=false, pods in the provider are ready without an address in rome, and each cluster's Services lead to its own pods only.
func addressless(s *story.Story) {
	rome, naples := s.Rome, s.Naples
	s.Step("rome shows no addresses of its providers", func() {
		setInRome(s, "--set", "networking.reflectIPs=false")
	})
	p := gather(s, "home", "naples")
	s.Step("pods of naples are ready in rome, and have no address there", func() {
		for _, pod := range s.Pods(rome, p.ns, client.MatchingLabels{"app": "naples"}) {
			if !story.Ready(pod) || pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0 {
				s.Errorf("rome shows pod %s with address %q, ready %t", pod.Name, pod.Status.PodIP, story.Ready(pod))
			}
		}
	})
	s.Step("each cluster's Services lead to its own pods", func() {
		p.seen(rome, "home")
		p.seen(naples, "naples")
		for group, c := range map[string]*playground.Cluster{"home": rome, "naples": naples} {
			var service corev1.Service
			s.Must(c.Get(s.Context(), client.ObjectKey{Namespace: p.namespace(c), Name: group}, &service))
			onlyAnswer(p, p.inside(group, 0), net.JoinHostPort(service.Spec.ClusterIP, webPort), group)
		}
		// Both clusters have had time to copy more.
		for _, other := range []struct {
			in      *playground.Cluster
			service string
		}{{rome, "naples"}, {naples, "home"}} {
			if addresses := addressesOf(p, other.in, other.service); len(addresses) > 0 {
				s.Errorf("Service %s leads to %v in %s", other.service, addresses, other.in.ID)
			}
		}
	})
	disperse(s)
	s.Step("rome shows addresses again", func() {
		setInRome(s, "--set", "networking.reflectIPs=true")
	})
}

// onlyAnswer waits until each pod of a group answers at the address of a Service, which kube-proxy learns a moment after the endpoints are written. No other pod may answer.
func onlyAnswer(p *people, from playground.Inside, authority, group string) {
	p.Helper()
	pods := story.Names(p.pods(group))
	seen := map[string]bool{}
	p.Eventually(soon, fmt.Sprintf("each pod of %s to answer %s at %s", group, from.Name, authority), func(context.Context) error {
		for _, answer := range p.asks(from, slices.Repeat([]string{authority}, 12)...) {
			seen[answer.Pod] = true
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, pods) {
			return fmt.Errorf("pods %v answer, want %v", got, pods)
		}
		return nil
	})
}

// addressesOf returns all addresses to which a Service leads in a cluster.
func addressesOf(p *people, c *playground.Cluster, service string) (addresses []string) {
	p.Helper()
	var list discoveryv1.EndpointSliceList
	p.Must(c.List(p.Context(), &list, client.InNamespace(p.namespace(c)), client.MatchingLabels{discoveryv1.LabelServiceName: service}))
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
	}
	return addresses
}

// setInRome installs Liqo in rome again, with the flags of the plan and these, and waits until every virtual kubelet was replaced. Values that no flag names stay.
func setInRome(s *story.Story, flags ...string) {
	s.Helper()
	former := map[string]*corev1.Pod{}
	for _, provider := range []*playground.Cluster{s.Milan, s.Naples} {
		former[provider.ID] = s.Only(s.Rome, api.TenantNamespace(provider.ID), client.MatchingLabels{api.LabelVirtualNode: provider.ID})
	}
	s.Must(s.Machine.Install(s.Context(), s.Rome, slices.Concat(s.Plan.Install[s.Rome.ID], flags)...))
	for provider, kubelet := range former {
		s.Others(" " + kubelet.Namespace + "/vk-" + provider) // its Deployment counts its revisions
		s.Gone(s.Rome, kubelet, time.Minute)
		s.Eventually(start, "the new virtual kubelet of "+provider+" to be ready", func(context.Context) error {
			pods := s.Pods(s.Rome, kubelet.Namespace, client.MatchingLabels{api.LabelVirtualNode: provider})
			if len(pods) != 1 || !story.Ready(pods[0]) {
				return fmt.Errorf("there are %v", story.Names(pods))
			}
			return nil
		})
		s.NodeReady(provider, true, time.Minute)
	}
}
