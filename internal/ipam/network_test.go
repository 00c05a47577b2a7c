package ipam

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/api"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/reasons"
)

var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// net makes a Network from "name wanted [given]"; those without a slash in their name are local, in namespace liqo.
func net(text string, age int, labels ...string) ipamv1alpha1.Network {
	fields := strings.Fields(text)
	namespace, name, remote := strings.Cut(fields[0], "/")
	if !remote {
		namespace, name = "liqo", fields[0]
	}
	n := ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(birth.Add(time.Duration(age) * time.Second)), Labels: map[string]string{},
		},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: fields[1]},
	}
	if len(fields) > 2 {
		n.Status.CIDR = fields[2]
	}
	if remote {
		n.Labels[api.LabelRemoteClusterID] = namespace
	} else {
		n.Labels[ipamv1alpha1.LabelNetworkType] = fields[0]
	}
	for _, label := range labels {
		n.Labels[label] = api.True
	}
	return n
}

func pods(text string) ipamv1alpha1.Network {
	return net(text, 0, ipamv1alpha1.LabelNetworkNotRemapped, ipamv1alpha1.LabelNetworkShared)
}

func fixed(text string) ipamv1alpha1.Network {
	return net(text, 0, ipamv1alpha1.LabelNetworkNotRemapped)
}

func reserved(text string) ipamv1alpha1.Network {
	n := fixed(text)
	n.Labels[ipamv1alpha1.LabelNetworkType] = ipamv1alpha1.NetworkTypeReserved
	return n
}

