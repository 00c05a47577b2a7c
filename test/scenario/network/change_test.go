package network

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/playground"
	"liqo.io/liqo/test/scenario/story"
)

// nodes: a node of rome is removed and added again.
func nodes(s *story.Story) {
	rome := s.Rome
	worker := rome.Worker(2)
	p := gather(s, "home", "milan")
	address := s.NodeAddress(rome, worker).String()
	var node corev1.Node
	s.Must(rome.Get(s.Context(), client.ObjectKey{Name: worker}, &node))

	s.Step("remove "+worker, func() {
		_, err := s.Playground(s.Context(), "stop", "node", worker)
		s.Must(err)
		s.Cleanup(func() { _, _ = s.Playground(background(s), "start", "node", worker) })
		s.Must(rome.Delete(s.Context(), node.DeepCopy()))
		// Kubernetes deletes these pods too, but only after more than a minute.
		for _, pod := range s.Pods(rome, metav1.NamespaceAll) {
			if pod.Spec.NodeName == worker {
				s.Must(client.IgnoreNotFound(rome.Delete(s.Context(), &pod, client.GracePeriodSeconds(0))))
			}
		}
		s.Gone(rome, &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: ipamv1alpha1.IPNodePrefix + worker}}, soon)
	})
	s.Step("gateways forget it, and what is left works", func() {
		s.Eventually(soon, "the gateway to lead nothing to "+worker, func(ctx context.Context) error {
			routes, err := routesOf(ctx, s.ActiveGateway(rome, "milan"))
			if err == nil && strings.Contains(routes, address) {
				err = fmt.Errorf("it has the routes\n%s", routes)
			}
			return err
		})
		p.complete(2 * time.Minute)
		for i := range p.pods("home") {
			p.reaches(p.inside("home", i), rome, "milan")
		}
		for i := range p.pods("milan") {
			p.reaches(p.inside("milan", i), s.Milan, "home")
		}
	})
	s.Step("add "+worker, func() {
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: worker, Labels: node.Labels, Annotations: node.Annotations}}
		again.Spec.PodCIDR, again.Spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs // the CNI on the node's disk still has this range
		s.Must(rome.Create(s.Context(), again))
		_, err := s.Playground(s.Context(), "start", "node", worker)
		s.Must(err)
		ready(s, rome, worker)
	})
	s.Step("a pod there reaches milan", func() {
		pod := story.PodOn(worker, p.ns, "new", playground.TestServer)
		pod.Labels = map[string]string{"app": "new"}
		s.Must(rome.Create(s.Context(), pod))
		now := s.PodReady(rome, p.ns, "new", start)
		inside, err := playground.In(now)
		s.Must(err)
		p.reaches(inside, rome, "milan")
		standing(s, rome, "milan")
		standing(s, rome, "naples")
		s.Must(rome.Delete(s.Context(), now))
		s.Gone(rome, now, start)
	})
}

// routesOf returns all routes in a gateway's network namespace.
func routesOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	pids, err := playground.Container(pod, "gateway")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(pids[0]), "--net", "--", "ip", "route", "show", "table", "all").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("reading routes of gateway %s: %w: %s", pod.Name, err, out)
	}
	return string(out), nil
}

// keys: both sides get new keys while traffic flows.
func keys(s *story.Story) {
	rome, milan := s.Rome, s.Milan
	p := gather(s, "home", "milan")
	for _, side := range []struct{ here, there *playground.Cluster }{{rome, milan}, {milan, rome}} {
		secret := client.ObjectKey{Namespace: api.TenantNamespace(side.there.ID), Name: "gw-" + side.there.ID}
		public := client.ObjectKey{Namespace: api.TenantNamespace(side.here.ID), Name: side.here.ID}
		s.Step("the gateway of "+side.here.ID+" gets new keys", func() {
			var before, after networkingv1beta1.PublicKey
			s.Must(side.there.Get(s.Context(), public, &before))
			stream, reference := p.stream(p.inside("home", 0), rome, "milan", p.pods("milan")[1].Name, paced), p.reference()
			s.Pause(time.Second)
			_, err := s.Liqoctl(s.Context(), "network", "rotate-keys", "--kubeconfig", side.here.Kubeconfig, "--remote-kubeconfig", side.there.Kubeconfig)
			s.Must(err)
			s.Pause(6 * time.Second)
			p.flowsWithin(stream, reference, failoverStall)
			s.Must(side.there.Get(s.Context(), public, &after))
			if slices.Equal(before.Spec.PublicKey, after.Spec.PublicKey) {
				s.Errorf("PublicKey %s of %s is the same as before", public, side.there.ID)
			}
			s.Connected(rome, "milan", networkingv1beta1.Connected, soon)
			s.Connected(milan, "rome", networkingv1beta1.Connected, soon)
		})
		s.Renewed(side.here, "secrets "+secret.String())
		s.Renewed(side.there, "networking.liqo.io/publickeies "+public.String())
	}
}

