package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
)

// needed returns addresses that a cluster and its nodes depend on. No peer may receive packets to them.
func needed() map[string]netip.Addr {
	return map[string]netip.Addr{
		"a node": addr("172.16.0.1"), "another node": addr("172.16.0.2"), "a node's public address": addr("203.0.113.1"),
		"a host on the nodes' link": addr("172.16.3.99"), "the next hop of the default route": addr("172.17.0.1"), "a resolver": addr("10.30.0.2"),
		"the API server": addr("10.31.5.7"), "the public API server": addr("203.0.113.77"), "the Service of the API server": addr("10.96.0.1"),
		"cluster DNS": addr("10.96.0.10"), "a pod": addr("10.10.2.9"), "an external address": addr("10.70.0.9"), "a reserved subnet": addr("10.129.1.1"),
		"the Internet": addr("8.8.8.8"), "a host outside": addr("198.51.100.9"), "the metadata service": addr("169.254.169.254"), "a carrier": addr("100.100.100.200"),
		"loopback": addr("127.0.0.53"), "multicast": addr("224.0.0.251"), "itself": addr("0.0.0.0"), "everybody": addr("255.255.255.255"),
	}
}

// hosts returns the hosts as IPAM knows them.
func hosts() []ipam.Host {
	n := needed()
	return []ipam.Host{{Name: "node rome-1", Addr: n["a node"]}, {Name: "node rome-2", Addr: n["another node"]}, {Name: "node rome-1", Addr: n["a node's public address"]},
		{Name: "the API server", Addr: n["the API server"]}, {Name: "the API server", Addr: n["the public API server"]}, {Name: "Service kube-system/kube-dns", Addr: n["cluster DNS"]}}
}

// hostOf returns a node as its agent knows it.
func hostOf(name string) Host {
	return Host{Name: name, MTU: 1500, Dependencies: []Dependency{{Prefix: prefix("10.30.0.2/32"), Name: "a resolver"}, {Prefix: prefix("172.16.0.0/22"), Name: "the network of link eth0"},
		{Prefix: prefix("172.17.0.1/32"), Name: "a next hop"}, {Prefix: prefix("10.0.0.0/8"), Name: "the destination of a route", Routed: true}}}
}

// negotiated returns the facts of a world in which milan reported ranges in a NetworkRequest, or why the request was refused. earlier holds the views that
// another version of Liqo assigned to the ranges.
func negotiated(t *testing.T, told networkingv1beta1.CIDRs, earlier map[string]string, pools []netip.Prefix) (Facts, error) {
	t.Helper()
	o := objects(t)
	for i := range o.Networks {
		o.Networks[i].UID = types.UID(fmt.Sprint("uid-", i))
		o.Networks[i].Labels[ipamv1alpha1.LabelNetworkNotRemapped] = api.True
	}
	o.Networks = append(o.Networks, ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "reserved", Labels: map[string]string{
		ipamv1alpha1.LabelNetworkType: ipamv1alpha1.NetworkTypeReserved, ipamv1alpha1.LabelNetworkNotRemapped: api.True}},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.128.0.0/11"}, Status: ipamv1alpha1.NetworkStatus{CIDR: "10.128.0.0/11"}})
	c := &o.Configurations[0]
	c.OwnerReferences = []metav1.OwnerReference{{Kind: "NetworkRequest", Name: "milan"}}
	c.Spec.Remote.CIDR, c.Status = told, networkingv1beta1.ConfigurationStatus{}
	if earlier == nil {
		if err := CheckFacts(&networkingv1beta1.NetworkFacts{CIDR: told}); err != nil {
			return Facts{}, err
		}
	}
	wanted, err := RemoteNetworks(c)
	if err != nil {
		return Facts{}, err
	}
	remote := map[string]*ipamv1alpha1.Network{}
	for _, w := range wanted {
		o.Networks = append(o.Networks, ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: w.Name, Labels: map[string]string{ipamv1alpha1.LabelNetworkNegotiated: api.True}},
			Spec: ipamv1alpha1.NetworkSpec{CIDR: w.CIDR.String()}, Status: ipamv1alpha1.NetworkStatus{CIDR: earlier[w.CIDR.String()]}})
	}
	for key, plan := range ipam.Networks(ipam.NetworkObjects{Networks: o.Networks, Pools: pools, Hosts: hosts()}) {
		n := &o.Networks[slices.IndexFunc(o.Networks, func(n ipamv1alpha1.Network) bool { return n.Namespace == key.Namespace && n.Name == key.Name })]
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue}
		if plan.Problem != (ipam.Problem{}) {
			ready.Status, ready.Message = metav1.ConditionFalse, plan.Problem.Message
		}
		n.Status.Conditions = []metav1.Condition{ready}
		if plan.CIDR.IsValid() {
			n.Status.CIDR = plan.CIDR.String()
		}
		remote[n.Name] = n
	}
	RemoteRanges(wanted, remote, &c.Status)
	f, _ := Gather(&o)
	return f, nil
}

