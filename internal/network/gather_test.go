package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offloadingv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

func compareAddr(a, b netip.Addr) bool       { return a == b }
func comparePrefixes(a, b netip.Prefix) bool { return a == b }

// objects are those of a cluster with two nodes and a virtual one, peered with milan.
func objects(t testing.TB) Objects {
	t.Helper()
	network := func(kind, cidr string) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
			Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}, Status: ipamv1alpha1.NetworkStatus{CIDR: cidr}}
	}
	node := func(name, ip, pods string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{"fd00::/64", pods}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "fd01::1"}, {Type: corev1.NodeInternalIP, Address: ip}}}}
	}
	virtual := node("milan", "10.10.1.5", "10.10.9.0/24")
	virtual.Labels = map[string]string{api.LabelType: api.TypeVirtualNode}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name, Labels: map[string]string{api.LabelRemoteClusterID: "milan"}}
	}
	return Objects{
		LiqoNamespace: "liqo",
		Options:       Options{ClampMSS: true},
		Networks: []ipamv1alpha1.Network{network(ipamv1alpha1.NetworkTypePod, "10.10.0.0/16"), network(ipamv1alpha1.NetworkTypeService, "10.96.0.0/16"),
			network(ipamv1alpha1.NetworkTypeExternal, "10.70.0.0/16"), network(ipamv1alpha1.NetworkTypeInternal, "10.80.0.0/16")},
		Nodes: []corev1.Node{node("rome-2", "172.16.0.2", "10.10.2.0/24"), virtual, node("rome-1", "172.16.0.1", "10.10.1.0/24")},
		IPs: []ipamv1alpha1.IP{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "node-rome-1", Labels: map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeNode}},
			Spec:       ipamv1alpha1.IPSpec{IP: "172.16.0.1"}, Status: ipamv1alpha1.IPStatus{IP: "10.70.0.1"},
		}},
		Configurations: []networkingv1beta1.Configuration{{
			ObjectMeta: meta("milan"),
			Spec:       networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.10.0.0/16"}, External: []string{"10.70.0.0/16"}}}},
			Status:     networkingv1beta1.ConfigurationStatus{Remote: &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}, External: []string{"10.73.0.0/16"}}}},
		}},
		GatewayClients: []networkingv1beta1.GatewayClient{{ObjectMeta: meta("milan"), Spec: networkingv1beta1.GatewayClientSpec{MTU: 1340,
			Endpoint: networkingv1beta1.Endpoint{Addresses: []string{"192.0.2.10"}, Port: 30001}}}},
		Connections: []networkingv1beta1.Connection{{ObjectMeta: meta("gw-milan"), Status: networkingv1beta1.ConnectionStatus{Value: "Connected", MTU: 1330}}},
		PublicKeys:  []networkingv1beta1.PublicKey{{ObjectMeta: meta("milan"), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, 32)}}},
		Pods:        []corev1.Pod{gatewayPod("gw-milan-1", "10.10.2.100", "rome-2"), gatewayPod("gw-milan-0", "10.10.1.100", "rome-1")},
	}
}

func gatewayPod(name, ip, node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name, CreationTimestamp: metav1.Unix(100, 0), Labels: map[string]string{
			networkingv1beta1.LabelComponent: networkingv1beta1.ComponentGateway, networkingv1beta1.LabelGatewayName: "milan"}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// runningPods are pods in the pod network of rome, some of them outside the CIDRs of their node.
func runningPods(inside, outside int) []corev1.Pod {
	var pods []corev1.Pod
	for i := range inside + outside {
		third := 1 + i%2
		node := fmt.Sprint("rome-", third)
		host := i/2%250 + 3
		if i >= inside {
			third, host = 7, i-inside+3
		}
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprint("pod-", i)}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.10.%d.%d", third, host)}})
	}
	// A host-network pod, a finished pod and an offloaded pod have no address in this cluster's pod network.
	host, done, far := pods[0].DeepCopy(), pods[0].DeepCopy(), pods[0].DeepCopy()
	host.Spec.HostNetwork, host.Status.PodIP = true, "172.16.0.1"
	done.Status.Phase, done.Status.PodIP = corev1.PodSucceeded, "10.10.8.8"
	far.Spec.NodeName, far.Status.PodIP = "milan", "10.71.1.7"
	return append(pods, *host, *done, *far)
}

