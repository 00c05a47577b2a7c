package cloud

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// LoadBalancerClass is the class that asks for this load balancer by name; a Service without class gets it too.
const LoadBalancerClass = "playground"

// plan is what must be true of all Services of a cluster.
type plan struct {
	// addresses are those the interface must have of the pool, sorted.
	addresses []netip.Addr
	// statuses holds the Services whose load balancer status must change, with the new status in place.
	statuses []*corev1.Service
	// refused says why a Service has no address.
	refused []refusal
}

type refusal struct {
	service *corev1.Service
	reason  string
}

// assign gives every Service that wants one an address of the pool. What a Service has it keeps, unless it wants another;
// of two with the same address the older keeps it. Then wishes of spec.loadBalancerIP are served, then the rest with the lowest
// free addresses, always the oldest Service first. The result depends only on the Services, not on their order.
func assign(services []corev1.Service, pool []netip.Prefix) plan {
	byAge := make([]*corev1.Service, 0, len(services))
	for i := range services {
		byAge = append(byAge, &services[i])
	}
	slices.SortFunc(byAge, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	var result plan
	var wanting []*corev1.Service
	for _, service := range byAge {
		switch {
		case served(service):
			wanting = append(wanting, service)
		case service.Spec.Type != corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil && holds(service, pool):
			result.setStatus(service, netip.Addr{})
		}
	}

	given := map[*corev1.Service]netip.Addr{}
	taken := map[netip.Addr]bool{}
	give := func(service *corev1.Service, address netip.Addr) {
		given[service], taken[address] = address, true
	}
	for _, service := range wanting {
		address, ok := current(service)
		if ok && usable(pool, address) && fits(service, address) && !taken[address] {
			give(service, address)
		}
	}
	refuse := map[*corev1.Service]string{}
	for _, service := range wanting {
		if _, done := given[service]; done || service.Spec.LoadBalancerIP == "" {
			continue
		}
		address, err := netip.ParseAddr(service.Spec.LoadBalancerIP)
		switch {
		case err != nil || !usable(pool, address) || !fits(service, address):
			refuse[service] = fmt.Sprintf("address %s cannot be had from the pool %v", service.Spec.LoadBalancerIP, pool)
		case taken[address]:
			refuse[service] = fmt.Sprintf("address %s is taken by another Service", address)
		default:
			give(service, address)
		}
	}
	for _, service := range wanting {
		if _, done := given[service]; done || service.Spec.LoadBalancerIP != "" {
			continue
		}
		if address, ok := lowest(pool, wantsIPv6(service), taken); ok {
			give(service, address)
		} else {
			refuse[service] = fmt.Sprintf("no address is free in the pool %v", pool)
		}
	}

	for _, service := range wanting {
		address := given[service]
		if address.IsValid() {
			result.addresses = append(result.addresses, address)
		} else {
			result.refused = append(result.refused, refusal{service, refuse[service]})
		}
		result.setStatus(service, address)
	}
	slices.SortFunc(result.addresses, netip.Addr.Compare)
	return result
}

// setStatus adds the Service to the changes if its status differs from what the address asks for.
func (p *plan) setStatus(service *corev1.Service, address netip.Addr) {
	var want corev1.LoadBalancerStatus
	if address.IsValid() {
		want.Ingress = []corev1.LoadBalancerIngress{{IP: address.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	}
	if apiequality.Semantic.DeepEqual(service.Status.LoadBalancer, want) {
		return
	}
	changed := service.DeepCopy()
	changed.Status.LoadBalancer = want
	p.statuses = append(p.statuses, changed)
}

// served says whether the Service wants an address from here. One that is being deleted gives its address back.
func served(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil &&
		ptr.Deref(service.Spec.LoadBalancerClass, LoadBalancerClass) == LoadBalancerClass
}

// current returns the address in the Service's status.
func current(service *corev1.Service) (netip.Addr, bool) {
	if len(service.Status.LoadBalancer.Ingress) != 1 {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(service.Status.LoadBalancer.Ingress[0].IP)
	return address, err == nil
}

// holds says whether the status of a Service names an address of the pool.
func holds(service *corev1.Service, pool []netip.Prefix) bool {
	address, ok := current(service)
	return ok && usable(pool, address)
}

// fits says whether the Service can be reached at the address and does not wish another one.
func fits(service *corev1.Service, address netip.Addr) bool {
	if wish := service.Spec.LoadBalancerIP; wish != "" {
		if parsed, err := netip.ParseAddr(wish); err != nil || parsed != address {
			return false
		}
	}
	return address.Is6() == wantsIPv6(service)
}

// wantsIPv6 tells the family of a Service's address: that of its first cluster address.
func wantsIPv6(service *corev1.Service) bool {
	return len(service.Spec.IPFamilies) > 0 && service.Spec.IPFamilies[0] == corev1.IPv6Protocol
}

// usable says whether the pool can give this address away.
func usable(pool []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(pool, func(prefix netip.Prefix) bool {
		if !prefix.Contains(address) {
			return false
		}
		if !address.Is4() || prefix.Bits() >= 31 {
			return true
		}
		// The outermost addresses may be a network's own and its broadcast address.
		return prefix.Contains(address.Prev()) && prefix.Contains(address.Next())
	})
}

// lowest returns the first usable address of the family that is not taken, trying the prefixes in their order.
func lowest(pool []netip.Prefix, ipv6 bool, taken map[netip.Addr]bool) (netip.Addr, bool) {
	for _, prefix := range pool {
		if prefix.Addr().Is6() != ipv6 {
			continue
		}
		for address := prefix.Masked().Addr(); prefix.Contains(address); address = address.Next() {
			if usable(pool, address) && !taken[address] {
				return address, true
			}
		}
	}
	return netip.Addr{}, false
}