// TestHostileRequests: whatever a peer reports, and whatever earlier versions stored of it, no node routes packets for addresses that this cluster
// needs into a tunnel, wherever they come from. Ranges of other peers keep their routes.
func TestHostileRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 1))
	bits := []int{8, 11, 12, 16, 20, 22, 24, 30, 32}
	all := needed()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range all {
			if !yield(name) {
				return
			}
		}
	})
	hostile := func() string { // a random range, often one that contains a needed address
		if r.IntN(3) > 0 {
			return netip.PrefixFrom(all[names[r.IntN(len(names))]], bits[r.IntN(len(bits))]).Masked().String()
		}
		first := []byte{10, 10, 100, 172, 192, byte(r.IntN(224))}[r.IntN(6)]
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, byte(r.IntN(256)), byte(r.IntN(256)), 0}), bits[r.IntN(len(bits))]).Masked().String()
	}
	led, refused := 0, 0
	for range 4000 {
		told, earlier := networkingv1beta1.CIDRs{External: []string{hostile()}}, map[string]string(nil)
		for range 1 + r.IntN(3) {
			told.Pod = append(told.Pod, hostile())
		}
		if r.IntN(4) == 0 { // another version assigned the requested ranges as views
			earlier = map[string]string{}
			for _, p := range append(told.Pod, told.External...) {
				earlier[p] = p
			}
		}
		pools := ipam.DefaultPools()
		if r.IntN(3) == 0 {
			pools = []netip.Prefix{prefix("10.192.0.0/10"), prefix("172.16.0.0/12")}
		}
		f, err := negotiated(t, told, earlier, pools)
		if err != nil {
			refused++
			continue
		}
		led += len(f.Peers)
		for _, n := range f.Nodes {
			state := CompileNode(&f, hostOf(n.Name), FirstChoice(&f))
			for name, destination := range all {
				for _, source := range []netip.Addr{{}, n.IP, addr("10.10.1.5"), addr("198.51.100.1")} {
					p := &passage{state: &state, packet: Packet{Source: source, Destination: destination}}
					if route, ok := p.route(); ok {
						t.Fatalf("%+v, earlier %v: packets from %s to %s (%s) go by %s", told, earlier, source, destination, name, route)
					}
				}
			}
		}
	}
	if led < 150 || refused < 300 {
		t.Errorf("%d peers were led, %d requests refused: the test does not try what matters", led, refused)
	}
}