func TestGather(t *testing.T) {
	o := objects(t)
	o.Pods = append(o.Pods, runningPods(2, 1)...)
	got, problems := Gather(&o)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	want := Facts{
		Pods: []netip.Prefix{prefix("10.10.0.0/16")}, External: prefix("10.70.0.0/16"), Services: []netip.Prefix{prefix("10.96.0.0/16")},
		Nodes: []Node{
			{Name: "rome-1", IP: addr("172.16.0.1"), Addresses: []netip.Addr{addr("172.16.0.1")}, Pods: []netip.Prefix{prefix("10.10.1.0/24")},
				Running: []netip.Addr{addr("10.10.1.3"), addr("10.10.1.100"), addr("10.10.7.3")}},
			{Name: "rome-2", IP: addr("172.16.0.2"), Addresses: []netip.Addr{addr("172.16.0.2")}, Pods: []netip.Prefix{prefix("10.10.2.0/24")}},
		},
		Peers: []Peer{{
			ClusterID: "milan", Namespace: "liqo-tenant-milan",
			Pods:     []ipam.Remap{{Real: prefix("10.10.0.0/16"), View: prefix("10.71.0.0/16")}},
			External: []ipam.Remap{{Real: prefix("10.70.0.0/16"), View: prefix("10.73.0.0/16")}},
			Gateway:  "milan", Role: Client, MTU: 1340, TunnelMTU: 1330, Port: 30001, Endpoints: []string{"192.0.2.10"},
			PublicKey: make([]byte, 32), Connection: "Connected",
			Candidates: []Candidate{
				{Pod: "gw-milan-0", IP: addr("10.10.1.100"), Node: "rome-1", Created: 100, Ready: true},
				{Pod: "gw-milan-1", IP: addr("10.10.2.100"), Node: "rome-2", Created: 100, Ready: true},
			},
		}},
		Exposed:       []Exposed{{Real: addr("172.16.0.1"), External: addr("10.70.0.1"), Kind: KindNode, Object: "liqo/node-rome-1", Node: "rome-1"}},
		OutOfCIDRPods: []OutOfCIDRPod{{IP: addr("10.10.7.3"), Node: "rome-1"}},
		System:        []netip.Addr{addr("10.10.1.100"), addr("10.10.2.100")},
		Options:       Options{ClampMSS: true},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(compareAddr), cmp.Comparer(comparePrefixes)); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// TestPodsOfLiqo: System has the addresses of the pods in the namespace of the installation, of gateways and of virtual kubelets. Pods without an address of
// their own are left out.
func TestPodsOfLiqo(t *testing.T) {
	o := objects(t) // contains two gateway pods
	for name, change := range map[string]func(*corev1.Pod){
		"10.10.1.21": func(p *corev1.Pod) { p.Namespace = "liqo" },
		"10.10.1.22": func(p *corev1.Pod) {
			p.Labels = map[string]string{offloadingv1beta1.LabelComponent: offloadingv1beta1.ComponentVirtualKubelet}
		},
		"10.10.1.23": func(*corev1.Pod) {}, // a pod of a user
		"10.10.1.24": func(p *corev1.Pod) { p.Namespace, p.Spec.HostNetwork = "liqo", true },
		"10.10.1.25": func(p *corev1.Pod) { p.Namespace, p.Status.Phase = "liqo", corev1.PodSucceeded },
		"172.16.0.9": func(p *corev1.Pod) { p.Namespace = "liqo" }, // outside the pod network
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.PodSpec{NodeName: "rome-1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: name}}
		change(&pod)
		o.Pods = append(o.Pods, pod)
	}
	f, _ := Gather(&o)
	want := []netip.Addr{addr("10.10.1.21"), addr("10.10.1.22"), addr("10.10.1.100"), addr("10.10.2.100")}
	if !slices.Equal(f.System, want) {
		t.Errorf("%v, want %v", f.System, want)
	}
}

// TestGatherIsOrderless: the result does not depend on the order in which the API server lists objects.
func TestGatherIsOrderless(t *testing.T) {
	o := objects(t)
	o.Pods = append(o.Pods, runningPods(50, 5)...)
	second := o.Configurations[0].DeepCopy()
	second.Namespace, second.CreationTimestamp = "liqo-tenant-other", metav1.Unix(5, 0)
	o.Configurations = append(o.Configurations, *second)
	o.IPs = append(o.IPs, userIP("a", "192.0.2.7", "10.70.0.9"), userIP("b", "192.0.2.7", "10.70.0.10"), userIP("c", "192.0.2.8", "10.70.0.9"))
	// Several objects where only one is used.
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Labels: o.GatewayClients[0].Labels}
	for i, name := range []string{"x", "y"} {
		meta.Name, meta.CreationTimestamp = name, metav1.Unix(int64(10-i), 0)
		o.GatewayServers = append(o.GatewayServers, networkingv1beta1.GatewayServer{ObjectMeta: meta, Spec: networkingv1beta1.GatewayServerSpec{MTU: 1300 + i}})
		o.PublicKeys = append(o.PublicKeys, networkingv1beta1.PublicKey{ObjectMeta: meta, Spec: networkingv1beta1.PublicKeySpec{PublicKey: slices.Repeat([]byte{byte(i)}, 32)}})
		client := *o.GatewayClients[0].DeepCopy()
		client.Name = name
		o.GatewayClients = append(o.GatewayClients, client)
	}
	external := *o.Networks[2].DeepCopy()
	external.Name, external.Status.CIDR = "another", "10.79.0.0/16"
	o.Networks = append(o.Networks, external)
	want, wantProblems := Gather(&o)
	for _, object := range []string{"GatewayServer liqo-tenant-milan/x", "PublicKey liqo-tenant-milan/x", "PublicKey liqo-tenant-milan/y", "Network liqo/external-cidr"} {
		if !slices.ContainsFunc(wantProblems, func(p Problem) bool { return p.Object == object }) {
			t.Errorf("%s has no effect, and nobody is told: %q", object, wantProblems)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffle(random, o.Pods)
		shuffle(random, o.Nodes)
		shuffle(random, o.Networks)
		shuffle(random, o.IPs)
		shuffle(random, o.Configurations)
		shuffle(random, o.GatewayServers)
		shuffle(random, o.GatewayClients)
		shuffle(random, o.Connections)
		shuffle(random, o.PublicKeys)
		got, gotProblems := Gather(&o)
		if diff := cmp.Diff(want, got, cmp.Comparer(compareAddr), cmp.Comparer(comparePrefixes)) + cmp.Diff(wantProblems, gotProblems); diff != "" {
			t.Fatal(diff)
		}
	}
}

func shuffle[T any](r *rand.Rand, all []T) {
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

func userIP(name, real, external string) ipamv1alpha1.IP {
	return ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: ipamv1alpha1.IPSpec{IP: real}, Status: ipamv1alpha1.IPStatus{IP: external}}
}

// podsIP returns the IP object that Liqo creates for a pod at a provider.
func podsIP(name, real, external string) ipamv1alpha1.IP {
	ip := userIP(name, real, external)
	ip.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, Controller: new(true)}}
	return ip
}

