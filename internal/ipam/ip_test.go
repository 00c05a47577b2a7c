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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/reasons"
)

var external = types.NamespacedName{Namespace: "liqo", Name: "external-cidr"}

// ip makes an IP from "namespace/name address [given]".
func ip(text string, age int) ipamv1alpha1.IP {
	fields := strings.Fields(text)
	namespace, name, _ := strings.Cut(fields[0], "/")
	out := ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(birth.Add(time.Duration(age) * time.Second))},
		Spec:       ipamv1alpha1.IPSpec{IP: fields[1]},
	}
	if len(fields) > 2 {
		out.Status.IP = fields[2]
	}
	return out
}

// from makes an IP take its address from a Network.
func from(ip ipamv1alpha1.IP, namespace, name string) ipamv1alpha1.IP {
	ip.Spec.NetworkRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	return ip
}

func showIPs(plan map[types.NamespacedName]IPPlan) []string {
	var out []string
	for key, p := range plan {
		addr := "none"
		if p.Addr.IsValid() {
			addr = p.Addr.String()
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", key, addr, p.Problem.Reason)))
	}
	slices.Sort(out)
	return out
}

func TestIPs(t *testing.T) {
	small := net("external-cidr 10.70.0.0/29 10.70.0.0/29", 0)
	small.Spec.PreAllocated = 4 // .4, .5 and .6 are free: .7 is the last address of the range
	waiting := net("external-cidr 10.70.0.0/29", 0)
	wide, pods := net("external-cidr 10.70.0.0/24 10.70.0.0/24", 0), net("pod-cidr 10.1.0.0/16 10.1.0.0/16", 0)
	node := func(ip ipamv1alpha1.IP) ipamv1alpha1.IP {
		ip.Labels = map[string]string{ipamv1alpha1.LabelIPType: ipamv1alpha1.IPTypeNode}
		return ip
	}
	withheld := func(ip ipamv1alpha1.IP) ipamv1alpha1.IP {
		ip.Labels = map[string]string{networkingv1beta1.LabelHostUnreachable: "true"}
		return ip
	}
	leaving := func(ip ipamv1alpha1.IP) ipamv1alpha1.IP {
		ip.DeletionTimestamp = &metav1.Time{Time: birth}
		return ip
	}
	for name, row := range map[string]struct {
		networks []ipamv1alpha1.Network
		ips      []ipamv1alpha1.IP
		want     []string
		says     []string
	}{
		"all there are, and one too many": {
			networks: []ipamv1alpha1.Network{small},
			ips:      []ipamv1alpha1.IP{ip("a/1 10.0.0.1 10.70.0.4", 3), ip("a/2 10.0.0.2", 0), ip("a/3 10.0.0.3 10.70.0.6", 3), ip("a/4 10.0.0.4", 1)},
			want:     []string{"a/1 10.70.0.4", "a/2 10.70.0.5", "a/3 10.70.0.6", "a/4 none Exhausted"},
			says:     []string{"10.70.0.0/29, the range of Network liqo/external-cidr", "3 are in use and 5 are reserved", "ipam.externalCIDR"},
		},
		"two with one address": {
			networks: []ipamv1alpha1.Network{small},
			ips:      []ipamv1alpha1.IP{ip("a/young 10.0.0.1 10.70.0.4", 3), ip("a/old 10.0.0.2 10.70.0.4", 0)},
			want:     []string{"a/old 10.70.0.4", "a/young 10.70.0.4 Conflict"},
			says:     []string{"also the status.ip of IP a/old"},
		},
		"an address of another range": {
			networks: []ipamv1alpha1.Network{small},
			ips:      []ipamv1alpha1.IP{ip("a/1 10.0.0.1 10.99.0.4", 3)},
			want:     []string{"a/1 10.99.0.4 Conflict"},
			says:     []string{"10.99.0.4 is not in 10.70.0.0/29, the range of Network liqo/external-cidr"},
		},
		"a network that is not there yet": {
			ips:  []ipamv1alpha1.IP{ip("a/1 10.0.0.1", 3), ip("a/2 10.0.0.2 10.70.0.4", 3)},
			want: []string{"a/1 none WaitingForNetwork", "a/2 10.70.0.4 WaitingForNetwork"},
			says: []string{"Network liqo/external-cidr"},
		},
		"a network without a range": {
			networks: []ipamv1alpha1.Network{waiting},
			ips:      []ipamv1alpha1.IP{ip("a/1 10.0.0.1", 3)},
			want:     []string{"a/1 none WaitingForNetwork"},
		},
		"a network by name": {
			networks: []ipamv1alpha1.Network{small, func() ipamv1alpha1.Network {
				n := net("a/own 10.8.0.0/30 10.8.0.0/30", 0)
				n.Labels = nil
				return n
			}(), net("a/peer 10.9.0.0/16 10.9.0.0/16", 0), fixed("pod-cidr 10.1.0.0/16 10.1.0.0/16")},
			ips: []ipamv1alpha1.IP{
				from(ip("a/1 10.0.0.1", 0), "", "own"), from(ip("b/1 10.0.0.1", 1), "a", "own"), from(ip("b/2 10.0.0.1", 2), "", "own"),
				from(ip("c/1 10.0.0.1", 0), "a", "peer"), from(ip("c/2 10.0.0.1", 0), "liqo", "pod-cidr"),
			},
			want: []string{"a/1 10.8.0.1 NotExternal", "b/1 10.8.0.2 NotExternal", "b/2 none WaitingForNetwork", "c/1 none Invalid", "c/2 none Invalid"},
			says: []string{"Network b/own", "a/peer, which is the range of a peer", "liqo/pod-cidr, which is in use by the cluster itself"},
		},
		"one address several times": {
			networks: []ipamv1alpha1.Network{wide},
			ips: []ipamv1alpha1.IP{
				node(ip("liqo/node-a 10.0.0.1 10.70.0.4", 0)), ip("b/young 10.0.0.1 10.70.0.5", 3), ip("a/old 10.0.0.1 10.70.0.6", 2), ip("c/1 10.0.0.1 10.70.0.7", 3),
				withheld(ip("a/withheld 10.0.0.1 10.70.0.8", 1)), leaving(ip("a/leaving 10.0.0.1 10.70.0.9", 1)), node(ip("a/not-the-systems 10.0.0.2 10.70.0.10", 2)), ip("a/2 10.0.0.2 10.70.0.11", 1),
			},
			want: []string{"a/2 10.70.0.11", "a/leaving 10.70.0.9", "a/not-the-systems 10.70.0.10 Duplicate", "a/old 10.70.0.6", "a/withheld 10.70.0.8", "b/young 10.70.0.5 Duplicate", "c/1 10.70.0.7 Duplicate", "liqo/node-a 10.70.0.4"},
			says: []string{"spec.ip 10.0.0.1 is already exposed by IP a/old"},
		},
		"a pod of ours": {
			networks: []ipamv1alpha1.Network{wide, pods},
			ips:      []ipamv1alpha1.IP{ip("a/1 10.1.2.3 10.70.0.4", 0), ip("a/2 10.2.2.3 10.70.0.5", 0)},
			want:     []string{"a/1 10.70.0.4 PodAddress", "a/2 10.70.0.5"},
			says:     []string{"spec.ip 10.1.2.3 is in 10.1.0.0/16, the range of this cluster's pods"},
		},
		"addresses that peers must not reach": {
			networks: []ipamv1alpha1.Network{small},
			ips:      []ipamv1alpha1.IP{ip("a/1 127.0.0.1", 0), ip("a/2 169.254.169.254", 0), ip("a/3 224.0.0.1", 0), ip("a/4 fd00::1", 0), ip("a/5 0.0.0.0", 0), ip("a/6 8.8.8.8", 0)},
			want:     []string{"a/1 none Invalid", "a/2 none Invalid", "a/3 none Invalid", "a/4 none Invalid", "a/5 none Invalid", "a/6 10.70.0.5"},
			says:     []string{"spec.ip 127.0.0.1 is in 127.0.0.0/8", `"fd00::1" is not an IPv4 address`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := IPs(IPObjects{IPs: row.ips, Networks: row.networks, External: external})
			if diff := cmp.Diff(row.want, showIPs(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var told []string
			for _, p := range plan {
				told = append(told, p.Problem.Message)
			}
			for _, part := range row.says {
				if !strings.Contains(strings.Join(told, "\n"), part) {
					t.Errorf("nothing tells %q:\n%s", part, strings.Join(told, "\n"))
				}
			}
		})
	}
}

// TestReleasedAddressesAreReusedLate: an address depends on the name of its object: a released address is not the next one assigned, and a recreated
// object gets its former address.
func TestReleasedAddressesAreReusedLate(t *testing.T) {
	networks := []ipamv1alpha1.Network{net("external-cidr 10.70.0.0/16 10.70.0.0/16", 0)}
	address := func(name string) netip.Addr {
		return IPs(IPObjects{IPs: []ipamv1alpha1.IP{ip(name+" 10.0.0.1", 0)}, Networks: networks, External: external})[types.NamespacedName{Namespace: "a", Name: name[2:]}].Addr
	}
	seen := map[netip.Addr]bool{}
	for i := range 100 {
		seen[address(fmt.Sprintf("a/pod-%d", i))] = true
	}
	if len(seen) < 99 {
		t.Errorf("100 IPs, one after the other, got only %d addresses", len(seen))
	}
	first := address("a/pod-1")
	if again := address("a/pod-1"); again != first {
		t.Errorf("an IP that was made again got %s, it had %s", again, first)
	}
}

// TestLawsOfIPs holds in random histories, with planners that restart at every step.
func TestLawsOfIPs(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		network := net("external-cidr 10.70.0.0/27 10.70.0.0/27", 0)
		network.Spec.PreAllocated = int32(r.IntN(4)) //nolint:gosec // small
		var ips []ipamv1alpha1.IP
		for step := range 40 {
			for range r.IntN(3) {
				if len(ips) > 0 {
					i := r.IntN(len(ips))
					ips = slices.Delete(ips, i, i+1)
				}
			}
			for range r.IntN(5) {
				ips = append(ips, ip(fmt.Sprintf("a/%d-%d 10.0.0.1", step, len(ips)), r.IntN(step+1)))
			}
			objects := IPObjects{IPs: ips, Networks: []ipamv1alpha1.Network{network}, External: external}
			plan := IPs(objects)
			checkIPLaws(t, objects, plan)
			shuffled := objects
			shuffled.IPs = slices.Clone(ips)
			r.Shuffle(len(ips), func(i, j int) { shuffled.IPs[i], shuffled.IPs[j] = shuffled.IPs[j], shuffled.IPs[i] })
			if diff := cmp.Diff(showIPs(plan), showIPs(IPs(shuffled))); diff != "" {
				t.Fatalf("seed %d: the order of the objects matters:\n%s", seed, diff)
			}
			for i := range ips {
				if p := plan[keyOf(&ips[i].ObjectMeta)]; p.Addr.IsValid() && r.IntN(4) > 0 {
					ips[i].Status.IP = p.Addr.String()
				}
			}
		}
	}
}

func checkIPLaws(t *testing.T, objects IPObjects, plan map[types.NamespacedName]IPPlan) {
	t.Helper()
	s := newSource(&objects.Networks[0])
	owners := map[netip.Addr]string{}
	given := uint64(0)
	for i := range objects.IPs {
		object := &objects.IPs[i]
		p := plan[keyOf(&object.ObjectMeta)]
		if object.Status.IP != "" && p.Addr.String() != object.Status.IP {
			t.Fatalf("%s had %s and has %s now", object.Name, object.Status.IP, p.Addr)
		}
		if !p.Addr.IsValid() {
			if p.Problem.Reason != reasons.Exhausted {
				t.Fatalf("%s: %+v", object.Name, p)
			}
			continue
		}
		if other, twice := owners[p.Addr]; twice {
			t.Fatalf("%s and %s both have %s", object.Name, other, p.Addr)
		}
		owners[p.Addr] = object.Name
		given++
		if at := uint64(number(p.Addr)); at < s.first || at >= s.first+s.usable {
			t.Fatalf("%s of %s is kept back", p.Addr, object.Name)
		}
	}
	if int(given) < len(objects.IPs) && given < s.usable { //nolint:gosec // small
		t.Fatalf("%d of %d addresses are given, and somebody has none", given, s.usable)
	}
}

func FuzzIPs(f *testing.F) {
	f.Add(uint32(0x0a460000), uint8(29), uint8(1), []byte{1, 2, 3, 200, 5})
	f.Add(uint32(0xffffff00), uint8(32), uint8(0), []byte{0, 255, 0})
	f.Fuzz(func(t *testing.T, base uint32, bits, kept uint8, data []byte) {
		cidr := netip.PrefixFrom(fromNumber(base), int(bits%33)).Masked().String()
		network := net("external-cidr "+cidr+" "+cidr, 0)
		network.Spec.PreAllocated = int32(kept)
		objects := IPObjects{Networks: []ipamv1alpha1.Network{network}, External: external}
		for i, b := range data[:min(len(data), 300)] {
			objects.IPs = append(objects.IPs, ip(fmt.Sprintf("a/%d 10.0.0.1", i), int(b)))
		}
		for range 3 { // plan several times, with the addresses of the previous plan
			plan := IPs(objects)
			checkIPLaws(t, objects, plan)
			for i := range objects.IPs {
				if p := plan[keyOf(&objects.IPs[i].ObjectMeta)]; p.Addr.IsValid() && i%2 == 0 {
					objects.IPs[i].Status.IP = p.Addr.String()
				}
			}
		}
	})
}

func TestRemap(t *testing.T) {
	for _, row := range []struct{ real, view, in, out string }{
		{"10.200.0.0/16", "10.71.0.0/16", "10.200.3.4", "10.71.3.4"},
		{"10.0.0.0/16", "10.0.0.0/16", "10.0.255.255", "10.0.255.255"},
		{"10.200.0.0/16", "10.71.0.0/16", "10.201.3.4", "invalid IP"},
		{"10.200.0.0/16", "10.71.0.0/17", "10.200.3.4", "invalid IP"},
		{"1.2.3.4/32", "5.6.7.8/32", "1.2.3.4", "5.6.7.8"},
		{"0.0.0.0/0", "0.0.0.0/0", "9.9.9.9", "9.9.9.9"},
		{"10.200.0.0/20", "172.16.16.0/20", "10.200.15.1", "172.16.31.1"},
		{"10.200.0.0/16", "10.71.0.0/16", "::ffff:10.200.3.4", "invalid IP"},
	} {
		remap := Remap{Real: netip.MustParsePrefix(row.real), View: netip.MustParsePrefix(row.view)}
		got, ok := remap.ToView(netip.MustParseAddr(row.in))
		if got.String() != row.out || ok != got.IsValid() {
			t.Errorf("%s -> %s: %s becomes %s, want %s", row.real, row.view, row.in, got, row.out)
		}
	}
	if _, ok := (Remap{}).ToView(netip.MustParseAddr("10.0.0.1")); ok {
		t.Error("an empty Remap translates")
	}
}

func FuzzRemap(f *testing.F) {
	f.Add(uint32(0x0ac80000), uint32(0x0a470000), uint8(16), uint32(0x0ac80304))
	f.Fuzz(func(t *testing.T, real, view uint32, bits uint8, addr uint32) {
		remap := Remap{
			Real: netip.PrefixFrom(fromNumber(real), int(bits%33)).Masked(), View: netip.PrefixFrom(fromNumber(view), int(bits%33)).Masked(),
		}
		there, ok := remap.ToView(fromNumber(addr))
		if ok != remap.Real.Contains(fromNumber(addr)) {
			t.Fatalf("%s in %s: %v", fromNumber(addr), remap.Real, ok)
		}
		if !ok {
			return
		}
		back, ok := remap.ToReal(there)
		if !ok || back != fromNumber(addr) || !remap.View.Contains(there) {
			t.Fatalf("%s -> %s -> %s", fromNumber(addr), there, back)
		}
		host := func(a netip.Addr) uint32 {
			bytes := a.As4()
			return binary.BigEndian.Uint32(bytes[:]) & (^uint32(0) >> remap.Real.Bits())
		}
		if host(there) != host(fromNumber(addr)) {
			t.Fatalf("%s -> %s: the host bits differ", fromNumber(addr), there)
		}
	})
}

func BenchmarkIPs(b *testing.B) {
	objects := IPObjects{Networks: []ipamv1alpha1.Network{net("external-cidr 10.70.0.0/16 10.70.0.0/16", 0)}, External: external}
	for i := range 5000 {
		objects.IPs = append(objects.IPs, ip(fmt.Sprintf("a/%d 10.0.0.1", i), i))
	}
	b.Run("all new", func(b *testing.B) {
		for b.Loop() {
			IPs(objects)
		}
	})
	given := objects
	given.IPs = slices.Clone(objects.IPs)
	plan := IPs(objects)
	for i := range given.IPs[1:] {
		given.IPs[i].Status.IP = plan[keyOf(&given.IPs[i].ObjectMeta)].Addr.String()
	}
	b.Run("one new", func(b *testing.B) {
		for b.Loop() {
			IPs(given)
		}
	})
}