// TestRulesSelectBySource: a wrong route in the routing table for peers, even a default route, never captures packets of a node to public or special addresses,
// whatever their source. The rules select only packets of pods, and packets of nodes to private ranges.
func TestRulesSelectBySource(t *testing.T) {
	f, err := negotiated(t, networkingv1beta1.CIDRs{Pod: []string{"10.20.0.0/16"}, External: []string{"10.71.0.0/16"}}, nil, ipam.DefaultPools())
	if err != nil || len(f.Peers) != 1 {
		t.Fatalf("%v, peers %+v", err, f.Peers)
	}
	n := &f.Nodes[0]
	state := CompileNode(&f, hostOf(n.Name), FirstChoice(&f))
	if len(state.Routes) == 0 {
		t.Fatal("no peer has a route")
	}
	wrong := state.Routes[0]
	wrong.Destination = prefix("0.0.0.0/0")
	state.Routes = append(state.Routes, wrong)
	captured := func(source, destination netip.Addr) bool {
		_, ok := (&passage{state: &state, packet: Packet{Source: source, Destination: destination}}).route()
		return ok
	}
	for _, destination := range []string{"8.8.8.8", "203.0.113.77", "169.254.169.254", "127.0.0.53", "224.0.0.251"} {
		for _, source := range []netip.Addr{{}, n.IP, addr("203.0.113.1"), addr("198.51.100.1")} {
			if captured(source, addr(destination)) {
				t.Errorf("a packet of the node from %s to %s takes a route to a peer", source, destination)
			}
		}
	}
	if pod := n.Pods[0].Addr().Next(); !captured(pod, state.Routes[0].Destination.Addr()) {
		t.Errorf("a packet of pod %s takes no route to a peer", pod)
	}
}

// TestPeersDoNotChooseTheirViews: the views of a peer do not depend on the ranges that it reports, so a peer cannot attract packets to a given address.
func TestPeersDoNotChooseTheirViews(t *testing.T) {
	places := func(pods ...string) []string {
		f, err := negotiated(t, networkingv1beta1.CIDRs{Pod: pods, External: []string{"10.70.0.0/16"}}, nil, ipam.DefaultPools())
		if err != nil || len(f.Peers) != 1 {
			t.Fatalf("%v, peers %+v", err, f.Peers)
		}
		var views []string
		for _, view := range f.Peers[0].Views() {
			views = append(views, view.String())
		}
		return slices.Sorted(slices.Values(views))
	}
	want := places("10.20.0.0/16")
	if slices.Contains(want, "10.20.0.0/16") {
		t.Errorf("a peer is seen where it says: %v", want)
	}
	for _, pods := range []string{"10.21.0.0/16", "10.19.0.0/16", "10.240.0.0/16", "192.168.0.0/16", "100.64.0.0/16"} {
		if diff := cmp.Diff(want, places(pods)); diff != "" {
			t.Errorf("a peer that names %s instead is seen elsewhere (-want +got):\n%s", pods, diff)
		}
	}
}

// TestRangesOnTheLinksOfANode: a node refuses a range that overlaps the networks of its links, which IPAM cannot know, and names the cure. It does
// not refuse ranges that an administrator configured.
func TestRangesOnTheLinksOfANode(t *testing.T) {
	f, _ := apart()
	host := Host{Name: "rome-1", MTU: 1500, Dependencies: []Dependency{{Prefix: prefix("10.20.7.0/24"), Name: "the network of link eth1"}}}
	facts := &f.Facts
	if problems := Refusals(facts, host); len(problems) > 0 || len(CompileNode(facts, host, f.active()).Routes) != 2 {
		t.Errorf("what an administrator entered is refused: %v", problems)
	}
	facts.Peers[0].Negotiated = true
	problems := Refusals(facts, host)
	if len(problems) != 1 || problems[0].String() != `Node rome-1: range 10.20.0.0/16, under which this cluster sees cluster "milan", is not routed there: it overlaps 10.20.7.0/24 (the network of link eth1); add 10.20.7.0/24 to ipam.reservedSubnets and delete the Network of the range: Liqo then chooses another range, which ends the open connections to the cluster. `+
		`If these addresses belong to cluster milan, an administrator of this cluster removes annotation networking.liqo.io/reported-by-peer from the Configuration in namespace liqo-tenant-milan instead` {
		t.Errorf("problems %q", problems)
	}
	if state := CompileNode(facts, host, f.active()); len(state.Routes) != 1 || state.Routes[0].Destination != prefix("10.71.0.0/16") {
		t.Errorf("routes %v", state.Routes)
	}
}