func TestGatherReportsProblems(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(o *Objects)
		peers   int
		waiting bool
		want    string // object: start of the text
	}{
		{"no Configuration status", func(o *Objects) { o.Configurations[0].Status.Remote = nil }, 0, true, "Configuration liqo-tenant-milan/milan: status.remote is empty"},
		{"half a status", func(o *Objects) { o.Configurations[0].Status.Remote.CIDR.External = nil }, 0, true, "Configuration liqo-tenant-milan/milan: status.remote.cidr.external has 0 ranges for the 1"},
		{"a range that waits", func(o *Objects) {
			o.Configurations[0].Spec.Remote.CIDR.Pod = append(o.Configurations[0].Spec.Remote.CIDR.Pod, "10.20.0.0/16")
		}, 1, true, "Configuration liqo-tenant-milan/milan: status.remote.cidr.pod has 1 ranges for the 2"},
		{"a second range that collides", func(o *Objects) {
			c := &o.Configurations[0]
			c.Spec.Remote.CIDR.Pod, c.Status.Remote.CIDR.Pod = append(c.Spec.Remote.CIDR.Pod, "10.20.0.0/16"), append(c.Status.Remote.CIDR.Pod, "10.96.0.0/16")
		}, 1, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 10.20.0.0/16, seen here as 10.96.0.0/16, overlaps here"},
		{"loopback as a range", func(o *Objects) { o.Configurations[0].Spec.Remote.CIDR.Pod[0] = "127.0.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 127.0.0.0/16, seen here as 10.71.0.0/16, is a range that overlaps 127.0.0.0/8"},
		{"the tunnel as a range", func(o *Objects) { o.Configurations[0].Spec.Remote.CIDR.Pod[0] = "169.254.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 169.254.0.0/16"},
		{"everything as a range", func(o *Objects) {
			o.Configurations[0].Spec.Remote.CIDR.Pod[0], o.Configurations[0].Status.Remote.CIDR.Pod[0] = "0.0.0.0/0", "0.0.0.0/0"
		}, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 0.0.0.0/0"},
		{"seen on our pods", func(o *Objects) { o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.10.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 10.10.0.0/16, seen here as 10.10.0.0/16, overlaps here a range of this cluster"},
		{"seen on our services", func(o *Objects) { o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.96.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 10.10.0.0/16, seen here as 10.96.0.0/16, overlaps here"},
		{"seen on our nodes", func(o *Objects) { o.Configurations[0].Status.Remote.CIDR.Pod[0] = "172.16.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 10.10.0.0/16, seen here as 172.16.0.0/16, covers here an address of Node rome-1"},
		{"another length", func(o *Objects) { o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.71.0.0/17" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.pod: range 10.10.0.0/16, seen here as 10.71.0.0/17, does not fit"},
		{"its own ranges overlap", func(o *Objects) { o.Configurations[0].Spec.Remote.CIDR.External[0] = "10.10.0.0/16" }, 0, false, "Configuration liqo-tenant-milan/milan: remote.cidr.external: range 10.10.0.0/16, seen here as 10.73.0.0/16, overlaps 10.10.0.0/16"},
		{"no gateway", func(o *Objects) { o.GatewayClients = nil }, 0, true, "Configuration liqo-tenant-milan/milan: waiting for a GatewayServer or GatewayClient"},
		{"no endpoint", func(o *Objects) { o.GatewayClients[0].Spec.Endpoint.Addresses = nil }, 0, false, "GatewayClient liqo-tenant-milan/milan: spec.endpoint has addresses []"},
		{"an endpoint inside the tunnel", func(o *Objects) { o.GatewayClients[0].Spec.Endpoint.Addresses = []string{"10.71.5.5"} }, 0, false, "GatewayClient liqo-tenant-milan/milan: spec.endpoint.addresses: 10.71.5.5 is in the range under which cluster \"milan\" is seen here"},
		{"an endpoint inside the tunnel, mapped", func(o *Objects) { o.GatewayClients[0].Spec.Endpoint.Addresses = []string{"::ffff:10.71.5.5"} }, 0, false, "GatewayClient liqo-tenant-milan/milan: spec.endpoint.addresses: 10.71.5.5 is in the range under which cluster \"milan\" is seen here"},
		{"an endpoint that is this host", func(o *Objects) { o.GatewayClients[0].Spec.Endpoint.Addresses = []string{"a", "127.0.0.1"} }, 0, false, "GatewayClient liqo-tenant-milan/milan: spec.endpoint.addresses: 127.0.0.1 has another meaning on every host"},
		{"an impossible MTU", func(o *Objects) { o.GatewayClients[0].Spec.MTU = 68 }, 0, false, "GatewayClient liqo-tenant-milan/milan: spec.mtu 68 is not between"},
		{"no pod CIDR yet", func(o *Objects) { o.Networks[0].Status.CIDR = "" }, 0, true, "Network liqo/pod-cidr: status.cidr is empty"},
		{"no external CIDR", func(o *Objects) { o.Networks = slices.Delete(o.Networks, 2, 3) }, 0, true, "Network liqo/external-cidr: waiting"},
		{"no gateway pod", func(o *Objects) { o.Pods = nil }, 1, true, "GatewayClient liqo-tenant-milan/milan: waiting for a pod"},
		{"a short key", func(o *Objects) { o.PublicKeys[0].Spec.PublicKey = []byte{1} }, 1, false, "PublicKey liqo-tenant-milan/milan: spec.publicKey has 1 bytes"},
		{"a node without an address", func(o *Objects) { o.Nodes[0].Status.Addresses = nil }, 1, true, "Node rome-2: status.addresses"},
		{"two nodes with one address", func(o *Objects) { o.Nodes[0].Status = o.Nodes[2].Status }, 1, false, "Node rome-2: status.addresses: InternalIP 172.16.0.1 is also the InternalIP of Node rome-1"},
		{"an IP that waits", func(o *Objects) { o.IPs = append(o.IPs, userIP("x", "192.0.2.7", "")) }, 1, true, "IP demo/x: status.ip is \"\""},
		{"an IP for loopback", func(o *Objects) { o.IPs = append(o.IPs, userIP("x", "127.0.0.1", "10.70.0.9")) }, 1, false, "IP demo/x: spec.ip \"127.0.0.1\" can't be exposed, it is a loopback address"},
		{"an IP for a pod of ours", func(o *Objects) { o.IPs = append(o.IPs, userIP("x", "10.10.1.9", "10.70.0.9")) }, 1, false, "IP demo/x: spec.ip 10.10.1.9 is in a pod CIDR"},
		{"an IP from elsewhere", func(o *Objects) { o.IPs = append(o.IPs, userIP("x", "192.0.2.7", "10.90.0.9")) }, 1, false, "IP demo/x: status.ip 10.90.0.9 is not in the external CIDR 10.70.0.0/16"},
		{"an IP of a pod whose provider names a node of ours", func(o *Objects) { o.IPs = append(o.IPs, podsIP("x", "172.16.0.1", "10.70.0.9")) }, 1, false, "IP demo/x: spec.ip 172.16.0.1, which the provider of the pod reported, is not in a range under which this cluster sees a peer"},
		{"an IP of a pod whose provider names a host", func(o *Objects) { o.IPs = append(o.IPs, podsIP("x", "192.0.2.7", "10.70.0.9")) }, 1, false, "IP demo/x: spec.ip 192.0.2.7, which the provider of the pod reported, is not in a range under which this cluster sees a peer"},
		{"one address twice", func(o *Objects) {
			o.IPs = append(o.IPs, userIP("x", "192.0.2.7", "10.70.0.9"), userIP("y", "192.0.2.7", "10.70.0.10"))
		}, 1, false, "IP demo/y: spec.ip 192.0.2.7 is already exposed by IP demo/x"},
		{"two addresses as one", func(o *Objects) {
			o.IPs = append(o.IPs, userIP("x", "192.0.2.7", "10.70.0.9"), userIP("y", "192.0.2.8", "10.70.0.9"))
		}, 1, false, "IP demo/y: status.ip 10.70.0.9 is also the status.ip of IP demo/x"},
		{"another Configuration", func(o *Objects) {
			c := o.Configurations[0].DeepCopy()
			c.Namespace, c.CreationTimestamp = "other", metav1.Unix(9, 0)
			o.Configurations = append(o.Configurations, *c)
		}, 1, false, "Configuration other/milan: cluster \"milan\" has another, older Configuration in namespace"},
		{"a server and a client", func(o *Objects) {
			o.GatewayServers = []networkingv1beta1.GatewayServer{{ObjectMeta: o.GatewayClients[0].ObjectMeta}}
		}, 1, false, "GatewayClient liqo-tenant-milan/milan: cluster \"milan\" also has GatewayServer milan"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := objects(t)
			test.change(&o)
			facts, problems := Gather(&o)
			if len(facts.Peers) != test.peers {
				t.Errorf("%d peers, want %d", len(facts.Peers), test.peers)
			}
			i := slices.IndexFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.String(), test.want) })
			if i < 0 {
				t.Fatalf("no problem %q among %q", test.want, problems)
			}
			if problems[i].Waiting != test.waiting {
				t.Errorf("%q: waiting is %v", problems[i], problems[i].Waiting)
			}
			if (problems[i].ClusterID != "") != (test.peers == 0) && !strings.Contains(test.want, "status.cidr") {
				t.Errorf("%q: the peer left out is %q", problems[i], problems[i].ClusterID)
			}
		})
	}
}

// TestProblemsOfOnePeerAffectNoOther: problems with the objects of one peer do not change the facts about others.
func TestProblemsOfOnePeerAffectNoOther(t *testing.T) {
	o := objects(t)
	turin := o.Configurations[0].DeepCopy()
	turin.Name, turin.Namespace, turin.Labels = "turin", "liqo-tenant-turin", map[string]string{api.LabelRemoteClusterID: "turin"}
	turin.Status.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.71.0.0/16"}, External: []string{"10.76.0.0/16"}} // the views of milan
	o.Configurations = append(o.Configurations, *turin)
	facts, problems := Gather(&o)
	if len(facts.Peers) != 1 || facts.Peers[0].ClusterID != "milan" {
		t.Errorf("peers %v", facts.Peers)
	}
	if len(problems) != 1 || problems[0].ClusterID != "turin" || !strings.Contains(problems[0].Text, `overlaps here a range of cluster "milan"`) {
		t.Errorf("problems %q", problems)
	}
}

func TestExposedAddresses(t *testing.T) {
	o := objects(t)
	reachable := userIP("a", "192.0.2.7", "10.70.0.9")
	withheld := userIP("b", "192.0.2.8", "10.70.0.10")
	withheld.Labels = map[string]string{networkingv1beta1.LabelHostUnreachable: "true"}
	gone := userIP("c", "192.0.2.9", "10.70.0.11")
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	o.IPs = append(o.IPs, reachable, withheld, gone, podsIP("d", "10.71.1.7", "10.70.0.12"), podsIP("f", "172.16.0.2", "10.70.0.14"), userIP("e", "172.16.0.1", "10.70.0.13"))
	facts, problems := Gather(&o)
	want := []Exposed{
		{Real: addr("10.71.1.7"), External: addr("10.70.0.12"), Kind: KindPeer, Object: "demo/d"},
		{Real: addr("172.16.0.1"), External: addr("10.70.0.13"), Kind: KindHost, Object: "demo/e", Node: "rome-1"},
		{Real: addr("192.0.2.7"), External: addr("10.70.0.9"), Kind: KindHost, Object: "demo/a"},
	}
	if diff := cmp.Diff(want, facts.Exposed, cmp.Comparer(compareAddr)); diff != "" {
		t.Errorf("exposed (-want +got):\n%s", diff)
	}
	if len(facts.Unexposed) != 1 || facts.Unexposed[0].Object != "demo/b" || len(problems) != 1 || problems[0].Object != "IP demo/f" {
		t.Errorf("withheld %v, problems %q", facts.Unexposed, problems)
	}
}

// randomObjects returns objects as careless users and interrupted controllers could leave them. It draws from few values, so that they often conflict.
func randomObjects(r *rand.Rand) Objects {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	cidr := func() string {
		return pick("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16", "10.1.1.0/24", "10.6.7.0/16", "10.7.0.0/15", "10.8.1.1/32", "127.0.0.0/8", "0.0.0.0/0", "fd00::/64", "", "nonsense")
	}
	ip := func() string {
		return pick("172.16.0.1", "172.16.0.2", "10.1.1.1", "10.1.1.2", "10.1.2.1", "10.2.1.1", "10.4.0.1", "10.5.0.9", "127.0.0.1", "169.254.1.1", "::1", "", "x")
	}
	name, peer := func() string { return pick("a", "b", "c") }, func() string { return pick("milan", "turin") }
	some := func(f func() string) (all []string) {
		for range 1 + r.IntN(2) {
			all = append(all, f())
		}
		return all
	}
	o := objectsOf(name, some)
	for i := range o.Networks {
		if r.IntN(8) == 0 {
			o.Networks[i].Status.CIDR = cidr()
		}
	}
	for i := range o.Nodes {
		for j := range o.Nodes[i].Status.Addresses {
			o.Nodes[i].Status.Addresses[j].Address = ip()
		}
		o.Nodes[i].Spec.PodCIDRs = some(cidr)
	}
	for range r.IntN(8) {
		o.IPs = append(o.IPs, userIP(name(), ip(), ip()))
	}
	for range 1 + r.IntN(3) {
		id := peer()
		meta := metav1.ObjectMeta{Namespace: "liqo-tenant-" + id, Name: id}
		var c networkingv1beta1.Configuration
		c.ObjectMeta = meta
		c.Spec.Remote.CIDR, c.Status.Remote = networkingv1beta1.CIDRs{Pod: some(cidr), External: some(cidr)}, &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.CIDRs{Pod: some(cidr), External: some(cidr)}}
		if r.IntN(2) == 0 { // a valid Configuration
			c.Spec.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.1.0.0/16"}, External: []string{"10.4.0.0/16"}}
			c.Status.Remote.CIDR = networkingv1beta1.CIDRs{Pod: []string{"10.2.0.0/16"}, External: []string{"10.3.0.0/16"}}
		}
		o.Configurations = append(o.Configurations, c)
		o.GatewayServers = append(o.GatewayServers, networkingv1beta1.GatewayServer{ObjectMeta: meta, Spec: networkingv1beta1.GatewayServerSpec{MTU: []int{0, 1340, 100, 576}[r.IntN(4)]}})
		for range r.IntN(3) {
			pod := gatewayPod(name(), ip(), name())
			pod.Namespace, pod.Labels[networkingv1beta1.LabelGatewayName] = meta.Namespace, id
			o.Pods = append(o.Pods, pod)
		}
	}
	for i, p := range runningPods(5, 5) {
		p.Spec.NodeName, p.Status.PodIP = name(), ip()
		p.Name = fmt.Sprint("p", i)
		o.Pods = append(o.Pods, p)
	}
	return o
}

func objectsOf(name func() string, some func(func() string) []string) Objects {
	o := Objects{LiqoNamespace: "liqo", Options: Options{ClampMSS: true}}
	for kind, cidr := range map[string]string{ipamv1alpha1.NetworkTypePod: "10.1.0.0/16", ipamv1alpha1.NetworkTypeExternal: "10.4.0.0/16"} {
		o.Networks = append(o.Networks, ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{ipamv1alpha1.LabelNetworkType: kind}},
			Status: ipamv1alpha1.NetworkStatus{CIDR: cidr}})
	}
	for _, n := range some(name) {
		o.Nodes = append(o.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP}, {Type: corev1.NodeInternalIP}, {Type: corev1.NodeExternalIP}}}})
	}
	return o
}