func pools(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// show is a plan as text: "namespace/name CIDR Reason", sorted.
func show(plan map[types.NamespacedName]NetworkPlan) []string {
	var out []string
	for key, p := range plan {
		cidr := "none"
		if p.CIDR.IsValid() {
			cidr = p.CIDR.String()
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", key, cidr, p.Problem.Reason)))
	}
	slices.Sort(out)
	return out
}

func TestNetworks(t *testing.T) {
	local := []ipamv1alpha1.Network{
		pods("pod-cidr 10.244.0.0/16"), fixed("service-cidr 10.96.0.0/12"), net("external-cidr 10.70.0.0/16", 0), net("internal-cidr 10.80.0.0/16", 0),
	}
	all := func(more ...ipamv1alpha1.Network) []ipamv1alpha1.Network { return append(slices.Clone(local), more...) }
	given := func(more ...ipamv1alpha1.Network) []ipamv1alpha1.Network {
		out := slices.Clone(local)
		for i := range out {
			out[i].Status.CIDR = out[i].Spec.CIDR
		}
		return append(out, more...)
	}
	ours := []string{"liqo/external-cidr 10.70.0.0/16", "liqo/internal-cidr 10.80.0.0/16", "liqo/pod-cidr 10.244.0.0/16", "liqo/service-cidr 10.96.0.0/12"}
	for name, row := range map[string]struct {
		networks []ipamv1alpha1.Network
		pools    []netip.Prefix
		hosts    []Host
		want     []string
		// says holds parts of the message of a problem, or of the reason for another range.
		says []string
	}{
		"an installation": {networks: all(), want: ours},
		"a peer with ranges of its own": {
			networks: all(net("rome/pod 10.20.0.0/16", 1), net("rome/external 10.71.0.0/16", 1)),
			want:     append(slices.Clone(ours), "rome/external 10.71.0.0/16", "rome/pod 10.20.0.0/16"),
		},
		"a peer with the same ranges": {
			networks: all(net("rome/pod 10.244.0.0/16", 1), net("rome/external 10.70.0.0/16", 1)),
			want:     append(slices.Clone(ours), "rome/external 10.71.0.0/16", "rome/pod 10.245.0.0/16"),
			says:     []string{"10.244.0.0/16 (Network liqo/pod-cidr)"},
		},
		"three peers with the same ranges at once": {
			networks: given(net("a/pod 10.244.0.0/16", 1), net("b/pod 10.244.0.0/16", 1), net("c/pod 10.244.0.0/16", 1)),
			want:     append([]string{"a/pod 10.245.0.0/16", "b/pod 10.246.0.0/16", "c/pod 10.247.0.0/16"}, ours...),
		},
		"a wanted range goes before a chosen one": {
			networks: given(net("a/pod 10.244.0.0/16", 1), net("b/pod 10.245.0.0/16", 2)),
			want:     append([]string{"a/pod 10.246.0.0/16", "b/pod 10.245.0.0/16"}, ours...),
		},
		"what was given stays, though another one would be wanted": {
			networks: given(net("a/pod 10.244.0.0/16 10.9.0.0/16", 1), net("b/pod 10.9.0.0/16", 2)),
			want:     append([]string{"a/pod 10.9.0.0/16", "b/pod 10.10.0.0/16"}, ours...),
		},
		"a released range is free": {
			networks: given(net("b/pod 10.9.0.0/16", 2)),
			want:     append([]string{"b/pod 10.9.0.0/16"}, ours...),
		},
		"ranges of any length, inside of others": {
			networks: given(net("a/pod 10.96.5.0/24", 1), net("b/pod 10.64.0.0/10", 1), net("c/pod 10.244.7.128/25", 1)),
			want:     append([]string{"a/pod 10.112.0.0/24", "b/pod 10.128.0.0/10", "c/pod 10.245.0.0/25"}, ours...),
		},
		"the end of a pool, and the next one": {
			networks: []ipamv1alpha1.Network{
				pods("pod-cidr 192.168.255.0/24"), net("a/pod 192.168.255.0/24", 1), net("b/pod 192.168.0.0/16", 1),
			},
			want: []string{"a/pod 192.168.0.0/24", "b/pod 10.0.0.0/16", "liqo/pod-cidr 192.168.255.0/24"},
		},
		"pools in their order, for a range outside of them": {
			networks: []ipamv1alpha1.Network{pods("pod-cidr 34.118.224.0/20"), net("a/pod 34.118.224.0/20", 1)},
			pools:    pools("172.16.0.0/12", "10.0.0.0/8"),
			want:     []string{"a/pod 172.16.0.0/20", "liqo/pod-cidr 34.118.224.0/20"},
		},
		"a full pool": {
			networks: []ipamv1alpha1.Network{pods("pod-cidr 10.0.0.0/25"), net("a/pod 10.0.0.0/25", 1), net("b/pod 10.0.0.0/25", 2)},
			pools:    pools("10.0.0.0/24"),
			want:     []string{"a/pod 10.0.0.128/25", "b/pod none Exhausted", "liqo/pod-cidr 10.0.0.0/25"},
			says:     []string{"spec.cidr 10.0.0.0/25 overlaps 10.0.0.0/25 (Network liqo/pod-cidr)", "/25", "pools 10.0.0.0/24", "ipam.pools"},
		},
		"a range as large as everything": {
			networks: given(net("a/pod 0.0.0.0/0", 1)),
			want:     append([]string{"a/pod none Exhausted"}, ours...),
		},
		"ranges that mean something else on every host": {
			networks: given(net("a/pod 127.0.0.0/16", 1), net("b/pod 169.254.0.0/24", 1), net("c/pod 240.0.0.0/24", 1)),
			want:     append([]string{"a/pod 10.0.0.0/16", "b/pod 10.1.0.0/24", "c/pod 10.1.1.0/24"}, ours...),
		},
		"addresses of nodes": {
			networks: given(net("a/pod 172.30.0.0/16", 1), net("b/pod 172.31.0.0/16", 1)),
			hosts:    []Host{{"node rome-1", netip.MustParseAddr("172.30.1.2")}, {"node six", netip.MustParseAddr("fd00::1")}},
			want:     append([]string{"a/pod 172.16.0.0/16", "b/pod 172.31.0.0/16"}, ours...),
			says:     []string{"172.30.1.2/32 (the address of node rome-1)"},
		},
		"a node that came later": {
			networks: given(net("a/pod 172.30.0.0/16 172.30.0.0/16", 1)),
			hosts:    []Host{{"node rome-1", netip.MustParseAddr("172.30.1.2")}},
			want:     append([]string{"a/pod 172.30.0.0/16 Conflict"}, ours...),
			says:     []string{"172.30.0.0/16 holds 172.30.1.2, the address of node rome-1"},
		},
		"a reserved subnet that holds what is ours": {
			networks: all(reserved("reserved-10 10.0.0.0/8"), net("a/pod 10.1.0.0/16", 1)),
			want: []string{
				"a/pod 172.17.0.0/16", "liqo/external-cidr 192.168.0.0/16", "liqo/internal-cidr 172.16.0.0/16", "liqo/pod-cidr 10.244.0.0/16",
				"liqo/reserved-10 10.0.0.0/8", "liqo/service-cidr 10.96.0.0/12",
			},
		},
		"a reserved subnet that came after a peer": {
			networks: given(net("a/pod 10.1.0.0/16 10.1.0.0/16", 1), func() ipamv1alpha1.Network {
				n := reserved("reserved-10-1 10.1.0.0/24")
				n.CreationTimestamp = metav1.NewTime(birth.Add(time.Hour))
				return n
			}()),
			want: append([]string{"a/pod 10.1.0.0/16", "liqo/reserved-10-1 10.1.0.0/24 Conflict"}, ours...),
			says: []string{"10.1.0.0/24 overlaps 10.1.0.0/16 of Network a/pod"},
		},
		"a service CIDR over that of pods may not be": {
			networks: []ipamv1alpha1.Network{fixed("a 10.0.0.0/16"), fixed("b 10.0.0.0/8")},
			want:     []string{"liqo/a 10.0.0.0/16", "liqo/b none Conflict"},
		},
		"shared pod CIDRs may overlap": {
			networks: []ipamv1alpha1.Network{pods("a 10.0.0.0/16"), pods("b 10.0.0.0/8")},
			want:     []string{"liqo/a 10.0.0.0/16", "liqo/b 10.0.0.0/8"},
		},
		"what is wrong with a range": {
			networks: []ipamv1alpha1.Network{
				net("a/six fd00::/64", 1), net("a/host 10.0.0.1/16", 1), net("a/word ten", 1), net("a/length 10.0.0.0/16 10.1.0.0/17", 1),
				func() ipamv1alpha1.Network {
					n := net("a/kept 10.2.0.0/30", 1)
					n.Spec.PreAllocated = 5
					return n
				}(),
				net("b/next 10.1.0.0/17", 1),
			},
			want: []string{
				"a/host none Invalid", "a/kept none Invalid", "a/length 10.1.0.0/17 Invalid", "a/six none Invalid", "a/word none Invalid", "b/next 10.1.128.0/17",
			},
			says: []string{"write 10.0.0.0/16", "IPv6", "write it as address/bits", "has only 4 addresses", "another length"},
		},
		"the range with the lowest address is named, whichever is older": {
			networks: []ipamv1alpha1.Network{
				net("l/pod 10.200.0.0/16 10.200.0.0/16", 1), net("l/external 10.70.0.0/16 10.70.0.0/16", 2), net("p/big 10.0.0.0/8", 3),
			},
			pools: pools("10.0.0.0/8"),
			want:  []string{"l/pod 10.200.0.0/16", "l/external 10.70.0.0/16", "p/big none Exhausted"},
			says:  []string{"10.0.0.0/8 overlaps 10.70.0.0/16"},
		},
		"two that were given the same": {
			networks: []ipamv1alpha1.Network{net("a/pod 10.0.0.0/16 10.0.0.0/16", 1), net("b/pod 10.1.0.0/16 10.0.0.0/16", 2)},
			want:     []string{"a/pod 10.0.0.0/16", "b/pod 10.0.0.0/16 Conflict"},
			says:     []string{"10.0.0.0/16 overlaps 10.0.0.0/16 of Network a/pod"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if row.pools == nil {
				row.pools = DefaultPools()
			}
			plan := Networks(NetworkObjects{Networks: row.networks, Pools: row.pools, Hosts: row.hosts})
			slices.Sort(row.want)
			if diff := cmp.Diff(row.want, show(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var told []string
			for _, p := range plan {
				told = append(told, p.Problem.Message, p.Instead)
			}
			for _, part := range row.says {
				if !strings.Contains(strings.Join(told, "\n"), part) {
					t.Errorf("nothing tells %q:\n%s", part, strings.Join(told, "\n"))
				}
			}
		})
	}
}

// TestNegotiatedNetworks: a range that only the peer reported never keeps its own addresses as its view. The view overlaps no address of a host, and is moved
// when this cluster needs its range.
func TestNegotiatedNetworks(t *testing.T) {
	local := []ipamv1alpha1.Network{pods("pod-cidr 10.244.0.0/16"), fixed("service-cidr 10.96.0.0/12"), reserved("reserved 10.64.0.0/11")}
	hosts := []Host{{"node rome-1", netip.MustParseAddr("172.16.1.2")}, {"the API server", netip.MustParseAddr("10.130.0.7")}}
	plan := func(pools []netip.Prefix, text string) NetworkPlan {
		n := net(text, 1, ipamv1alpha1.LabelNetworkNegotiated)
		return Networks(NetworkObjects{Networks: append(slices.Clone(local), n), Pools: pools, Hosts: hosts})[keyOf(&n.ObjectMeta)]
	}
	for _, pools := range [][]netip.Prefix{DefaultPools(), pools("10.128.0.0/14"), pools("100.64.0.0/10")} {
		first := plan(pools, "evil/a 10.20.0.0/16")
		if first.Problem != (Problem{}) || !within(pools, first.CIDR) || !strings.Contains(first.Instead, "was named by the peer alone") {
			t.Errorf("pools %v: %+v", pools, first)
		}
		for _, host := range neighbourhoods(hosts) {
			if host.prefix.Overlaps(first.CIDR) {
				t.Errorf("pools %v: %s is in %s", pools, first.CIDR, host.name)
			}
		}
		for _, wanted := range []string{"10.19.0.0/16", "10.240.0.0/16", "192.168.0.0/16", "100.64.0.0/16"} {
			if got := plan(pools, "evil/a "+wanted); got.CIDR != first.CIDR {
				t.Errorf("pools %v: %s is seen as %s, others as %s", pools, wanted, got.CIDR, first.CIDR)
			}
		}
	}
	// If only ranges near the API server are free, one of them is chosen, but none that contains its address.
	if got := plan(pools("10.130.0.0/24"), "evil/a 10.20.0.0/25"); got.CIDR != netip.MustParsePrefix("10.130.0.128/25") {
		t.Errorf("beside the API server: %+v", got)
	}
	for given, says := range map[string]string{
		"8.8.8.0/24": "is in none of the pools", "10.96.7.0/24": "overlaps 10.96.0.0/12", "10.70.7.0/24": "overlaps 10.64.0.0/11 of Network liqo/reserved",
		"172.16.1.0/24": "the address of node rome-1", "10.130.0.0/24": "the address of the API server", "10.20.0.0/24": "",
	} {
		if got := plan(DefaultPools(), "evil/a 10.20.0.0/24 "+given); !strings.Contains(got.Problem.Message, says) || (got.Problem == Problem{}) != (says == "") {
			t.Errorf("given %s before: %+v", given, got.Problem)
		}
	}
}

// TestReportedNetworks: a range that liqoctl read in the peer keeps its addresses, unless it overlaps the network around a node or an API server. Where such a network
// ends is unknown to this cluster, and the peer must not attract packets to other hosts in it. What an administrator entered keeps its addresses.
func TestReportedNetworks(t *testing.T) {
	local := []ipamv1alpha1.Network{pods("pod-cidr 10.244.0.0/16"), fixed("service-cidr 10.96.0.0/12")}
	hosts := []Host{{"node rome-1", netip.MustParseAddr("172.16.1.2")}, {"the API server", netip.MustParseAddr("10.130.0.7")}, {"the address of the API server for peers", netip.MustParseAddr("203.0.113.7")}}
	plan := func(text string, labels ...string) NetworkPlan {
		n := net(text, 1, labels...)
		return Networks(NetworkObjects{Networks: append(slices.Clone(local), n), Pools: DefaultPools(), Hosts: hosts})[keyOf(&n.ObjectMeta)]
	}
	for wanted, around := range map[string]string{
		"10.20.0.0/16": "", "10.131.0.0/16": "", "100.64.0.0/16": "", "172.17.0.0/16": "",
		"10.130.9.0/24": "overlaps 10.130.0.0/16 (the network around the API server)", "10.128.0.0/12": "the API server",
		"172.16.200.0/24": "overlaps 172.16.0.0/16 (the network around node rome-1)",
	} {
		got := plan("milan/a "+wanted, ipamv1alpha1.LabelNetworkReported)
		if around != "" && wanted != "10.128.0.0/12" && !got.CIDR.Overlaps(DefaultPools()[0]) {
			t.Errorf("reported %s: %s is outside of the first pool: the peer chose the place", wanted, got.CIDR)
		}
		if got.Problem != (Problem{}) || !strings.Contains(got.Instead, around) || (got.CIDR.String() == wanted) != (around == "") || overlapped(got.CIDR, neighbourhoods(hosts)) != nil {
			t.Errorf("reported %s: %+v, want another place: %q", wanted, got, around)
		}
		if got := plan("milan/a " + wanted); got.CIDR.String() != wanted && !got.CIDR.Contains(hosts[1].Addr) && !netip.MustParsePrefix(wanted).Contains(hosts[1].Addr) {
			t.Errorf("entered %s: %+v", wanted, got)
		}
	}
}

// TestLawsOfNetworks holds in random histories of created and deleted Networks, with planners that restart at every step.
func TestLawsOfNetworks(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		networks := []ipamv1alpha1.Network{pods("pod-cidr 10.244.0.0/16"), fixed("service-cidr 10.96.0.0/12"), net("external-cidr 10.70.0.0/16", 0)}
		hosts := []Host{{"node", netip.MustParseAddr("10.3.4.5")}}
		for step := range 30 {
			if r.IntN(3) == 0 && len(networks) > 3 {
				i := 3 + r.IntN(len(networks)-3)
				networks = slices.Delete(networks, i, i+1)
			}
			for range r.IntN(4) {
				wanted := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(8)), byte(r.IntN(256)), 0}), 12+r.IntN(12)).Masked()
				networks = append(networks, net(fmt.Sprintf("peer-%d/%d %s", r.IntN(5), len(networks)*100+step, wanted), step))
			}
			objects := NetworkObjects{Networks: networks, Pools: pools("10.0.0.0/13", "10.64.0.0/10"), Hosts: hosts}
			plan := Networks(objects)
			checkNetworkLaws(t, objects, plan)
			shuffled := objects
			shuffled.Networks = slices.Clone(networks)
			r.Shuffle(len(networks), func(i, j int) {
				shuffled.Networks[i], shuffled.Networks[j] = shuffled.Networks[j], shuffled.Networks[i]
			})
			if diff := cmp.Diff(plan, Networks(shuffled), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Fatalf("seed %d: the order of the objects matters:\n%s", seed, diff)
			}
			for i := range networks { // as if the process had stopped after some of the writes
				if p := plan[keyOf(&networks[i].ObjectMeta)]; p.CIDR.IsValid() && r.IntN(4) > 0 {
					networks[i].Status.CIDR = p.CIDR.String()
				}
			}
		}
	}
}