// TestRangesThatLiqoctlReadAreChecked: a node refuses a range that overlaps a network of the node also if liqoctl read the range in the peer. It does not refuse what
// an administrator entered in the same Configuration.
func TestRangesThatLiqoctlReadAreChecked(t *testing.T) {
	for _, read := range []bool{false, true} {
		o := objects(t)
		if read {
			metav1.SetMetaDataAnnotation(&o.Configurations[0].ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
		}
		facts, _ := Gather(&o)
		peer := facts.Peers[slices.IndexFunc(facts.Peers, func(p Peer) bool { return p.ClusterID == o.Configurations[0].Labels[api.LabelRemoteClusterID] })]
		host := Host{Name: "rome-1", MTU: 1500, Dependencies: []Dependency{{Prefix: peer.Pods[0].View, Name: "the network of link eth1"}}}
		if views, problems := Admitted(&peer, host); slices.Contains(views, peer.Pods[0].View) == read || (len(problems) == 1) != read {
			t.Errorf("read by liqoctl %t: routes to %v, %v", read, views, problems)
		}
	}
}

// TestWideRoutesOfANode: a node may reach any network behind a wide static route, such as 10.0.0.0/8. A range whose addresses the peer named is not routed to the
// peer there, and the problem names the cures. A range whose place this cluster chose is, because nearly all places are behind such a route.
func TestWideRoutesOfANode(t *testing.T) {
	read := func(o *Objects) {
		metav1.SetMetaDataAnnotation(&o.Configurations[0].ObjectMeta, networkingv1beta1.AnnotationReportedByPeer, api.True)
	}
	for name, row := range map[string]struct {
		change func(*Objects)
		routed bool
	}{
		"an administrator entered it": {func(*Objects) {}, true},
		"liqoctl read it":             {read, false},
		"liqoctl read it, and this cluster chose another view": {func(o *Objects) {
			read(o)
			o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.21.0.0/16"
		}, true},
		"liqoctl read it, and own ranges are unknown": {func(o *Objects) {
			read(o)
			o.Networks = slices.DeleteFunc(o.Networks, func(n ipamv1alpha1.Network) bool {
				return n.Labels[ipamv1alpha1.LabelNetworkType] == ipamv1alpha1.NetworkTypeService
			})
			o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.21.0.0/16"
		}, true},
		"a request named it": {func(o *Objects) {
			o.Configurations[0].Labels[networkingv1beta1.LabelNegotiated] = api.True
			o.Configurations[0].Status.Remote.CIDR.Pod[0] = "10.21.0.0/16"
		}, true},
		"a request named it, and an earlier version let it keep its addresses": {func(o *Objects) { o.Configurations[0].Labels[networkingv1beta1.LabelNegotiated] = api.True }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects(t)
			o.Configurations[0].Spec.Remote.CIDR.Pod, o.Configurations[0].Status.Remote.CIDR.Pod = []string{"10.20.0.0/16"}, []string{"10.20.0.0/16"}
			row.change(&o)
			facts, _ := Gather(&o)
			peer := facts.Peers[slices.IndexFunc(facts.Peers, func(p Peer) bool { return p.ClusterID == o.Configurations[0].Labels[api.LabelRemoteClusterID] })]
			view := peer.Pods[0].View
			host := Host{Name: "rome-1", MTU: 1500, Dependencies: []Dependency{{Prefix: prefix("10.0.0.0/8"), Name: "the destination of a route", Routed: true}}}
			views, problems := Admitted(&peer, host)
			if slices.Contains(views, view) != row.routed {
				t.Errorf("%s is routed: %t, want %t (%v)", view, !row.routed, row.routed, problems)
			}
			for _, p := range problems {
				// To reserve the whole destination would end the networks of other peers.
				if !strings.Contains(p.Text, "it overlaps 10.0.0.0/8 (the destination of a route); add "+view.String()+" to ipam.reservedSubnets") {
					t.Errorf("problem %q", p.Text)
				}
			}
		})
	}
}

