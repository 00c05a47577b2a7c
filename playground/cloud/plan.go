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

// LoadBalancerClass is the spec.loadBalancerClass of Services that this package serves. It also serves Services without a class.
const LoadBalancerClass = "playground"

// plan is the desired state of the load balancers of a cluster.
type plan struct {
	// addresses are the addresses of the pool that the interface must have, sorted.
	addresses []netip.Addr
	// statuses contains copies of the Services whose load balancer status must change, with the new status set.
	statuses []*corev1.Service
	// refused contains the Services that get no address, with the reason.
	refused []refusal
}

type refusal struct {
	service *corev1.Service
	reason  string
}

// assign assigns an address of the pool to every Service that wants one. It prefers older Services in each of these steps:
//  1. A Service keeps its current address, unless it requests another one. If two Services have the same address, the older one keeps it.
//  2. Services with spec.loadBalancerIP get the requested address.
//  3. All other Services get the lowest free address.
//
// The result depends only on the Services and the pool, not on the order of the Services.
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

// setStatus plans a status update if the Service's status does not match the address. An invalid address means an empty status.
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

// served reports whether the Service wants an address from this package. A Service that is being deleted loses its address.
func served(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil &&
		ptr.Deref(service.Spec.LoadBalancerClass, LoadBalancerClass) == LoadBalancerClass
}

// current returns the address in the Service's status. It returns false unless there is exactly one valid address.
func current(service *corev1.Service) (netip.Addr, bool) {
	if len(service.Status.LoadBalancer.Ingress) != 1 {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(service.Status.LoadBalancer.Ingress[0].IP)
	return address, err == nil
}

// holds reports whether the status of a Service contains an address of the pool.
func holds(service *corev1.Service, pool []netip.Prefix) bool {
	address, ok := current(service)
	return ok && usable(pool, address)
}

// fits reports whether the address has the Service's IP family and does not contradict its spec.loadBalancerIP.
func fits(service *corev1.Service, address netip.Addr) bool {
	if wish := service.Spec.LoadBalancerIP; wish != "" {
		if parsed, err := netip.ParseAddr(wish); err != nil || parsed != address {
			return false
		}
	}
	return address.Is6() == wantsIPv6(service)
}

// wantsIPv6 reports whether the Service needs an IPv6 address. Its first IP family decides.
func wantsIPv6(service *corev1.Service) bool {
	return len(service.Spec.IPFamilies) > 0 && service.Spec.IPFamilies[0] == corev1.IPv6Protocol
}

// usable reports whether the pool may assign this address.
func usable(pool []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(pool, func(prefix netip.Prefix) bool {
		if !prefix.Contains(address) {
			return false
		}
		if !address.Is4() || prefix.Bits() >= 31 {
			return true
		}
		// The first and last address may be the network address and the broadcast address.
		return prefix.Contains(address.Prev()) && prefix.Contains(address.Next())
	})
}

// lowest returns the lowest free address of the IP family. It searches the prefixes of the pool in their given order.
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
