package cloud

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// service makes a Service of the given age rank: 1 is the oldest.
func service(name string, rank int, change ...func(*corev1.Service)) corev1.Service {
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Unix(int64(1000+rank), 0)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func with(address string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	}
}

func wishing(address string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = address }
}

func class(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
}

func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}

func deleted(s *corev1.Service) { s.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(2000, 0))) }

func ipv6(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }

func prefixes(list ...string) []netip.Prefix {
	var result []netip.Prefix
	for _, p := range list {
		result = append(result, netip.MustParsePrefix(p))
	}
	return result
}

// show writes a plan as lines, the changes of statuses as "name address".
func show(p plan) []string {
	var lines []string
	for _, s := range p.statuses {
		address := "-"
		if len(s.Status.LoadBalancer.Ingress) == 1 {
			address = s.Status.LoadBalancer.Ingress[0].IP
		}
		lines = append(lines, s.Name+" "+address)
	}
	for _, r := range p.refused {
		lines = append(lines, r.service.Name+": "+r.reason)
	}
	return append(lines, fmt.Sprint(p.addresses))
}

func TestAssign(t *testing.T) {
	small := prefixes("10.0.0.0/29") // .1 to .6 can be given
	for name, row := range map[string]struct {
		pool     []netip.Prefix
		services []corev1.Service
		want     []string
	}{
		"nothing": {small, nil, []string{"[]"}},
		"the oldest gets the lowest": {small,
			[]corev1.Service{service("young", 2), service("old", 1)},
			[]string{"old 10.0.0.1", "young 10.0.0.2", "[10.0.0.1 10.0.0.2]"}},
		"what is had is kept": {small,
			[]corev1.Service{service("a", 1), service("b", 2, with("10.0.0.1"))},
			[]string{"a 10.0.0.2", "[10.0.0.1 10.0.0.2]"}},
		"of two with the same the older keeps it": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.3")), service("b", 2, with("10.0.0.3"))},
			[]string{"b 10.0.0.1", "[10.0.0.1 10.0.0.3]"}},
		"an address of another pool is replaced": {small,
			[]corev1.Service{service("a", 1, with("10.9.0.3"))},
			[]string{"a 10.0.0.1", "[10.0.0.1]"}},
		"a network's own and its broadcast address are not had": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.0")), service("b", 2, wishing("10.0.0.7"))},
			[]string{"a 10.0.0.1", "b: address 10.0.0.7 cannot be had from the pool [10.0.0.0/29]", "[10.0.0.1]"}},
		"a wish goes before an older Service without one": {small,
			[]corev1.Service{service("a", 1), service("b", 2, wishing("10.0.0.1"))},
			[]string{"a 10.0.0.2", "b 10.0.0.1", "[10.0.0.1 10.0.0.2]"}},
		"a wish moves": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.1"), wishing("10.0.0.5"))},
			[]string{"a 10.0.0.5", "[10.0.0.5]"}},
		"a wish that another has waits and loses what it had": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.1"), wishing("10.0.0.2")), service("b", 2, with("10.0.0.2"))},
			[]string{"a -", "a: address 10.0.0.2 is taken by another Service", "[10.0.0.2]"}},
		"a wish that is no address": {small,
			[]corev1.Service{service("a", 1, wishing("ten"))},
			[]string{"a: address ten cannot be had from the pool [10.0.0.0/29]", "[]"}},
		"an empty pool": {prefixes("10.0.0.4/32"),
			[]corev1.Service{service("a", 1), service("b", 2)},
			[]string{"a 10.0.0.4", "b: no address is free in the pool [10.0.0.4/32]", "[10.0.0.4]"}},
		"several prefixes": {prefixes("10.0.0.4/32", "fd00::/64", "10.0.1.0/31"),
			[]corev1.Service{service("a", 1), service("b", 2), service("c", 3), service("d", 4, ipv6)},
			[]string{"a 10.0.0.4", "b 10.0.1.0", "c 10.0.1.1", "d fd00::", "[10.0.0.4 10.0.1.0 10.0.1.1 fd00::]"}},
		"a family the pool lacks": {small,
			[]corev1.Service{service("a", 1, ipv6)},
			[]string{"a: no address is free in the pool [10.0.0.0/29]", "[]"}},
		"classes": {small,
			[]corev1.Service{service("a", 1, class("playground")), service("b", 2, class("other")), service("c", 3, class("other"), with("10.0.0.1"))},
			[]string{"a 10.0.0.1", "[10.0.0.1]"}},
		"a Service that is deleted gives its address back": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.1"), deleted), service("b", 2)},
			[]string{"b 10.0.0.1", "[10.0.0.1]"}},
		"a Service that is no load balancer any more": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.1"), ofType(corev1.ServiceTypeClusterIP)), service("b", 2, with("10.9.0.1"), ofType(corev1.ServiceTypeNodePort))},
			[]string{"a -", "[]"}},
		"ipMode is repaired": {small,
			[]corev1.Service{service("a", 1, with("10.0.0.1"), func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = nil })},
			[]string{"a 10.0.0.1", "[10.0.0.1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, show(assign(row.services, row.pool))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAssignLaws walks through random worlds, each made from the last one by applying the plan and changing something.
func TestAssignLaws(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pool := prefixes("10.0.0.0/29", "10.0.1.7/32")
	changes := []func(*corev1.Service){
		func(*corev1.Service) {}, with("10.0.0.2"), with("10.0.0.9"), wishing("10.0.0.3"), wishing("10.0.0.3"), wishing("1.1.1.1"),
		class("other"), class("playground"), deleted, ofType(corev1.ServiceTypeClusterIP), ipv6,
	}
	var world []corev1.Service
	for step := range 3000 {
		if len(world) > 12 || len(world) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(world))
			world = slices.Delete(world, i, i+1)
		} else {
			world = append(world, service(fmt.Sprint("s", step), random.IntN(5), changes[random.IntN(len(changes))]))
		}
		before := plan{}
		for i := range world {
			if address, ok := current(&world[i]); ok && served(&world[i]) && usable(pool, address) && fits(&world[i], address) {
				before.addresses = append(before.addresses, address)
			}
		}
		first := assign(world, pool)

		shuffled := slices.Clone(world)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(show(first), show(assign(shuffled, pool))); diff != "" {
			t.Fatalf("the order of the Services matters: %s", diff)
		}
		if got := len(slices.Compact(slices.Clone(first.addresses))); got != len(first.addresses) {
			t.Fatalf("an address is given twice: %v", first.addresses)
		}
		for _, address := range before.addresses {
			if !slices.Contains(first.addresses, address) {
				t.Fatalf("address %s was taken away: %v", address, show(first))
			}
		}
		for _, changed := range first.statuses {
			i := slices.IndexFunc(world, func(s corev1.Service) bool { return s.Name == changed.Name })
			world[i] = *changed
		}
		second := assign(world, pool)
		if len(second.statuses) > 0 {
			t.Fatalf("the second plan changes %v", show(second))
		}
		if diff := cmp.Diff(fmt.Sprint(first.addresses), fmt.Sprint(second.addresses)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestAddressChanges(t *testing.T) {
	addresses := func(list ...string) (result []netip.Addr) {
		for _, a := range list {
			result = append(result, netip.MustParseAddr(a))
		}
		return result
	}
	pool := prefixes("10.0.0.0/29")
	add, remove := addressChanges(addresses("10.0.0.1", "10.0.0.2", "192.168.1.1", "fe80::1"), addresses("10.0.0.2", "10.0.0.3"), pool)
	if diff := cmp.Diff("[10.0.0.3] [10.0.0.1]", fmt.Sprint(add, remove)); diff != "" {
		t.Error(diff)
	}
	if add, remove := addressChanges(addresses("10.0.0.2"), addresses("10.0.0.2"), pool); add != nil || remove != nil {
		t.Error(add, remove)
	}
}