// TestPeersChooseNoViewsWithoutOwnRanges: the ranges that liqoctl read in a peer keep their addresses only if this cluster knows its own pod and service ranges.
// Otherwise the peer could name a part of the service range, so this cluster chooses the view. What an administrator entered is used as it is.
func TestPeersChooseNoViewsWithoutOwnRanges(t *testing.T) {
	own := func(kinds ...string) (out []ipamv1alpha1.Network) {
		for _, kind := range kinds {
			network := ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{
				ipamv1alpha1.LabelNetworkType: kind, ipamv1alpha1.LabelNetworkNotRemapped: api.True,
			}}}
			network.Spec.CIDR = map[string]string{ipamv1alpha1.NetworkTypePod: "10.10.0.0/16", ipamv1alpha1.NetworkTypeService: "10.96.0.0/12"}[kind]
			out = append(out, network)
		}
		return out
	}
	read := map[string]string{networkingv1beta1.AnnotationReportedByPeer: api.True}
	for name, row := range map[string]struct {
		meta     metav1.ObjectMeta
		own      []ipamv1alpha1.Network
		named    string
		unwanted bool
	}{
		"services":                             {metav1.ObjectMeta{Annotations: read}, own("pod-cidr", "service-cidr"), "10.97.0.0/16", true},
		"services of an unknown range":         {metav1.ObjectMeta{Annotations: read}, own("pod-cidr"), "10.97.0.0/16", true},
		"pods of an unknown range":             {metav1.ObjectMeta{Annotations: read}, own("service-cidr"), "10.10.0.0/16", true},
		"another range":                        {metav1.ObjectMeta{Annotations: read}, own("pod-cidr", "service-cidr"), "10.20.0.0/16", false},
		"another range, in a request":          {metav1.ObjectMeta{Labels: map[string]string{networkingv1beta1.LabelNegotiated: api.True}}, own("pod-cidr", "service-cidr"), "10.20.0.0/16", true},
		"another range, by an administrator":   {metav1.ObjectMeta{}, own("pod-cidr", "service-cidr"), "10.20.0.0/16", false},
		"an unknown range by an administrator": {metav1.ObjectMeta{}, own("pod-cidr"), "10.97.0.0/16", false},
	} {
		remote := ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}, Spec: ipamv1alpha1.NetworkSpec{CIDR: row.named}}
		if ChoosesViews(&networkingv1beta1.Configuration{ObjectMeta: row.meta}, row.own) {
			remote.Labels = map[string]string{ipamv1alpha1.LabelNetworkNegotiated: api.True}
		}
		// What a cluster always knows: the Services of the API server and of its DNS.
		hosts := []ipam.Host{{Name: "Service default/kubernetes", Addr: netip.MustParseAddr("10.96.0.1")}, {Name: "Service kube-system/kube-dns", Addr: netip.MustParseAddr("10.96.0.10")}}
		plan := ipam.Networks(ipam.NetworkObjects{Networks: append(slices.Clone(row.own), remote), Pools: ipam.DefaultPools(), Hosts: hosts})
		view := plan[types.NamespacedName{Namespace: remote.Namespace, Name: remote.Name}].CIDR
		if !view.IsValid() || (view.String() != row.named) != row.unwanted {
			t.Errorf("%s: %s is seen as %s; chosen by this cluster: want %t", name, row.named, view, row.unwanted)
		}
	}
}
