package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TestExposure checks the endpoint that peers dial, for each type of Service. If a load balancer gets no address before the timeout, peers dial its node port.
func TestExposure(t *testing.T) {
	const timeout = 2 * time.Minute
	nodes := []corev1.Node{testNode("z", true, "192.0.2.26", "198.51.100.26"), testNode("down", false, "192.0.2.99"), testNode("v6", true, "2001:db8::1")}
	for i := range 7 {
		nodes = append(nodes, testNode(fmt.Sprintf("n%d", i), true, fmt.Sprintf("192.0.2.%d", i)))
	}
	pods := []corev1.Pod{testPod("a", "n6", "10.0.0.1", false), testPod("b", "z", "10.0.0.2", true)}
	byNode := []string{"198.51.100.26", "192.0.2.26", "192.0.2.6", "192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}
	service := func(kind corev1.ServiceType, nodePort int32, clusterIP string, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "gw-milan"},
			Spec:       corev1.ServiceSpec{Type: kind, ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 51840, NodePort: nodePort, Protocol: corev1.ProtocolUDP}}},
		}
		s.Status.LoadBalancer.Ingress = ingress
		return s
	}
	balancer := service(corev1.ServiceTypeLoadBalancer, 30500, "10.96.0.7")
	unwanted := balancer.DeepCopy()
	unwanted.Spec.AllocateLoadBalancerNodePorts = new(false)
	for name, c := range map[string]struct {
		service *corev1.Service
		present int32
		waited  time.Duration
		port    int32
		want    []string
		wait    string
		again   time.Duration
		// instead holds the addresses that the administrator set for node ports.
		instead []string
	}{
		"node port": {service: service(corev1.ServiceTypeNodePort, 30500, "10.96.0.7"), port: 30500, want: byNode},
		"node port at other addresses": {
			service: service(corev1.ServiceTypeNodePort, 30500, "10.96.0.7"), instead: []string{"10.99.0.11", "vpn.example"}, port: 30500, want: []string{"10.99.0.11", "vpn.example"},
		},
		"other addresses, and a load balancer": {
			service: service(corev1.ServiceTypeLoadBalancer, 30500, "10.96.0.7", corev1.LoadBalancerIngress{IP: "203.0.113.5"}),
			instead: []string{"10.99.0.11"}, port: 51840, want: []string{"203.0.113.5"},
		},
		"other addresses, no load balancer in time": {service: balancer, instead: []string{"10.99.0.11"}, waited: timeout, port: 30500, want: []string{"10.99.0.11"}},
		"node port not given yet":                   {service: service(corev1.ServiceTypeNodePort, 0, "10.96.0.7"), wait: "waiting for the node port of Service t/gw-milan"},
		"cluster IP":                                {service: service(corev1.ServiceTypeClusterIP, 0, "10.96.0.7"), port: 51840, want: []string{"10.96.0.7"}},
		"no cluster IP":                             {service: service(corev1.ServiceTypeClusterIP, 0, ""), wait: "waiting for the ClusterIP"},
		"load balancer": {
			service: service(corev1.ServiceTypeLoadBalancer, 30500, "10.96.0.7", corev1.LoadBalancerIngress{IP: "203.0.113.5"}, corev1.LoadBalancerIngress{Hostname: "lb.example"}),
			waited:  time.Hour, port: 51840, want: []string{"203.0.113.5", "lb.example"},
		},
		"no load balancer yet":            {service: balancer, wait: "port 51840/UDP, to get an address", again: timeout},
		"no load balancer soon":           {service: balancer, waited: timeout - 30*time.Second, wait: "after 2m0s, peers dial node port 30500", again: 30 * time.Second},
		"no load balancer in time":        {service: balancer, waited: timeout, port: 30500, want: byNode},
		"still no load balancer":          {service: balancer, present: 30500, port: 30500, want: byNode},
		"a load balancer lost":            {service: balancer, present: 51840, wait: "NodePort needs none", again: timeout},
		"a node port that is not wanted":  {service: unwanted, present: 30500, waited: time.Hour, wait: "NodePort needs none"},
		"no load balancer, no node ports": {service: service(corev1.ServiceTypeLoadBalancer, 0, "10.96.0.7"), waited: time.Hour, wait: "spec.endpoint.serviceType NodePort needs none"},
	} {
		t.Run(name, func(t *testing.T) {
			var present *networkingv1beta1.Endpoint
			if c.present != 0 {
				present = &networkingv1beta1.Endpoint{Port: c.present}
			}
			got := ExposureOf(c.service, nodes, pods, present, c.waited, ExposureRules{Timeout: timeout, Addresses: c.instead})
			if !strings.Contains(got.Wait, c.wait) || (got.Wait == "") != (c.wait == "") || got.Again != c.again {
				t.Errorf("wait %q, again %s, want %q, %s", got.Wait, got.Again, c.wait, c.again)
			}
			if instead := c.service.Spec.Type == corev1.ServiceTypeLoadBalancer && c.port == 30500; (got.InPlaceOf != "") != instead {
				t.Errorf("a node port in place of %q, want %t", got.InPlaceOf, instead)
			}
			var want *networkingv1beta1.Endpoint
			if c.want != nil {
				want = &networkingv1beta1.Endpoint{Addresses: c.want, Port: c.port, Protocol: corev1.ProtocolUDP}
			}
			if diff := cmp.Diff(want, got.Endpoint); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestExposureRulesAreThoseOfPeers: an administrator can set no address that peers refuse.
func TestExposureRulesAreThoseOfPeers(t *testing.T) {
	for text, good := range map[string]bool{
		"10.99.0.11": true, "vpn.example.org": true, "10.99.0.11,10.99.0.12": true, "": false, "127.0.0.1": false, "0.0.0.0": false, "a_b": false,
		"10.99.0.11:4242": false, "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9": false,
	} {
		rules := ExposureRules{Addresses: strings.Split(text, ",")}
		if err := rules.Check(); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
		facts := &networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Addresses: rules.Addresses, Port: 30500}}
		if err := CheckFacts(facts); good && err != nil {
			t.Errorf("a peer refuses %q: %v", text, err)
		}
	}
}

// TestNodeAddresses: peers get addresses of working nodes, and no more addresses than they accept.
func TestNodeAddresses(t *testing.T) {
	virtual, leaving := testNode("virtual", true, "10.0.0.9"), testNode("leaving", true, "192.0.2.77")
	virtual.Labels = map[string]string{api.LabelType: api.TypeVirtualNode}
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	many := func(n int, external bool) (nodes []corev1.Node) {
		for i := range n {
			addresses := []string{fmt.Sprintf("10.0.0.%d", i)}
			if external {
				addresses = append(addresses, fmt.Sprintf("198.51.100.%d", i))
			}
			nodes = append(nodes, testNode(fmt.Sprintf("n%02d", i), true, addresses...))
		}
		return nodes
	}
	for name, c := range map[string]struct {
		nodes []corev1.Node
		want  []string
	}{
		"none":                           {nil, nil},
		"inside only":                    {many(2, false), []string{"10.0.0.0", "10.0.0.1"}},
		"outside first":                  {many(2, true), []string{"198.51.100.0", "198.51.100.1", "10.0.0.0", "10.0.0.1"}},
		"one node leads outside":         {append(many(9, false), testNode("z", true, "10.0.0.26", "198.51.100.26")), append([]string{"198.51.100.26"}, internals(7)...)},
		"half of the places each":        {many(20, true), append([]string{"198.51.100.0", "198.51.100.1", "198.51.100.2", "198.51.100.3"}, internals(4)...)},
		"one address for both":           {[]corev1.Node{testNode("a", true, "198.51.100.1", "198.51.100.1")}, []string{"198.51.100.1"}},
		"an address of every host":       {[]corev1.Node{testNode("a", true, "127.0.0.1"), testNode("b", true, "10.0.0.2")}, []string{"10.0.0.2"}},
		"virtual, leaving and not ready": {[]corev1.Node{virtual, leaving, testNode("a", false, "10.0.0.1"), testNode("b", true, "10.0.0.2")}, []string{"10.0.0.2"}},
		"none is ready":                  {[]corev1.Node{virtual, testNode("b", false, "10.0.0.2"), testNode("a", false, "10.0.0.1")}, []string{"10.0.0.1", "10.0.0.2"}},
	} {
		got := nodeAddresses(c.nodes, nil)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		facts := &networkingv1beta1.NetworkFacts{Endpoint: &networkingv1beta1.Endpoint{Addresses: got, Port: 30500}}
		if err := CheckFacts(facts); len(got) > 0 && err != nil {
			t.Errorf("%s: a peer refuses %v: %v", name, got, err)
		}
	}
}

func internals(n int) (addresses []string) {
	for i := range n {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d", i))
	}
	return addresses
}