// checkNetworkLaws checks one plan against its input.
func checkNetworkLaws(t *testing.T, objects NetworkObjects, plan map[types.NamespacedName]NetworkPlan) {
	t.Helper()
	type placed struct {
		object *ipamv1alpha1.Network
		plan   NetworkPlan
	}
	var all []placed
	for i := range objects.Networks {
		object := &objects.Networks[i]
		p, ok := plan[keyOf(&object.ObjectMeta)]
		if !ok {
			t.Fatalf("%s is not in the plan", object.Name)
		}
		if object.Status.CIDR != "" && p.CIDR.String() != object.Status.CIDR {
			t.Fatalf("%s had %s and has %s now", object.Name, object.Status.CIDR, p.CIDR)
		}
		if (p.Problem == Problem{}) != p.CIDR.IsValid() && object.Status.CIDR == "" && p.Problem.Reason != reasons.Conflict {
			t.Fatalf("%s has %s and problem %+v", object.Name, p.CIDR, p.Problem)
		}
		if !p.CIDR.IsValid() || p.Problem.Reason == reasons.Conflict {
			continue
		}
		if wanted := netip.MustParsePrefix(object.Spec.CIDR); wanted.Bits() != p.CIDR.Bits() || p.CIDR != p.CIDR.Masked() {
			t.Fatalf("%s wants %s and has %s", object.Name, wanted, p.CIDR)
		}
		all = append(all, placed{object, p})
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.plan.CIDR.Overlaps(b.plan.CIDR) {
				t.Fatalf("%s of %s overlaps %s of %s", a.plan.CIDR, a.object.Name, b.plan.CIDR, b.object.Name)
			}
		}
		for _, host := range objects.Hosts {
			if a.object.Status.CIDR == "" && a.plan.CIDR.Contains(host.Addr) && a.object.Labels[ipamv1alpha1.LabelNetworkNotRemapped] == "" {
				t.Fatalf("%s of %s holds the address %s of %s", a.plan.CIDR, a.object.Name, host.Addr, host.Name)
			}
		}
	}
}