// nat: rome's nodes accept UDP only as answers, as behind a router with address translation. Rome's gateways dial.
func nat(s *story.Story) {
	rome := s.Rome
	p := gather(s, "home", "milan")
	own := s.NodeAddress(rome, rome.Node()).String()
	own = own[:strings.LastIndex(own, ".")] + ".0/24"
	s.Step("rome's nodes take no packet of UDP from outside that answers none of theirs", func() {
		for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
			for _, command := range []string{
				"add table ip router", "add chain ip router in { type filter hook prerouting priority -200; }",
				"add rule ip router in iifname eth0 ip saddr != " + own + " meta l4proto udp ct state new counter drop",
			} {
				_, err := s.Machine.Exec(s.Context(), node, append([]string{"nft"}, command)...)
				s.Must(err)
			}
			s.Cleanup(func() { _, _ = s.Machine.Exec(background(s), node, "nft", "delete table ip router") })
		}
	})
	s.Step("new gateways of rome connect, and traffic passes both ways", func() {
		pods, err := story.Gateways(s.Context(), rome, "milan")
		s.Must(err)
		for i := range pods {
			s.Must(rome.Delete(s.Context(), &pods[i]))
		}
		standing(s, rome, "milan")
		s.Connected(rome, "milan", networkingv1beta1.Connected, time.Minute)
		p.reaches(p.inside("home", 0), rome, "milan")
		p.reaches(p.inside("milan", 0), s.Milan, "home")
	})
	s.Step("and after a while without traffic", func() {
		s.Pause(5 * time.Second)
		p.reaches(p.inside("milan", 1), s.Milan, "home")
	})
	s.Step("the router goes", func() {
		for _, node := range []string{rome.Worker(1), rome.Worker(2)} {
			_, err := s.Machine.Exec(s.Context(), node, "nft", "delete table ip router")
			s.Must(err)
		}
	})
}

// command: liqoctl checks and explains the network, both while it works and while it is broken.
func command(s *story.Story) {
	rome, milan, naples := s.Rome, s.Milan, s.Naples
	s.Shares(crowd)
	test := func(flags ...string) (string, error) {
		return s.Liqoctl(s.Context(), append([]string{"test", "network", "--kubeconfig", rome.Kubeconfig,
			"--remote-kubeconfigs", milan.Kubeconfig + "," + naples.Kubeconfig, "--image", playground.TestServer, "--timeout", "3m"}, flags...)...)
	}
	explain := func(from, to string) (string, error) {
		return s.Liqoctl(s.Context(), "network", "explain", from, to, "--kubeconfig", rome.Kubeconfig,
			"--remote-kubeconfig", milan.Kubeconfig, "--remote-kubeconfig", naples.Kubeconfig)
	}
	s.Step("liqoctl test network", func() {
		out, err := test("--pod-np", "--lb", "--outside=")
		s.Must(err)
		for _, want := range []string{"pod to pods: 6 of 6", "pod to Service: 6 of 6", "host network to pods: 6 of 6", "pod to node ports: 6 of 6", "pod to load balancer: 6 of 6"} {
			if !strings.Contains(out, want) {
				s.Errorf("test network does not say %q:\n%s", want, out)
			}
		}
	})
	// The pods of the test stay for the next step.
	const namespace = "liqo-test-network-rome"
	pod := func(c *playground.Cluster) string {
		found := s.Pods(c, namespace, client.MatchingLabels{"network-test/cluster": c.ID})
		return c.ID + "/" + namespace + "/" + found[0].Name
	}
	s.Step("liqoctl network explain", func() {
		for _, ends := range [][2]string{{pod(rome), pod(milan)}, {pod(naples), pod(rome)}, {pod(milan), pod(naples)}} {
			out, err := explain(ends[0], ends[1])
			s.Must(err)
			if !strings.Contains(out, "the way is whole in both directions") {
				s.Errorf("explain %v:\n%s", ends, out)
			}
		}
	})
	s.Step("both say what is broken when rome is cut off from milan", func() {
		s.Must(s.Partition(s.Context(), rome, milan))
		s.Cleanup(func() { _ = s.Heal(background(s), rome, milan) })
		s.Connected(rome, "milan", networkingv1beta1.ConnectionError, soon)
		out, err := test("--basic", "--fail-fast")
		if err == nil || !strings.Contains(out, "the network does not work everywhere") {
			s.Errorf("test network: %v", err)
		}
		out, err = explain(pod(rome), pod(milan))
		if err == nil || !strings.Contains(out, "Connection") || !strings.Contains(out, "is broken") {
			s.Errorf("explain: %v", err)
		}
		s.Must(s.Heal(s.Context(), rome, milan))
		s.Connected(rome, "milan", networkingv1beta1.Connected, soon)
		s.NodeReady("milan", true, time.Minute)
	})
	s.Step("liqoctl test network --rm", func() {
		_, err := test("--basic", "--rm")
		s.Must(err)
	})
}