func FuzzNetworks(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0, 16, 0, 10, 0, 0, 0, 16, 0})
	f.Add([]byte{10, 0, 0, 0, 8, 1, 10, 1, 0, 0, 16, 2, 0, 0, 0, 0, 0, 3, 255, 255, 255, 255, 32, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		objects := NetworkObjects{Pools: DefaultPools(), Hosts: []Host{{"node", netip.MustParseAddr("10.0.0.5")}}}
		for i := 0; i+6 <= len(data) && i < 6*40; i += 6 {
			addr := fromNumber(binary.BigEndian.Uint32(data[i:]))
			n := net(fmt.Sprintf("peer/%d %s", i, netip.PrefixFrom(addr, int(data[i+4]%33)).Masked()), i)
			if data[i+5]&1 != 0 {
				n.Labels[ipamv1alpha1.LabelNetworkNotRemapped] = api.True
			}
			objects.Networks = append(objects.Networks, n)
		}
		plan := Networks(objects)
		checkNetworkLaws(t, objects, plan)
		for i := range objects.Networks {
			if p := plan[keyOf(&objects.Networks[i].ObjectMeta)]; p.CIDR.IsValid() {
				objects.Networks[i].Status.CIDR = p.CIDR.String()
			}
		}
		checkNetworkLaws(t, objects, Networks(objects))
	})
}

func BenchmarkNetworks(b *testing.B) {
	objects := NetworkObjects{Pools: DefaultPools(), Networks: []ipamv1alpha1.Network{pods("pod-cidr 10.244.0.0/16")}}
	for i := range 500 {
		objects.Networks = append(objects.Networks, net(fmt.Sprintf("peer/%d 10.244.%d.0/24", i, i%256), i))
	}
	for b.Loop() {
		Networks(objects)
	}
}
